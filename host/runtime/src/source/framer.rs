//! Cuts a stream of bytes into lines or CSV rows, in bounded memory.
//!
//! The stream is pushed in, in pieces of any size, so that a reader may wait for more between two pieces; what comes out
//! does not depend on the pieces. A line ends with LF or CRLF or where the stream does; a CR elsewhere is data, and so is
//! a byte order mark anywhere but at the very start. A CSV row ends at the first line end that is not in quotes, if there are any.
//!
//! The framer keeps the last [`HISTORY`] bytes before its position, whose hash identifies what was read (see
//! [`Mark`]): a reader that comes back to the position can tell whether it is still the same stream.

use crate::batch::MAX_RECORD_BYTES;
use crate::decode::dead_letter;
use crate::job::model::Format;

/// Bytes before a position that its hash covers.
pub(super) const HISTORY: usize = 64 * 1024;

/// Least room for a read.
pub(super) const CHUNK: usize = 128 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A place between two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Bytes of the stream before it.
    pub(super) offset: u64,
    /// Line that begins here, from 1.
    pub(super) line: u64,
    /// XXH3-64 of the last [`HISTORY`] bytes before it (all, if there are fewer).
    pub(super) tail: u64,
}

/// A line or row, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// Its bytes; only the first of them if it is too long.
    pub(super) bytes: &'a [u8],
    /// Line it begins on, from 1.
    pub(super) line: u64,
    /// Byte of the stream it begins at, from 0.
    pub(super) offset: u64,
    /// Whether it is longer than the limit.
    pub(super) too_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Lines,
    Rows { delimiter: u8, quote: u8 },
}

/// Where in a row the scan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote inside a quoted field: its end, or half of a doubled quote.
    QuoteInQuoted,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Framer {
    framing: Framing,
    limit: usize,
    buffer: Vec<u8>,
    /// End of the bytes pushed in.
    end: usize,
    /// Beginning of the next frame (or of what is left of one that is too long).
    head: usize,
    /// How far the search for the frame's end got, and in what state.
    scanned: usize,
    place: Place,
    /// Line ends in quotes between `head` and `scanned`.
    inner_lines: u64,
    /// Of `head`.
    offset: u64,
    line: u64,
    /// Where the frame began of which more than the limit was seen: the rest of it is passed over.
    too_long: Option<Mark>,
    /// The beginning of the last such frame.
    kept: Vec<u8>,
    ended: bool,
}

impl Framer {
    /// At the start of a stream of `format`.
    pub(super) fn new(format: &Format) -> Framer {
        Framer::with_limit(format, MAX_RECORD_BYTES)
    }

    pub(super) fn with_limit(format: &Format, limit: usize) -> Framer {
        let framing = match *format {
            Format::Csv {
                delimiter,
                quote: Some(quote),
                ..
            } => Framing::Rows { delimiter, quote },
            Format::Raw | Format::Text | Format::Json | Format::Csv { quote: None, .. } => {
                Framing::Lines
            }
        };
        Framer {
            framing,
            limit,
            buffer: vec![0; HISTORY + 2 * CHUNK],
            end: 0,
            head: 0,
            scanned: 0,
            place: Place::FieldStart,
            inner_lines: 0,
            offset: 0,
            line: 1,
            too_long: None,
            kept: Vec::new(),
            ended: false,
        }
    }

    /// In the midst of a stream: at byte `offset`, where line `line` begins, after the bytes of `history`.
    pub(super) fn resume(format: &Format, offset: u64, line: u64, history: &[u8]) -> Framer {
        let mut framer = Framer::new(format);
        debug_assert_eq!(history.len() as u64, offset.min(HISTORY as u64));
        framer.buffer[..history.len()].copy_from_slice(history);
        framer.end = history.len();
        framer.head = history.len();
        framer.scanned = history.len();
        framer.offset = offset;
        framer.line = line;
        framer
    }

    /// In the midst of a stream whose earlier bytes are not known; marks cover what comes from here on.
    pub(super) fn continued(format: &Format, offset: u64, line: u64) -> Framer {
        Framer {
            offset,
            line,
            ..Framer::new(format)
        }
    }

    /// Room for the next piece of the stream, [`CHUNK`] bytes to twice that; what was written is then [`Framer::filled`].
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.buffer.len() - self.end < CHUNK {
            let dropped = self.head.saturating_sub(HISTORY);
            self.buffer.copy_within(dropped..self.end, 0);
            self.end -= dropped;
            self.head -= dropped;
            self.scanned -= dropped;
            if self.buffer.len() - self.end < CHUNK {
                let size = (self.buffer.len() * 2)
                    .min(HISTORY + self.limit + 2 * CHUNK)
                    .max(self.end + CHUNK);
                self.buffer.resize(size, 0);
            }
        }
        // No more at once, however large a line made the buffer: a read is to be short.
        let end = self.buffer.len().min(self.end + 2 * CHUNK);
        &mut self.buffer[self.end..end]
    }

    /// `bytes` more bytes of the stream are in the room.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// The stream has ended.
    pub(super) fn finish(&mut self) {
        self.ended = true;
    }

    /// Whether the stream has ended and every frame of it was taken.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.head == self.end && self.too_long.is_none()
    }

    /// Where the next frame begins.
    pub(super) fn mark(&self) -> Mark {
        if let Some(start) = self.too_long {
            return start;
        }
        Mark {
            offset: self.offset,
            line: self.line,
            tail: tail_hash(&self.buffer[self.head.saturating_sub(HISTORY)..self.head]),
        }
    }

    /// The next frame, or `None` until more was pushed in, or for good if the stream has ended.
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        if self.offset == 0 && self.too_long.is_none() && self.scanned == 0 {
            let start = &self.buffer[..self.end.min(BYTE_ORDER_MARK.len())];
            if start == BYTE_ORDER_MARK {
                self.head = BYTE_ORDER_MARK.len();
                self.scanned = self.head;
                self.offset = self.head as u64;
            } else if BYTE_ORDER_MARK.starts_with(start) && !self.ended {
                return None;
            }
        }
        let (end, next) = match self.find_end() {
            Some(line_end) => (line_end, line_end + 1),
            None if self.ended && (self.head < self.end || self.too_long.is_some()) => {
                (self.end, self.end)
            }
            None => {
                self.pass_over();
                return None;
            }
        };
        let has_line_end = next > end;
        let end = if has_line_end && end > self.head && self.buffer[end - 1] == b'\r' {
            end - 1
        } else {
            end
        };
        if self.too_long.is_none() && end - self.head > self.limit {
            self.begin_too_long();
        }
        let (line, offset, bytes) = (self.line, self.offset, self.head..end);
        self.line += self.inner_lines + u64::from(has_line_end);
        self.inner_lines = 0;
        self.offset += (next - self.head) as u64;
        self.head = next;
        self.scanned = next;
        self.place = Place::FieldStart;
        Some(match self.too_long.take() {
            None => Frame {
                bytes: &self.buffer[bytes],
                line,
                offset,
                too_long: false,
            },
            Some(start) => Frame {
                bytes: &self.kept,
                line: start.line,
                offset: start.offset,
                too_long: true,
            },
        })
    }

    /// Remembers that the frame at `head`, of which more than the limit is there, is too long.
    fn begin_too_long(&mut self) {
        self.too_long = Some(self.mark());
        let kept = self.limit.min(dead_letter::MAX_VALUE_BYTES);
        self.kept.clear();
        self.kept
            .extend_from_slice(&self.buffer[self.head..self.head + kept]);
    }

    /// Lets go of what was scanned without finding an end, once that is over the limit.
    fn pass_over(&mut self) {
        if self.too_long.is_none() {
            // One more than the limit: it may be a CR that belongs to the line end.
            if self.scanned - self.head <= self.limit + 1 {
                return;
            }
            self.begin_too_long();
        }
        self.line += self.inner_lines;
        self.inner_lines = 0;
        self.offset += (self.scanned - self.head) as u64;
        self.head = self.scanned;
    }

    /// The LF that ends the frame, searched from `scanned`, which moves along.
    fn find_end(&mut self) -> Option<usize> {
        match self.framing {
            Framing::Lines => {
                let found = memchr::memchr(b'\n', &self.buffer[self.scanned..self.end]);
                let found = found.map(|at| self.scanned + at);
                self.scanned = found.unwrap_or(self.end);
                found
            }
            Framing::Rows { delimiter, quote } => {
                if self.scanned == self.head && self.place == Place::FieldStart {
                    // Most rows have no quotes.
                    let rest = &self.buffer[self.head..self.end];
                    if let Some(end) = memchr::memchr(b'\n', rest)
                        && memchr::memchr(quote, &rest[..end]).is_none()
                    {
                        return Some(self.head + end);
                    }
                }
                self.find_row_end(delimiter, quote)
            }
        }
    }

    fn find_row_end(&mut self, delimiter: u8, quote: u8) -> Option<usize> {
        let bytes = &self.buffer[..self.end];
        while self.scanned < bytes.len() {
            let byte = bytes[self.scanned];
            match self.place {
                Place::FieldStart | Place::QuoteInQuoted => {
                    self.place = match byte {
                        b'\n' => return Some(self.scanned),
                        byte if byte == quote => Place::Quoted,
                        byte if byte == delimiter => Place::FieldStart,
                        _ => Place::Unquoted,
                    };
                    self.scanned += 1;
                }
                Place::Unquoted => {
                    let Some(at) = memchr::memchr2(delimiter, b'\n', &bytes[self.scanned..]) else {
                        self.scanned = bytes.len();
                        break;
                    };
                    self.scanned += at;
                    if bytes[self.scanned] == b'\n' {
                        return Some(self.scanned);
                    }
                    self.scanned += 1;
                    self.place = Place::FieldStart;
                }
                Place::Quoted => {
                    let rest = &bytes[self.scanned..];
                    let found = memchr::memchr(quote, rest);
                    let inside = &rest[..found.unwrap_or(rest.len())];
                    self.inner_lines += memchr::memchr_iter(b'\n', inside).count() as u64;
                    self.scanned += inside.len();
                    if found.is_some() {
                        self.scanned += 1;
                        self.place = Place::QuoteInQuoted;
                    }
                }
            }
        }
        None
    }
}

/// The hash that a [`Mark`] carries of the bytes before it.
pub(super) fn tail_hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests;
