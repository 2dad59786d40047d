//! Reading the file; the layout is in the parent module.
//!
//! The reader trusts nothing: lengths are capped and memory grows with what was really read, rows
//! are checked to be what the format says, in order, of the section's group and of a declared
//! state, and every checksum must hold. It hands rows over before it has seen the last checksum, so
//! a visitor keeps them aside until [`read`] returns.

use std::io::{BufRead, BufReader, Read};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::header::MAX_HEADER;
use super::{FOOTER, Header, MAGIC, MAX_ROW, RestoreSummary, SECTION, VERSION};
use crate::hash::{key_group, key_hash};
use crate::stored_key::{StoredKey, Table, set_index, suffix_time};
use crate::stored_value::{StoredValue, decode_timer};
use crate::timers::{Registration, TimerKey};
use crate::{Error, Schema, StateKind, StateSpec, TimeDomain, TimerSpec};

/// Takes what the reader finds. Nothing counts before [`read`] has returned `Ok`.
pub(crate) trait Visitor {
    /// A group begins; whether its rows are wanted.
    fn group(&mut self, group: u16) -> Result<bool, Error>;
    /// A row of state of a group that is wanted. The index in the key is that of the reading
    /// operator's schema.
    fn row(&mut self, group: u16, key: Vec<u8>, value: Vec<u8>);
    /// A timer of a group that is wanted.
    fn timer(&mut self, domain: TimeDomain, key: TimerKey, registration: Registration);
}

/// Reads and verifies a whole file for an operator with these declarations.
pub(crate) fn read(
    reader: &mut dyn Read,
    name: &str,
    schema: &Schema,
    max_parallelism: u16,
    visitor: &mut dyn Visitor,
) -> Result<RestoreSummary, Error> {
    let mut source = Source {
        reader: BufReader::with_capacity(BUFFER, reader),
        name,
        offset: 0,
        file: Xxh3::new(),
    };
    let header = read_header(&mut source)?;
    if header.max_parallelism != max_parallelism {
        let (snapshot, job) = (header.max_parallelism, max_parallelism);
        return Err(Error::MaxParallelism {
            file: name.to_owned(),
            snapshot,
            job,
        });
    }
    let mut tables = Tables::new(name, &header.schema, schema);
    let mut summary = RestoreSummary {
        advance: header.advance,
        ..RestoreSummary::default()
    };
    let mut totals = Totals::default();
    let mut next_group = header.range.start;
    loop {
        let at = source.offset;
        match source.array::<1>()?[0] {
            SECTION => {
                let group = read_section(
                    &mut source,
                    &header,
                    next_group,
                    &mut tables,
                    visitor,
                    &mut totals,
                    &mut summary,
                )?;
                next_group = group + 1;
            }
            FOOTER => break,
            other => {
                return Err(
                    source.corrupt_at(at, format!("neither a section nor the footer: {other}"))
                );
            }
        }
    }
    let at = source.offset;
    let expected = Totals {
        sections: u32::from_le_bytes(source.array()?),
        entries: source.u64()?,
        timers: source.u64()?,
        bytes: source.u64()?,
    };
    if expected != totals {
        return Err(source.corrupt_at(
            at,
            format!("the footer announces {expected:?}, the file holds {totals:?}"),
        ));
    }
    let computed = source.file.digest();
    source.checksum(computed, "the file")?;
    source.end()?;
    Ok(summary)
}

#[derive(Debug, Default, PartialEq)]
struct Totals {
    sections: u32,
    entries: u64,
    timers: u64,
    bytes: u64,
}

fn read_section(
    source: &mut Source<'_>,
    header: &Header,
    next_group: u16,
    tables: &mut Tables<'_>,
    visitor: &mut dyn Visitor,
    totals: &mut Totals,
    summary: &mut RestoreSummary,
) -> Result<u16, Error> {
    let at = source.offset;
    let mut section = Xxh3::new();
    section.update(&[SECTION]);
    let group = source.array()?;
    let counts = [source.array()?, source.array()?, source.array()?];
    section.update(&group);
    section.update(counts.as_flattened());
    let group = u16::from_le_bytes(group);
    let [entries, timers, bytes] = counts.map(u64::from_le_bytes);
    if group < next_group || !header.range.contains(group) {
        return Err(source.corrupt_at(at, format!("key group {group} is out of place")));
    }
    if bytes == 0 {
        return Err(source.corrupt_at(at, format!("key group {group} has a section and no rows")));
    }
    let wanted = visitor.group(group)?;

    let mut last: Vec<u8> = Vec::new();
    let mut left = bytes;
    let mut seen = (0u64, 0u64);
    while left > 0 {
        let at = source.offset;
        let lengths = [source.array::<4>()?, source.array()?];
        section.update(lengths.as_flattened());
        let [key_len, value_len] = lengths.map(|length| u32::from_le_bytes(length) as usize);
        if key_len.saturating_add(value_len) > MAX_ROW {
            return Err(source.corrupt_at(
                at,
                format!("a row of {key_len} + {value_len} bytes, more than any row has"),
            ));
        }
        left = left
            .checked_sub((8 + key_len + value_len) as u64)
            .ok_or_else(|| source.corrupt_at(at, "a row reaches beyond its section".to_owned()))?;
        let key = source.take(key_len)?;
        let value = source.take(value_len)?;
        section.update(&key);
        section.update(&value);
        if key <= last {
            return Err(source.corrupt_at(at, "rows are out of order".to_owned()));
        }
        last.clone_from(&key);
        let row = tables.check(group, header.max_parallelism, key, value, |what| {
            source.corrupt_at(at, what)
        })?;
        match row {
            Row::State(key, value) => {
                seen.0 += 1;
                if wanted {
                    visitor.row(group, key, value);
                }
            }
            Row::Timer(domain, key, registration) => {
                seen.1 += 1;
                if wanted {
                    visitor.timer(domain, key, registration);
                }
            }
        }
    }
    if seen != (entries, timers) {
        let what = format!(
            "key group {group} announces {entries} entries and {timers} timers, and holds {seen:?}"
        );
        return Err(source.corrupt_at(at, what));
    }
    source.checksum(section.digest(), "the section")?;

    totals.sections += 1;
    totals.entries += entries;
    totals.timers += timers;
    totals.bytes += bytes;
    if wanted {
        summary.groups += 1;
        summary.entries += entries;
        summary.timers += timers;
    } else {
        summary.skipped_groups += 1;
    }
    Ok(group)
}

enum Row {
    State(Vec<u8>, Vec<u8>),
    Timer(TimeDomain, TimerKey, Registration),
}

/// The header's tables beside the operator's declarations. A declaration that changed is refused
/// when a row of it is met: one that never held anything may go or change freely.
struct Tables<'a> {
    name: &'a str,
    snapshot: &'a Schema,
    job: &'a Schema,
    /// For each state and each timer in the snapshot its index in the job, once a row was met.
    states: Vec<Option<u16>>,
    timers: Vec<Option<u16>>,
}

impl<'a> Tables<'a> {
    fn new(name: &'a str, snapshot: &'a Schema, job: &'a Schema) -> Self {
        let (states, timers) = (
            vec![None; snapshot.states.len()],
            vec![None; snapshot.timers.len()],
        );
        Tables {
            name,
            snapshot,
            job,
            states,
            timers,
        }
    }

    fn check(
        &mut self,
        group: u16,
        max_parallelism: u16,
        mut key: Vec<u8>,
        value: Vec<u8>,
        corrupt: impl Fn(String) -> Error,
    ) -> Result<Row, Error> {
        let fault = |what: &str| corrupt(what.to_owned());
        let parts = StoredKey::decode(&key).ok_or_else(|| fault("not a stored key"))?;
        let hash = key_hash(&parts.key);
        if parts.group != group || key_group(hash, max_parallelism) != group {
            return Err(fault("the row does not belong to the section's key group"));
        }
        let index = usize::from(parts.index);
        if parts.table == Table::Timers {
            let spec = self
                .snapshot
                .timers
                .get(index)
                .ok_or_else(|| fault("no such timer in the header"))?;
            let (chain, waits) =
                decode_timer(&value).ok_or_else(|| fault("not a timer's value"))?;
            let time = suffix_time(parts.suffix).ok_or_else(|| fault("not a timer's key"))?;
            let namespace = parts
                .namespace
                .ok_or_else(|| fault("a timer without a namespace"))?;
            let timer = u32::from(self.timer(index, spec)?);
            let timer = TimerKey {
                time,
                hash,
                key: parts.key.into_owned().into(),
                timer,
                namespace: namespace.into_owned().into(),
            };
            return Ok(Row::Timer(
                spec.domain,
                timer,
                Registration { chain, waits },
            ));
        }
        let spec = self
            .snapshot
            .states
            .get(index)
            .ok_or_else(|| fault("no such state in the header"))?;
        if parts.table != spec.kind.table() {
            return Err(fault("a row of another kind than its state"));
        }
        // No namespace is the empty one, and has one encoding.
        if parts
            .namespace
            .as_ref()
            .is_some_and(|namespace| namespace.is_empty())
        {
            return Err(fault("an empty namespace that is spelled out"));
        }
        let suffix_fits = match spec.kind {
            StateKind::Value => parts.suffix.is_empty(),
            // Far from where the positions of what is appended later would run out.
            StateKind::Items => parts.suffix.len() == size_of::<u64>() && parts.suffix[0] < 0x80,
            StateKind::Entries => true,
        };
        if !suffix_fits {
            return Err(fault("a key that does not fit its table"));
        }
        let stored = StoredValue::decode(&value).ok_or_else(|| fault("not a stored value"))?;
        if stored.version != spec.version {
            return Err(fault("a value of another schema version than its state"));
        }
        let index = self.state(index, spec)?;
        set_index(&mut key, index);
        Ok(Row::State(key, value))
    }

    fn state(&mut self, index: usize, snapshot: &StateSpec) -> Result<u16, Error> {
        if let Some(known) = self.states[index] {
            return Ok(known);
        }
        let (file, name) = (self.name.to_owned(), snapshot.name.clone());
        let Some(position) = self.job.states.iter().position(|spec| spec.name == name) else {
            return Err(Error::UnknownState { file, name });
        };
        let job = &self.job.states[position];
        if job.kind != snapshot.kind {
            return Err(Error::StateKind {
                file,
                name,
                snapshot: snapshot.kind.as_str(),
                job: job.kind.as_str(),
            });
        }
        if job.version != snapshot.version {
            return Err(Error::StateVersion {
                file,
                name,
                snapshot: snapshot.version,
                job: job.version,
            });
        }
        Ok(*self.states[index].insert(position as u16))
    }

    fn timer(&mut self, index: usize, snapshot: &TimerSpec) -> Result<u16, Error> {
        if let Some(known) = self.timers[index] {
            return Ok(known);
        }
        let (file, name) = (self.name.to_owned(), snapshot.name.clone());
        let Some(position) = self.job.timers.iter().position(|spec| spec.name == name) else {
            return Err(Error::UnknownTimer { file, name });
        };
        let job = self.job.timers[position].domain;
        if job != snapshot.domain {
            return Err(Error::TimerDomain {
                file,
                name,
                snapshot: snapshot.domain.as_str(),
                job: job.as_str(),
            });
        }
        Ok(*self.timers[index].insert(position as u16))
    }
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
    let bytes = source.take(length)?;
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

    /// Reads `length` bytes. Allocates no more than a buffer beyond what the file really holds.
    fn take(&mut self, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let start = bytes.len();
            bytes.resize(length.min(start + start.max(BUFFER)), 0);
            self.fill(&mut bytes[start..])?;
        }
        Ok(bytes)
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
