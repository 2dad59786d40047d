//! Output: what a guest may emit in which call, and what its rows cost.
//!
//! What rows inherit counts like what they bring along: a few bytes of origins can stand for any
//! number of large records.

use crate::columns::{check_count, check_ends};
use crate::contract::wit::output;
use crate::contract::wit::types::{DictionaryResult, HeadersResult};
use crate::description::OutputKeys;
use crate::environment::{Dictionary, Environment, Rows};
use crate::host::{Host, Kind, Refusal, check_values, cost};
use crate::imports::{column, nullable};

impl<E: Environment> Host<E> {
    /// Checks and charges rows for an output, and turns them into the environment's. `None`: there
    /// are none.
    pub(crate) fn rows(
        &mut self,
        output: u32,
        rows: output::Rows,
    ) -> Result<Option<Rows>, Refusal> {
        self.allow(&[Kind::Keyed, Kind::Unkeyed, Kind::Timers, Kind::Moment])?;
        let declared = self.description.outputs.len();
        let Some(keys_come) = self
            .description
            .outputs
            .get(output as usize)
            .map(|output| output.keys)
        else {
            return Err(Refusal::Contract(format!(
                "there is no output {output}; {declared} are declared"
            )));
        };
        let output::Rows {
            origins,
            keys,
            values,
            times,
            headers,
        } = rows;
        let count = self.origins(&origins, times.as_deref())?;
        if let Some(times) = &times {
            check_count(times.len(), count).map_err(Refusal::of("times"))?;
        }
        let value_bytes = match &values {
            Some(values) => {
                check_values("values", nullable(values), count, self.limits.value_bytes)?;
                values.data.len() as u64
            }
            None if matches!(self.call.kind, Kind::Timers | Kind::Moment) => {
                return Err(Refusal::Contract(
                    "`values` is absent, and there are none to inherit".to_owned(),
                ));
            }
            None => origins
                .iter()
                .map(|&row| length(&self.call.value_offsets, row))
                .sum(),
        };
        let (keys, key_bytes) = match (keys, keys_come) {
            (Some(keys), OutputKeys::Given) => {
                let (keys, bytes) = self.dictionary(keys, count)?;
                (Some(keys), bytes)
            }
            (Some(_), OutputKeys::Kept | OutputKeys::Absent) => {
                return Err(Refusal::Contract(format!(
                    "`keys` is there, but output {output} declares its keys {keys_come}"
                )));
            }
            (None, OutputKeys::Kept | OutputKeys::Given) if self.call.kind == Kind::Moment => {
                return Err(Refusal::Contract(format!(
                    "`keys` is absent, output {output} declares its keys {keys_come}, and there are \
                     none to inherit"
                )));
            }
            (None, OutputKeys::Kept | OutputKeys::Given) => {
                (None, self.inherited_key_bytes(&origins))
            }
            (None, OutputKeys::Absent) => (None, 0),
        };
        let header_bytes = match &headers {
            Some(headers) => check_headers(headers, count, self.limits.value_bytes)?,
            None => self.inherited_header_bytes(&origins),
        };
        self.charge_output(count, value_bytes + key_bytes + header_bytes)?;
        let rows = Rows {
            origins,
            keys,
            values: values.map(Into::into),
            times,
            headers: headers.map(Into::into),
        };
        Ok((count > 0).then_some(rows))
    }

    /// Checks the origins of output rows, and returns how many rows there are.
    fn origins(&self, origins: &[u32], times: Option<&[i64]>) -> Result<usize, Refusal> {
        if self.call.kind == Kind::Moment {
            if !origins.is_empty() {
                return Err(Refusal::Contract(
                    "`origins` is not empty, but the call has no rows".to_owned(),
                ));
            }
            let times = times.ok_or_else(|| {
                Refusal::Contract("`times` is absent, and there are none to inherit".to_owned())
            })?;
            return Ok(times.len());
        }
        let rows = self.call.rows;
        match origins.iter().find(|row| **row as usize >= rows) {
            Some(row) => Err(Refusal::Contract(format!(
                "`origins`: there is no row {row}; the call has {rows}"
            ))),
            None => Ok(origins.len()),
        }
    }

    /// Checks the keys of `count` output rows, fills in an index that is left out, and returns the
    /// bytes of the rows' keys: a key counts for every row that has it, as further on it may be
    /// written out for each.
    fn dictionary(
        &self,
        keys: DictionaryResult,
        count: usize,
    ) -> Result<(Dictionary, u64), Refusal> {
        let DictionaryResult {
            distinct,
            mut index,
        } = keys;
        let found = nullable(&distinct)
            .check(self.limits.value_bytes)
            .map_err(Refusal::of("keys.distinct"))?;
        if index.is_empty() && found == count {
            index.extend(0..count as u32);
        }
        check_count(index.len(), count).map_err(Refusal::of("keys.index"))?;
        if let Some(key) = index.iter().find(|key| **key as usize >= found) {
            return Err(Refusal::Contract(format!(
                "`keys.index`: there is no key {key}; there are {found}"
            )));
        }
        let bytes = index
            .iter()
            .map(|&key| length(&distinct.offsets, key))
            .sum();
        Ok((
            Dictionary {
                distinct: distinct.into(),
                index,
            },
            bytes,
        ))
    }

    fn inherited_key_bytes(&self, origins: &[u32]) -> u64 {
        let call = &self.call;
        if call.key_index.is_empty() {
            return origins
                .iter()
                .map(|&row| length(&call.key_offsets, row))
                .sum();
        }
        origins
            .iter()
            .map(|&row| length(&call.key_offsets, call.key_index[row as usize]))
            .sum()
    }

    fn inherited_header_bytes(&self, origins: &[u32]) -> u64 {
        let costs = &self.call.header_costs;
        if costs.is_empty() {
            return 0;
        }
        let of = |&row: &u32| costs[row as usize + 1] - costs[row as usize];
        origins.iter().map(of).sum()
    }
}

/// Checks the headers of `count` output rows, none of whose names and contents may be longer than
/// `longest`, and returns the bytes that they count for.
fn check_headers(headers: &HeadersResult, count: usize, longest: usize) -> Result<u64, Refusal> {
    let HeadersResult {
        ends,
        names,
        contents,
    } = headers;
    let found = column(names)
        .check(longest)
        .map_err(Refusal::of("headers.names"))?;
    check_ends(ends, count, found).map_err(Refusal::of("headers.ends"))?;
    check_values("headers.contents", nullable(contents), found, longest)?;
    let bytes = names.data.len() as u64 + contents.data.len() as u64;
    Ok(cost(found, bytes))
}

/// The length of a column's string. Positions are checked before.
fn length(offsets: &[u32], position: u32) -> u64 {
    u64::from(offsets[position as usize + 1] - offsets[position as usize])
}
