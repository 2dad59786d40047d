//! What a guest writes to standard output and standard error.

use std::collections::VecDeque;

use crate::call_error::MESSAGE_BYTES;

/// The end of what was written in the call under way: at most 64 KiB, since what explains a failure
/// comes last.
#[derive(Default)]
pub(crate) struct Written {
    end: VecDeque<u8>,
    left_out: u64,
}

impl Written {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(MESSAGE_BYTES)..];
        let excess = (self.end.len() + kept.len()).saturating_sub(MESSAGE_BYTES);
        self.end.drain(..excess);
        self.end.extend(kept);
        self.left_out += (excess + bytes.len() - kept.len()) as u64;
    }

    /// Takes it as text, which says how much of its beginning is missing.
    pub(crate) fn take(&mut self) -> String {
        // Nothing is what nearly every call has written.
        if self.end.is_empty() {
            return String::new();
        }
        let end = Vec::from(std::mem::take(&mut self.end));
        let text = String::from_utf8_lossy(&end);
        match std::mem::take(&mut self.left_out) {
            0 => text.into_owned(),
            bytes => format!("[{bytes} bytes before this were left out]\n{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_BYTES, Written};

    #[test]
    fn the_end_is_kept() {
        let mut written = Written::default();
        assert_eq!(written.take(), "");
        written.write(b"one ");
        written.write(b"two\xff");
        assert_eq!(written.take(), "one two\u{fffd}");
        assert_eq!(written.take(), "");

        written.write(b"lost");
        written.write(&[b'x'; MESSAGE_BYTES - 2]);
        written.write(b"end");
        let text = written.take();
        assert!(text.starts_with("[5 bytes before this were left out]\nxxx"));
        assert!(text.ends_with("xend"));
        assert_eq!(text.lines().nth(1).unwrap().len(), MESSAGE_BYTES);

        written.write(b"lost");
        written.write(&[b'y'; MESSAGE_BYTES + 1]);
        assert!(written.take().starts_with("[5 bytes"));
        written.write(b"fresh");
        assert_eq!(written.take(), "fresh");
    }
}
