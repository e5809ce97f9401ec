//! Splits a stream of chunks into server-sent events.

/// Buffers bytes and passes on the data of each event.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The incomplete line.
    line: Vec<u8>,
    /// The data of the incomplete event.
    data: Vec<u8>,
    /// Whether the last byte was CR, so that a following LF belongs to it.
    after_carriage_return: bool,
    /// Whether a line was read, so that no byte order mark can follow.
    has_started: bool,
}

impl Events {
    /// Adds bytes and calls `event` with the data of each completed event.
    pub(crate) fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_carriage_return && !bytes.is_empty() {
            self.after_carriage_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = (&bytes[..end], &bytes[end..]);
            if self.line.is_empty() {
                self.end_line(line, event)?;
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.end_line(&whole, event)?;
                // Keeps the buffer's capacity for the next line.
                whole.clear();
                self.line = whole;
            }
            bytes = match rest {
                [b'\r'] => {
                    self.after_carriage_return = true;
                    &[]
                }
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => &[],
            };
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the stream. A last event without an empty line counts as complete, because some servers omit
    /// that line; its content shows whether it is.
    pub(crate) fn end<E>(
        &mut self,
        event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line, event)?;
        }
        self.dispatch(event)
    }

    fn end_line<E>(
        &mut self,
        line: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = if std::mem::replace(&mut self.has_started, true) {
            line
        } else {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        };
        if line.is_empty() {
            return self.dispatch(event);
        }
        // Comments and the fields `event`, `id` and `retry` are not needed.
        let Some(data) = line.strip_prefix(b"data:") else {
            return Ok(());
        };
        let data = data.strip_prefix(b" ").unwrap_or(data);
        if self.data.is_empty() {
            self.data.extend_from_slice(data);
            return Ok(());
        }
        // Some servers omit the empty line between events. Then the data so far is complete JSON, which the
        // first lines of a longer event are not.
        let complete = self.data == b"[DONE]"
            || serde_json::from_slice::<serde::de::IgnoredAny>(&self.data).is_ok();
        if complete {
            self.dispatch(event)?;
        } else {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        Ok(())
    }

    fn dispatch<E>(&mut self, event: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.data.is_empty() {
            return Ok(());
        }
        let mut data = std::mem::take(&mut self.data);
        let outcome = event(&data);
        data.clear();
        self.data = data;
        outcome
    }
}
