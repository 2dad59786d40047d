//! From the bytes of one split to emitted records: framing, header, decoding and the decode policy in one place, for
//! every source that reads bytes.

use super::framer::{Frame, Framer, Mark};
use super::{Emit, Error};
use crate::batch::{NO_TIME, Origin};
use crate::decode::dead_letter::{Letter, Spot, Writer};
use crate::decode::{self, Columns, Decoder};
use crate::job::model::{self, ErrorPolicy, Format, Header, NodeId};

/// A source's way to decode: shared by the splits that a subtask reads one after the other.
#[derive(Debug)]
pub(super) struct Decoding {
    source: NodeId,
    decoder: Decoder,
    policy: ErrorPolicy,
}

/// What ended a [`Records::emit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// The receiver has enough for now.
    Full,
    /// More bytes are needed.
    Hungry,
    /// The split is done.
    Done,
}

/// A split that is being read.
#[derive(Debug)]
pub(super) struct Records {
    split: u32,
    /// The split's number among all of the job's.
    origin_split: u32,
    name: String,
    framer: Framer,
    columns: Option<Columns>,
    /// Whether the first row may be the header that is known already.
    header_may_repeat: bool,
    max_time: i64,
}

impl Decoding {
    pub(super) fn new(source: &model::Source) -> Result<Decoding, Error> {
        Ok(Decoding {
            source: source.id.clone(),
            decoder: Decoder::new(source).map_err(|error| Error::Invalid(error.to_string()))?,
            policy: source.on_error.clone(),
        })
    }

    pub(super) fn format(&self) -> &Format {
        self.decoder.format()
    }

    /// The columns of a header that was read before, by the split called `name`.
    pub(super) fn columns(&self, names: Vec<String>, name: &str) -> Result<Columns, Error> {
        self.decoder
            .columns(names)
            .map_err(|error| self.bad_header(name, &error))
    }

    fn bad_header(&self, name: &str, error: &decode::Error) -> Error {
        Error::Invalid(format!(
            "source `{}`: {name}: {error}; the first row of a CSV file must name its columns, unless `csv: {{header: …}}` does",
            self.source
        ))
    }

    /// Does with a line that is no record what the policy says.
    fn bad_record(
        &mut self,
        split: u32,
        origin: Origin,
        name: &str,
        frame: Frame<'_>,
        what: &str,
        emit: &mut dyn Emit,
    ) -> Result<(), Error> {
        match &self.policy {
            ErrorPolicy::Fail => {
                return Err(Error::Decode {
                    name: name.to_owned(),
                    line: frame.line,
                    what: format!(
                        "{what}; correct the line, or go on without such lines with `on_error: skip` or \
                         `on_error: {{dead_letter: SINK}}` under source `{}`",
                        self.source
                    ),
                });
            }
            ErrorPolicy::Skip => emit.skipped(split),
            ErrorPolicy::DeadLetter(_) => {
                let letter = Letter {
                    writer: Writer::Source {
                        source: self.source.as_str(),
                        spot: Spot::Line {
                            file: name,
                            line: frame.line,
                            offset: frame.offset,
                        },
                        cut: frame.too_long,
                    },
                    error: what,
                    key: None,
                    value: Some(frame.bytes),
                    headers: Vec::new(),
                    time: None,
                };
                emit.dead_letter(split, &letter, origin);
            }
        }
        Ok(())
    }
}

impl Records {
    /// Split number `split`, which is `origin_split` among all of the job's, from where `framer` stands, with the header that was read
    /// before it if there was one.
    pub(super) fn new(
        split: u32,
        origin_split: u32,
        name: &str,
        framer: Framer,
        columns: Option<Columns>,
        max_time: i64,
    ) -> Records {
        Records {
            split,
            origin_split,
            name: name.to_owned(),
            framer,
            columns,
            header_may_repeat: false,
            max_time,
        }
    }

    /// From now on a first row that equals the known header is taken for one, if files have headers.
    pub(super) fn expect_header_again(&mut self, format: &Format) {
        let header = Header::First;
        let has_header = matches!(format, Format::Csv { header: of, .. } if *of == header);
        self.header_may_repeat = has_header && self.columns.is_some();
    }

    pub(super) fn framer(&mut self) -> &mut Framer {
        &mut self.framer
    }

    pub(super) fn mark(&self) -> Mark {
        self.framer.mark()
    }

    pub(super) fn columns(&self) -> Option<&Columns> {
        self.columns.as_ref()
    }

    pub(super) fn max_time(&self) -> i64 {
        self.max_time
    }

    /// Emits what is there until the receiver is full.
    pub(super) fn emit(
        &mut self,
        decoding: &mut Decoding,
        emit: &mut dyn Emit,
    ) -> Result<Pause, Error> {
        let header = match decoding.format() {
            Format::Csv { header, .. } if self.columns.is_none() => Some(header.clone()),
            _ => None,
        };
        loop {
            if emit.full() {
                return Ok(Pause::Full);
            }
            let Some(frame) = self.framer.next() else {
                return Ok(if self.framer.is_done() {
                    Pause::Done
                } else {
                    Pause::Hungry
                });
            };
            if decoding.decoder.is_blank(frame.bytes) {
                continue;
            }
            if let (Some(header), None) = (&header, &self.columns) {
                let columns = match header {
                    Header::Names(names) => decoding.decoder.columns(names.clone()),
                    _ if frame.too_long => Err(decode::Error::Header(
                        "the first row is longer than 64 MiB".to_owned(),
                    )),
                    Header::First => decoding.decoder.header(frame.bytes),
                    Header::Numbered => decoding.decoder.numbered(frame.bytes),
                };
                let columns = columns.map_err(|error| decoding.bad_header(&self.name, &error))?;
                self.columns = Some(columns);
                if *header == Header::First {
                    continue;
                }
            }
            if std::mem::take(&mut self.header_may_repeat)
                && !frame.too_long
                && decoding.decoder.header(frame.bytes).ok() == self.columns
            {
                continue;
            }
            let origin = Origin::new(self.origin_split, frame.line);
            let decoded = if frame.too_long {
                Err(decode::Error::Record("longer than 64 MiB".to_owned()))
            } else {
                decoding.decoder.decode(frame.bytes, self.columns.as_ref())
            };
            match decoded {
                Ok(record) => {
                    if record.time != NO_TIME {
                        self.max_time = self.max_time.max(record.time);
                    }
                    emit.record(
                        self.split,
                        record.key,
                        Some(record.value),
                        record.time,
                        origin,
                    );
                }
                Err(error) => {
                    let what = error.to_string();
                    decoding.bad_record(self.split, origin, &self.name, frame, &what, emit)?;
                }
            }
        }
    }
}
