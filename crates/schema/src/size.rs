//! Counts the values in a JSON text without parsing it.

/// Counts the values of a JSON text that arrives in chunks.
///
/// A value of two bytes takes many times as much memory once parsed, so a bound on bytes does not bound
/// memory. The counter counts opening brackets and commas outside strings: never fewer than there are
/// values, not counting property names.
#[derive(Debug, Clone, Default)]
pub struct ValueCounter {
    marks: usize,
    in_string: bool,
    is_escaped: bool,
}

impl ValueCounter {
    /// The count of a whole text.
    pub fn count(text: &[u8]) -> usize {
        let mut counter = Self::default();
        counter.feed(text);
        counter.values()
    }

    /// Adds the next chunk.
    pub fn feed(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                b',' | b'[' | b'{' if !self.in_string => self.marks = self.marks.saturating_add(1),
                _ => {}
            }
        }
    }

    /// An upper bound of the values so far.
    pub fn values(&self) -> usize {
        self.marks.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_strings() {
        for (text, values) in [
            ("1", 1),
            ("[1,2,3]", 4),
            (r#"{"a":{"b":1},"c":2}"#, 4),
            (r#"[",,,,[[[{{{"]"#, 2),
            (r#"["\",,,,\\",1]"#, 3),
            (r#"["\\",1,2]"#, 4),
        ] {
            assert_eq!(ValueCounter::count(text.as_bytes()), values, "{text}");
            let mut counter = ValueCounter::default();
            for byte in text.bytes() {
                counter.feed(&[byte]);
            }
            assert_eq!(counter.values(), values, "{text}");
        }
    }
}
