//! The header: what the rows belong to. The layout is in the parent module.

use std::io;

use crate::{GroupRange, Schema, StateKind, StateSpec, TimeDomain, TimerSpec};

/// Bounds what a damaged length can make a reader allocate; the header holds names only.
pub(super) const MAX_HEADER: usize = 16 << 20;

/// What precedes the rows.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) max_parallelism: u16,
    pub(crate) range: GroupRange,
    pub(crate) id: u64,
    /// Ids of the earlier snapshots that a restore needs, rising.
    pub(crate) needs: Vec<u64>,
    /// For each group of the range the place in `needs` of the file that its rows begin in, or the
    /// length of `needs` for this one.
    pub(crate) origins: Vec<u16>,
    pub(crate) advance: Option<(TimeDomain, i64)>,
    /// TTLs are not stored; reading gives none.
    pub(crate) schema: Schema,
}

impl Header {
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        for number in [self.max_parallelism, self.range.start, self.range.end] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.id.to_le_bytes());
        put_short(&mut out, self.needs.len())?;
        for id in &self.needs {
            out.extend_from_slice(&id.to_le_bytes());
        }
        for origin in &self.origins {
            out.extend_from_slice(&origin.to_le_bytes());
        }
        let (tag, until) = self
            .advance
            .map_or((0, 0), |(domain, until)| (domain_tag(domain), until));
        out.push(tag);
        out.extend_from_slice(&until.to_le_bytes());
        let Schema { states, timers } = &self.schema;
        put_short(&mut out, states.len())?;
        for state in states {
            put_name(&mut out, &state.name)?;
            out.push(state.kind.table() as u8);
            out.extend_from_slice(&state.version.to_le_bytes());
        }
        put_short(&mut out, timers.len())?;
        for timer in timers {
            put_name(&mut out, &timer.name)?;
            out.push(domain_tag(timer.domain));
        }
        if out.len() > MAX_HEADER {
            return Err(too_large());
        }
        Ok(out)
    }

    /// `None` if the bytes are not those of a header, to the last one.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Header> {
        let from = &mut bytes;
        let [max_parallelism, start, end] = [short(from)?, short(from)?, short(from)?];
        let range = GroupRange { start, end };
        if start > end || end > max_parallelism {
            return None;
        }
        let id = long(from)?;
        let needs: Vec<u64> = (0..short(from)?)
            .map(|_| long(from))
            .collect::<Option<_>>()?;
        let origins: Vec<u16> = (start..end).map(|_| short(from)).collect::<Option<_>>()?;
        let rises = needs.is_sorted_by(|earlier, later| earlier < later);
        if !rises
            || needs.last().is_some_and(|last| *last >= id)
            || origins
                .iter()
                .any(|place| usize::from(*place) > needs.len())
        {
            return None;
        }
        let advance = match (byte(from)?, i64::from_le_bytes(*array(from)?)) {
            (0, 0) => None,
            (tag, until) => Some((domain(tag)?, until)),
        };
        let mut schema = Schema::default();
        for _ in 0..short(from)? {
            let name = name(from)?;
            let kind = kind(byte(from)?)?;
            let version = u32::from_le_bytes(*array(from)?);
            schema.states.push(StateSpec {
                name,
                kind,
                version,
                ttl: None,
            });
        }
        for _ in 0..short(from)? {
            let name = name(from)?;
            let domain = domain(byte(from)?)?;
            schema.timers.push(TimerSpec { name, domain });
        }
        from.is_empty().then_some(Header {
            max_parallelism,
            range,
            id,
            needs,
            origins,
            advance,
            schema,
        })
    }
}

fn put_short(out: &mut Vec<u8>, number: usize) -> io::Result<()> {
    let number = u16::try_from(number).map_err(|_| too_large())?;
    out.extend_from_slice(&number.to_le_bytes());
    Ok(())
}

fn put_name(out: &mut Vec<u8>, name: &str) -> io::Result<()> {
    put_short(out, name.len())?;
    out.extend_from_slice(name.as_bytes());
    Ok(())
}

/// A file that could not be read back is not written.
fn too_large() -> io::Error {
    let what = "the names of states and timers do not fit a snapshot's header";
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn array<'a, const N: usize>(from: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (array, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(array)
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    array::<1>(from).map(|[byte]| *byte)
}

fn short(from: &mut &[u8]) -> Option<u16> {
    array(from).map(|bytes| u16::from_le_bytes(*bytes))
}

fn long(from: &mut &[u8]) -> Option<u64> {
    array(from).map(|bytes| u64::from_le_bytes(*bytes))
}

fn name(from: &mut &[u8]) -> Option<String> {
    let length = usize::from(short(from)?);
    let (name, rest) = from.split_at_checked(length)?;
    *from = rest;
    String::from_utf8(name.to_vec()).ok()
}

fn kind(tag: u8) -> Option<StateKind> {
    [StateKind::Value, StateKind::Items, StateKind::Entries]
        .into_iter()
        .find(|kind| kind.table() as u8 == tag)
}

fn domain_tag(domain: TimeDomain) -> u8 {
    match domain {
        TimeDomain::Event => 1,
        TimeDomain::Processing => 2,
    }
}

fn domain(tag: u8) -> Option<TimeDomain> {
    [TimeDomain::Event, TimeDomain::Processing]
        .into_iter()
        .find(|domain| domain_tag(*domain) == tag)
}
