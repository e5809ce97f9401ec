//! How many values a JSON text holds, counted without reading it as JSON.

/// Counts the values of a JSON text that comes in pieces.
///
/// A value of two bytes takes many times as much in memory, so that a bound on bytes alone bounds little.
/// Counted is what begins a list, an object or a further entry: never less than the values that there are,
/// beside the names of fields.
#[derive(Debug, Clone, Default)]
pub struct ValueCounter {
    marks: usize,
    in_string: bool,
    is_escaped: bool,
}

impl ValueCounter {
    /// The values of a whole text.
    pub fn count(text: &[u8]) -> usize {
        let mut counter = Self::default();
        counter.feed(text);
        counter.values()
    }

    /// Takes the next piece of the text.
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

    /// How many values there are at most, so far.
    pub fn values(&self) -> usize {
        self.marks.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
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
