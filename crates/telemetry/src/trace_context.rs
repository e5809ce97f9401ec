//! Where a piece of work stands in a distributed trace, as W3C Trace Context writes it (`traceparent`).
//!
//! Ids are derived from those of tasks and calls, so that the same call has the same span in every process and after
//! every restart, and no random source is needed.

use std::fmt;

use uuid::Uuid;

/// The flags that are understood: `sampled`, and `random`, which says that the trace id is. Others are not passed on.
const KNOWN_FLAGS: u8 = 0b11;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 0b01;

/// A span in a trace. Displayed as a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
}

/// The id of a trace. Displayed as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// The id of a span. Displayed as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

impl TraceContext {
    /// The first span of a new trace, which has the id of the task that begins it.
    pub fn begin(task: Uuid) -> Self {
        Self {
            trace_id: task.as_u128().max(1),
            span_id: span_of(task),
            flags: SAMPLED,
        }
    }

    /// Reads a `traceparent`. There is none in what breaks the format, and whoever is given that begins a new trace. A
    /// later version of the format is read as far as this one goes.
    pub fn parse(traceparent: &str) -> Option<Self> {
        let mut fields = traceparent.splitn(5, '-');
        let version = hexadecimal(fields.next()?, 2)?;
        let trace_id = hexadecimal(fields.next()?, 32)?;
        let span_id = hexadecimal(fields.next()?, 16)?;
        let flags = hexadecimal(fields.next()?, 2)?;
        let is_longer = fields.next().is_some();
        if version == 0xff || (version == 0 && is_longer) || trace_id == 0 || span_id == 0 {
            return None;
        }
        Some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            flags: u8::try_from(flags).ok()? & KNOWN_FLAGS,
        })
    }

    /// The span of a task or of a call in the same trace.
    #[must_use]
    pub fn at(self, id: Uuid) -> Self {
        Self {
            span_id: span_of(id),
            ..self
        }
    }

    /// A span below this one. Different numbers give different spans.
    #[must_use]
    pub fn child(self, number: u64) -> Self {
        let distance = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.span_id.wrapping_add(distance);
        for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
            mixed = (mixed ^ (mixed >> 31)).wrapping_mul(factor);
        }
        Self {
            span_id: (mixed ^ (mixed >> 31)).max(1),
            ..self
        }
    }

    /// The trace.
    pub fn trace_id(self) -> TraceId {
        TraceId(self.trace_id)
    }

    /// The span.
    pub fn span_id(self) -> SpanId {
        SpanId(self.span_id)
    }
}

/// The half of an id that tells it from others that were made at the same time.
fn span_of(id: Uuid) -> u64 {
    id.as_u64_pair().1.max(1)
}

/// Reads lower-case digits; capitals break the format.
fn hexadecimal(digits: &str, length: usize) -> Option<u128> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != length || !digits.as_bytes().iter().all(is_digit) {
        return None;
    }
    u128::from_str_radix(digits, 16).ok()
}

/// Writes a number in as many digits as there is room for. A trace is named with every request to a model, and the
/// formatter of numbers costs several times as much.
fn write_digits(mut number: u128, room: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for digit in room.iter_mut().rev() {
        *digit = DIGITS[(number & 0xf) as usize];
        number >>= 4;
    }
}

/// Writes ASCII text.
fn write_ascii(text: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(std::str::from_utf8(text).map_err(|_| fmt::Error)?)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = *b"00-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff";
        write_digits(self.trace_id, &mut text[3..35]);
        write_digits(self.span_id.into(), &mut text[36..52]);
        write_digits(self.flags.into(), &mut text[53..]);
        write_ascii(&text, f)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 32];
        write_digits(self.0, &mut text);
        write_ascii(&text, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 16];
        write_digits(self.0.into(), &mut text);
        write_ascii(&text, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const KNOWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_and_written() {
        let context = TraceContext::parse(KNOWN).unwrap();
        assert_eq!(context.to_string(), KNOWN);
        assert_eq!(
            context.trace_id().to_string(),
            "0af7651916cd43dd8448eb211c80319c"
        );
        assert_eq!(context.span_id().to_string(), "b7ad6b7169203331");
    }

    #[test]
    fn what_breaks_the_format_is_no_traceparent() {
        for broken in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes";
        assert_eq!(TraceContext::parse(later).unwrap().to_string(), KNOWN);
        let flags = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe";
        let kept = TraceContext::parse(flags).unwrap().to_string();
        assert!(kept.ends_with("-02"), "{kept}");
    }

    #[test]
    fn every_span_below_another_has_an_id_of_its_own() {
        let context = TraceContext::begin(Uuid::from_u128(7));
        let mut seen = HashSet::from([context.span_id()]);
        for number in 0..1_000 {
            let child = context.child(number);
            assert_eq!(child.trace_id(), context.trace_id());
            assert!(seen.insert(child.span_id()), "{number}");
        }
    }

    proptest! {
        #[test]
        fn whatever_begins_can_be_read_back(id: u128, other: u128, number: u64) {
            for context in [
                TraceContext::begin(Uuid::from_u128(id)),
                TraceContext::begin(Uuid::from_u128(id)).at(Uuid::from_u128(other)),
                TraceContext::begin(Uuid::from_u128(id)).child(number),
            ] {
                prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
            }
        }

        #[test]
        fn no_text_breaks_the_reader(text: String) {
            let _ = TraceContext::parse(&text);
        }
    }
}
