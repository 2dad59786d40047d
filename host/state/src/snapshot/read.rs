//! Reading the file; the layout is in the parent module.
//!
//! The reader trusts nothing: lengths are capped and memory grows with what was really read, rows
//! are checked to be what the format says, in order, of the section's group and of a declared
//! state, and every checksum must hold. It hands rows over before it has seen the last checksum, so
//! nothing counts before [`File::read`] has returned.

use std::io::{BufRead, BufReader, Read};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::declared::{Stored, Tables};
use super::header::MAX_HEADER;
use super::{CELL_GONE, FOOTER, GONE, Header, MAGIC, MAX_ROW, SectionKind, VERSION};
use crate::stored_key::StoredKey;
use crate::stored_value::StoredValue;
use crate::timers::Registration;
use crate::{Error, Schema};

/// Takes what the reader finds. An error it returns is the reader's.
pub(super) trait Visitor {
    /// A section begins; whether its rows are wanted, or what is wrong with its being there.
    fn section(&mut self, kind: SectionKind, group: u16) -> Result<Wanted, Error>;
    /// A row of a section that is wanted.
    fn row(&mut self, row: Row<'_>);
    /// A row of a section that is wanted, as it is in the file, of a state or timer that the
    /// operator does not declare, or declares otherwise.
    fn undeclared(
        &mut self,
        stored_key: &[u8],
        change: Undeclared,
        why: Error,
    ) -> Result<(), Error>;
}

/// What a visitor says of a section.
pub(super) enum Wanted {
    Yes,
    No,
    /// It must not be there.
    Misplaced(String),
}

/// A row; the index in the key counts the reading operator's declarations.
pub(super) struct Row<'a> {
    pub(super) hash: u64,
    pub(super) key: StoredKey<'a>,
    pub(super) change: Change<'a>,
}

pub(super) enum Change<'a> {
    Value(StoredValue<'a>),
    Timer(Registration),
    Gone,
    CellGone,
}

/// What a row did that cannot be restored.
pub(super) enum Undeclared {
    Held,
    Gone,
    CellGone,
}

/// A file whose header was read.
pub(super) struct File<'a> {
    source: Source<'a>,
    pub(super) header: Header,
}

impl<'a> File<'a> {
    pub(super) fn open(reader: &'a mut dyn Read, name: &'a str) -> Result<File<'a>, Error> {
        let mut source = Source {
            reader: BufReader::with_capacity(BUFFER, reader),
            name,
            offset: 0,
            file: Xxh3::new(),
        };
        let header = read_header(&mut source)?;
        Ok(File { source, header })
    }

    /// Reads and verifies the rest for an operator with these declarations.
    pub(super) fn read(self, schema: &Schema, visitor: &mut dyn Visitor) -> Result<(), Error> {
        let File { mut source, header } = self;
        let mut tables = Tables::new(source.name, &header.schema, schema);
        let mut totals = Totals::default();
        let mut next_group = header.range.start;
        loop {
            let at = source.offset;
            let [tag] = source.array()?;
            let kinds = [SectionKind::Base, SectionKind::Delta];
            if let Some(kind) = kinds.into_iter().find(|kind| *kind as u8 == tag) {
                let group = read_section(
                    &mut source,
                    &header,
                    (kind, next_group),
                    &mut tables,
                    visitor,
                    &mut totals,
                )?;
                next_group = group + 1;
            } else if tag == FOOTER {
                break;
            } else {
                let what = format!("neither a section nor the footer: {tag}");
                return Err(source.corrupt_at(at, what));
            }
        }
        let at = source.offset;
        let expected = Totals {
            sections: u32::from_le_bytes(source.array()?),
            entries: source.u64()?,
            timers: source.u64()?,
            removals: source.u64()?,
            bytes: source.u64()?,
        };
        if expected != totals {
            let what = format!("the footer announces {expected:?}, the file holds {totals:?}");
            return Err(source.corrupt_at(at, what));
        }
        let computed = source.file.digest();
        source.checksum(computed, "the file")?;
        source.end()
    }
}

#[derive(Debug, Default, PartialEq)]
struct Totals {
    sections: u32,
    entries: u64,
    timers: u64,
    removals: u64,
    bytes: u64,
}

/// What a section's rows are counted as.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    entries: u64,
    timers: u64,
    removals: u64,
}

fn read_section(
    source: &mut Source<'_>,
    header: &Header,
    (kind, next_group): (SectionKind, u16),
    tables: &mut Tables<'_>,
    visitor: &mut dyn Visitor,
    totals: &mut Totals,
) -> Result<u16, Error> {
    let at = source.offset;
    let mut section = Xxh3::new();
    section.update(&[kind as u8]);
    let group = source.array()?;
    let head: [[u8; 8]; 4] = [
        source.array()?,
        source.array()?,
        source.array()?,
        source.array()?,
    ];
    section.update(&group);
    section.update(head.as_flattened());
    let group = u16::from_le_bytes(group);
    let [entries, timers, removals, bytes] = head.map(u64::from_le_bytes);
    if group < next_group || !header.range.contains(group) {
        return Err(source.corrupt_at(at, format!("key group {group} is out of place")));
    }
    if bytes == 0 {
        return Err(source.corrupt_at(at, format!("key group {group} has a section and no rows")));
    }
    let wanted = match visitor.section(kind, group)? {
        Wanted::Yes => true,
        Wanted::No => false,
        Wanted::Misplaced(what) => return Err(source.corrupt_at(at, what)),
    };

    let (mut last, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
    // Whether the last row says that its cell is gone: then rows of the cell may follow, one whose
    // name is empty among them.
    let mut cell_gone = false;
    let mut left = bytes;
    let mut seen = Counts::default();
    while left > 0 {
        let at = source.offset;
        let lengths = [source.array::<4>()?, source.array()?];
        section.update(lengths.as_flattened());
        let [key_len, mark] = lengths.map(u32::from_le_bytes);
        let is_removal = kind == SectionKind::Delta && (mark == GONE || mark == CELL_GONE);
        let (key_len, value_len) = (key_len as usize, if is_removal { 0 } else { mark as usize });
        if key_len.saturating_add(value_len) > MAX_ROW {
            return Err(source.corrupt_at(
                at,
                format!("a row of {key_len} + {value_len} bytes, more than any row has"),
            ));
        }
        left = left
            .checked_sub((8 + key_len + value_len) as u64)
            .ok_or_else(|| source.corrupt_at(at, "a row reaches beyond its section".to_owned()))?;
        source.take(key_len, &mut key)?;
        source.take(value_len, &mut value)?;
        section.update(&key);
        section.update(&value);
        let follows_its_cell = cell_gone && mark != CELL_GONE && key == last;
        if key <= last && !follows_its_cell {
            return Err(source.corrupt_at(at, "rows are out of order".to_owned()));
        }
        cell_gone = is_removal && mark == CELL_GONE;
        let stored = match (is_removal, cell_gone) {
            (false, _) => Stored::Value(&value),
            (true, false) => Stored::Gone,
            (true, true) => Stored::CellGone,
        };
        let corrupt = |what: &str| source.corrupt_at(at, what.to_owned());
        let checked = tables.check(group, header.max_parallelism, &key, stored, &corrupt)?;
        match (is_removal, checked.is_timer) {
            (true, _) => seen.removals += 1,
            (false, true) => seen.timers += 1,
            (false, false) => seen.entries += 1,
        }
        match checked.row {
            _ if !wanted => {}
            Ok(row) => visitor.row(row),
            Err(why) => {
                let change = match stored {
                    Stored::Value(_) => Undeclared::Held,
                    Stored::Gone => Undeclared::Gone,
                    Stored::CellGone => Undeclared::CellGone,
                };
                visitor.undeclared(&key, change, why)?;
            }
        }
        std::mem::swap(&mut key, &mut last);
    }
    let announced = Counts {
        entries,
        timers,
        removals,
    };
    if seen != announced {
        let words = |Counts {
                         entries,
                         timers,
                         removals,
                     }: &Counts| {
            format!("{entries} entries, {timers} timers and {removals} removals")
        };
        let what = format!(
            "key group {group} announces {}, and holds {}",
            words(&announced),
            words(&seen)
        );
        return Err(source.corrupt_at(at, what));
    }
    source.checksum(section.digest(), "the section")?;

    totals.sections += 1;
    // What a row takes in the file bounds the sums.
    totals.entries += entries;
    totals.timers += timers;
    totals.removals += removals;
    totals.bytes += bytes;
    Ok(group)
}

fn read_header(source: &mut Source<'_>) -> Result<Header, Error> {
    if source.array()? != MAGIC {
        return Err(source.corrupt_at(0, "not a snapshot file".to_owned()));
    }
    let found = u32::from_le_bytes(source.array()?);
    if found != VERSION {
        return Err(Error::Format {
            file: source.name.to_owned(),
            found,
            supported: VERSION,
        });
    }
    let at = source.offset;
    let length = u32::from_le_bytes(source.array()?) as usize;
    if length > MAX_HEADER {
        return Err(source.corrupt_at(at, format!("a header of {length} bytes")));
    }
    let mut bytes = Vec::new();
    source.take(length, &mut bytes)?;
    source.checksum(xxh3_64(&bytes), "the header")?;
    Header::decode(&bytes)
        .ok_or_else(|| source.corrupt_at(at, "the header is malformed".to_owned()))
}

const BUFFER: usize = 64 << 10;

/// The file with its position and running checksum.
struct Source<'a> {
    reader: BufReader<&'a mut dyn Read>,
    name: &'a str,
    offset: u64,
    file: Xxh3,
}

impl Source<'_> {
    fn fill(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let at = self.offset;
        self.reader
            .read_exact(into)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    self.corrupt_at(at, "the file ends early".to_owned())
                }
                _ => self.io(error),
            })?;
        self.file.update(into);
        self.offset += into.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads `length` bytes into `bytes`, in place of what was there. Allocates no more than a
    /// buffer beyond what the file really holds.
    fn take(&mut self, length: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.clear();
        while bytes.len() < length {
            let start = bytes.len();
            bytes.resize(length.min(start + start.max(BUFFER)), 0);
            self.fill(&mut bytes[start..])?;
        }
        Ok(())
    }

    fn checksum(&mut self, computed: u64, of: &str) -> Result<(), Error> {
        let at = self.offset;
        let stored = self.u64()?;
        if stored != computed {
            return Err(self.corrupt_at(
                at,
                format!("checksum of {of}: {computed:016x}, the file says {stored:016x}"),
            ));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        loop {
            return match self.reader.fill_buf() {
                Ok([]) => Ok(()),
                Ok(_) => Err(self.corrupt_at(self.offset, "bytes after the footer".to_owned())),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(self.io(error)),
            };
        }
    }

    fn corrupt_at(&self, offset: u64, what: String) -> Error {
        Error::Corrupt {
            file: self.name.to_owned(),
            offset,
            what,
        }
    }

    fn io(&self, source: std::io::Error) -> Error {
        Error::Io {
            file: self.name.to_owned(),
            source,
        }
    }
}
