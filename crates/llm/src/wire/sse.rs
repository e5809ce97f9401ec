//! Takes a stream of server-sent events apart, however it was cut into chunks.

/// Collects bytes and hands out the data of each event.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// The data of the event that is not complete yet.
    data: Vec<u8>,
    /// The last byte was a carriage return, so that a line feed now belongs to it.
    after_return: bool,
    /// Some line was read, so that no byte order mark can come any more.
    begun: bool,
}

impl Events {
    /// Takes the next bytes and calls `event` with the data of each event that they complete.
    pub(crate) fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
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
                // The buffer is kept for the next line.
                whole.clear();
                self.line = whole;
            }
            bytes = match rest {
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => &[],
            };
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The stream ended. A last event without its empty line is taken as complete, because some
    /// servers leave that line out; whether it is so its content will tell.
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
        let line = if std::mem::replace(&mut self.begun, true) {
            line
        } else {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        };
        if line.is_empty() {
            return self.dispatch(event);
        }
        // Comments, and the fields `event`, `id` and `retry`, say nothing that we need.
        let Some(data) = line.strip_prefix(b"data:") else {
            return Ok(());
        };
        let data = data.strip_prefix(b" ").unwrap_or(data);
        if self.data.is_empty() {
            self.data.extend_from_slice(data);
            return Ok(());
        }
        // Some servers leave out the empty line between events. Then what came before is JSON in
        // itself, which the first lines of a longer event are not.
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
