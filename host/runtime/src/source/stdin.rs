//! Standard input: one split, which cannot be read again. Its position says how much was read, and no more.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::framer::Framer;
use super::records::{Decoding, Pause, Records};
use super::{Emit, Error, Progress, Reader, SplitState, position};
use crate::batch::NO_TIME;
use crate::job::model::{self, NodeId};

/// Longest wait for input within one call.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Reads after which a call returns.
const READS_PER_CALL: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    /// Bytes read of all that came.
    at: u64,
    /// Line that comes next, from 1.
    line: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    header: Option<Vec<String>>,
}

fn to_json(position: &Position) -> serde_json::Value {
    serde_json::to_value(position).expect("a position is plain data")
}

/// The split, not read yet.
pub(super) fn split() -> SplitState {
    SplitState {
        split: 0,
        name: "stdin".to_owned(),
        done: false,
        max_time: NO_TIME,
        position: to_json(&Position {
            at: 0,
            line: 1,
            header: None,
        }),
    }
}

/// Warns that what was read of standard input and not processed is lost.
pub(super) fn resume(source: &NodeId, splits: &[SplitState]) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    for split in splits {
        let position: Position = position(source, split)?;
        if !split.done && position.at > 0 {
            warnings.push(format!(
                "source `{source}`: standard input cannot be read again: what came after line {} and before now is not read",
                position.line - 1
            ));
        }
    }
    Ok(warnings)
}

/// The reader of standard input. Only the subtask that has the split reads.
#[derive(Debug)]
pub(super) struct Stdin {
    source: NodeId,
    decoding: Decoding,
    input: OwnedFd,
    /// `None` if another subtask has the split.
    state: Option<SplitState>,
    records: Option<Records>,
    announced: bool,
}

impl Stdin {
    pub(super) fn open(
        source: &model::Source,
        splits: Vec<SplitState>,
        first_split: u32,
    ) -> Result<Stdin, Error> {
        let input = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|cause| unreadable(&source.id, cause))?;
        Stdin::over(input, source, splits, first_split)
    }

    /// Reads `input` in place of standard input.
    fn over(
        input: OwnedFd,
        source: &model::Source,
        splits: Vec<SplitState>,
        first_split: u32,
    ) -> Result<Stdin, Error> {
        let decoding = Decoding::new(source)?;
        let state = splits.into_iter().next();
        let mut records = None;
        if let Some(state) = state.as_ref().filter(|state| !state.done) {
            let position: Position = position(&source.id, state)?;
            let columns = position
                .header
                .map(|names| decoding.columns(names, &state.name))
                .transpose()?;
            let framer = Framer::continued(decoding.format(), position.at, position.line);
            let mut begun = Records::new(
                state.split,
                first_split.saturating_add(state.split),
                &state.name,
                framer,
                columns,
                state.max_time,
            );
            // Another process has another input, which may begin with a header of its own.
            begun.expect_header_again(decoding.format());
            records = Some(begun);
        }
        Ok(Stdin {
            source: source.id.clone(),
            decoding,
            input,
            state,
            records,
            announced: false,
        })
    }
}

fn unreadable(source: &NodeId, cause: io::Error) -> Error {
    Error::Io {
        what: format!("source `{source}`: cannot read standard input"),
        source: cause,
    }
}

/// Whether `input` has something to read, or has ended, within `patience`.
fn is_ready(input: &OwnedFd, patience: &Timespec) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(input, PollFlags::IN)];
    match poll(&mut fds, Some(patience)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Reader for Stdin {
    fn read(&mut self, emit: &mut dyn Emit) -> Result<Progress, Error> {
        let Some(records) = &mut self.records else {
            return Ok(Progress::Ended);
        };
        let state = self.state.as_mut().expect("the records are of this split");
        if !self.announced {
            self.announced = true;
            emit.opened(state.split);
        }
        let before = records.mark().offset;
        for _ in 0..READS_PER_CALL {
            match records.emit(&mut self.decoding, emit)? {
                Pause::Full => return Ok(Progress::More),
                Pause::Done => {
                    *state = now(state, records);
                    state.done = true;
                    emit.done(state.split);
                    self.records = None;
                    return Ok(Progress::Ended);
                }
                Pause::Hungry => {
                    let idle = records.mark().offset == before;
                    let ready = is_ready(&self.input, if idle { &PATIENCE } else { &AT_ONCE })
                        .map_err(|error| unreadable(&self.source, error.into()))?;
                    if !ready {
                        return Ok(Progress::Idle);
                    }
                    match rustix::io::read(&self.input, records.framer().room()) {
                        Ok(0) => records.framer().finish(),
                        Ok(bytes) => records.framer().filled(bytes),
                        Err(Errno::INTR | Errno::AGAIN) => return Ok(Progress::Idle),
                        Err(error) => return Err(unreadable(&self.source, error.into())),
                    }
                }
            }
        }
        Ok(Progress::More)
    }

    fn splits(&self) -> Vec<SplitState> {
        match (&self.state, &self.records) {
            (Some(state), Some(records)) => vec![now(state, records)],
            (Some(state), None) => vec![state.clone()],
            (None, _) => Vec::new(),
        }
    }
}

fn now(state: &SplitState, records: &Records) -> SplitState {
    let mark = records.mark();
    let header = records.columns().map(|columns| columns.names().to_vec());
    SplitState {
        max_time: records.max_time(),
        position: to_json(&Position {
            at: mark.offset,
            line: mark.line,
            header,
        }),
        ..state.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::super::collected::Collected;
    use super::super::file::tests::source;
    use super::*;
    use crate::job::model::{Format, Header};

    fn pipe() -> (OwnedFd, File) {
        let (read, write) = io::pipe().unwrap();
        (read.into(), OwnedFd::from(write).into())
    }

    const CSV: Format = Format::Csv {
        delimiter: b',',
        quote: Some(b'"'),
        null: None,
        header: Header::First,
    };

    #[test]
    fn lines_come_as_they_are_written_and_a_call_never_hangs() {
        let (input, mut output) = pipe();
        let mut reader = Stdin::over(input, &source(&[], Format::Raw), vec![split()], 4).unwrap();
        let mut seen = Collected {
            allowance: usize::MAX,
            ..Collected::default()
        };
        assert_eq!(reader.read(&mut seen).unwrap(), Progress::Idle);
        output.write_all(b"a\nb\nhal").unwrap();
        assert_eq!(reader.read(&mut seen).unwrap(), Progress::Idle);
        assert_eq!(seen.texts(), ["a", "b"]);
        assert_eq!(seen.rows[1].origin, Some((4, 2)));
        assert_eq!(
            reader.splits()[0].position,
            serde_json::json!({"at": 4, "line": 3})
        );
        output.write_all(b"f\r\nlast").unwrap();
        drop(output);
        while reader.read(&mut seen).unwrap() != Progress::Ended {}
        assert_eq!(seen.texts(), ["a", "b", "half", "last"]);
        assert_eq!(seen.events, ["open 0", "done 0"]);
        assert!(reader.splits()[0].done);
        assert_eq!(reader.splits()[0].position["at"], 14);
    }

    #[test]
    fn a_full_receiver_gets_no_more() {
        let (input, mut output) = pipe();
        output.write_all(b"a\nb\nc\n").unwrap();
        let mut reader = Stdin::over(input, &source(&[], Format::Raw), vec![split()], 0).unwrap();
        let mut seen = Collected {
            allowance: 2,
            ..Collected::default()
        };
        while seen.rows.len() < 2 {
            reader.read(&mut seen).unwrap();
        }
        assert_eq!(reader.read(&mut seen).unwrap(), Progress::More);
        assert_eq!(seen.texts(), ["a", "b"]);
        assert_eq!(reader.splits()[0].position["at"], 4);
    }

    #[test]
    fn a_subtask_without_the_split_has_ended() {
        let (input, _output) = pipe();
        let mut reader = Stdin::over(input, &source(&[], Format::Raw), Vec::new(), 0).unwrap();
        assert_eq!(
            reader.read(&mut Collected::default()).unwrap(),
            Progress::Ended
        );
        assert_eq!(reader.splits(), []);
    }

    #[test]
    fn a_restart_goes_on_with_or_without_a_new_header() {
        for (again, expected) in [
            ("a,b\n3,4\n", r#"{"a":"3","b":"4"}"#),
            ("5,6\n", r#"{"a":"5","b":"6"}"#),
        ] {
            let (input, mut output) = pipe();
            output.write_all(b"\xef\xbb\xbfa,b\n1,2\n").unwrap();
            let mut reader = Stdin::over(input, &source(&[], CSV), vec![split()], 0).unwrap();
            let mut seen = Collected::default();
            seen.read(&mut reader, 1).unwrap();
            let splits = reader.splits();
            assert_eq!(
                resume(&NodeId::new("in").unwrap(), &splits).unwrap().len(),
                1
            );

            let (input, mut output) = pipe();
            output.write_all(again.as_bytes()).unwrap();
            drop(output);
            let mut reader = Stdin::over(input, &source(&[], CSV), splits, 0).unwrap();
            let mut seen = Collected::default();
            seen.read_all(&mut reader).unwrap();
            assert_eq!(seen.texts(), [expected]);
            let finished = reader.splits();
            let mut reader = Stdin::over(pipe().0, &source(&[], CSV), finished, 0).unwrap();
            assert_eq!(
                reader.read(&mut Collected::default()).unwrap(),
                Progress::Ended
            );
        }
    }
}
