//! Files, read whole, each once, in sorted order, one at a time by a subtask.
//!
//! A file is a split. Its position is a place between two records of the *decompressed* stream, with what is needed to
//! tell whether the file is still the one that was read so far: size and hash of its beginning as it is on disk, and a
//! hash of what was read last. A file may grow until it was read to its end; one that shrank or was rewritten stops the
//! job, since output that was committed already came from what is gone. Only a finished file may disappear.
//!
//! Which files there are is settled when the job first starts, and what appears later is reported and not read; unless the
//! source watches, which [`watch`] is about.

use std::collections::{HashSet, VecDeque};
use std::io::{Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

use super::framer::{Framer, HISTORY, tail_hash};
use super::records::{Decoding, Pause, Records};
use super::{Emit, Error, Progress, Reader, SplitState, position};
use crate::batch::NO_TIME;
use crate::job::model::{self, Compression, Format, NodeId, SourceConnector};

mod find;
mod identity;
mod ledger;
mod stream;
mod watch;

#[cfg(test)]
pub(super) mod tests;

use identity::Identity;
use stream::Stream;
use watch::Watch;

/// Reads (of 128 to 256 KiB) after which a call returns, so that a stop is noticed while nothing is emitted.
const READS_PER_CALL: usize = 16;

/// A file's position as checkpoints record it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    /// Decompressed bytes before it.
    at: u64,
    /// Line that begins there, from 1.
    line: u64,
    /// The file as it is on disk.
    #[serde(rename = "file")]
    identity: Identity,
    /// Hash of the last 64 KiB of decompressed bytes before it.
    #[serde(with = "identity::hex")]
    tail: u64,
    /// The columns of a CSV file whose header was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    header: Option<Vec<String>>,
}

/// The files that `paths` name, none of them read. Where they are watched, they are found later.
pub(super) fn discover(
    source: &NodeId,
    paths: &[String],
    watched: bool,
) -> Result<Vec<SplitState>, Error> {
    if watched {
        return watch::discover(source, paths).map(|()| Vec::new());
    }
    let names = find::files(source, paths)?;
    let mut splits = Vec::with_capacity(names.len());
    for (split, name) in (0..).zip(names) {
        let file = identity::open(source, &name)?;
        let identity =
            Identity::of(&file).map_err(|cause| identity::unreadable(source, &name, cause))?;
        let position = Position {
            at: 0,
            line: 1,
            identity,
            tail: tail_hash(b""),
            header: None,
        };
        splits.push(SplitState {
            split,
            name,
            done: false,
            max_time: NO_TIME,
            position: to_json(&position),
        });
    }
    Ok(splits)
}

/// Checks recorded files; warns of what will not be read.
pub(super) fn resume(
    source: &NodeId,
    paths: &[String],
    watched: bool,
    splits: &[SplitState],
) -> Result<Vec<String>, Error> {
    if !watched && splits.iter().any(watch::is_ledger) {
        return Err(Error::Invalid(format!(
            "source `{source}`: the checkpoint was taken while the source watched for files, so `watch` must stay: put it back, \
             or move output and checkpoints away and start over"
        )));
    }
    watch::resume(source, paths, splits)?;
    let mut warnings = Vec::new();
    for split in splits.iter().filter(|split| !watch::is_ledger(split)) {
        // What was not begun is found again where files are watched, if it is there.
        if watched && !split.done && !split.is_begun() {
            continue;
        }
        let position: Position = position(source, split)?;
        if let Some(size) = identity::check(source, &split.name, position.identity, split.done)?
            && split.done
            && size > position.identity.size
        {
            warnings.push(format!(
                "source `{source}`: {} grew from {} to {size} bytes after it was read to its end; the rest is not read",
                split.name, position.identity.size
            ));
        }
    }
    if watched {
        return Ok(warnings);
    }
    // What is found anew decides nothing, so that a pattern which matches nothing any more is no reason to stop.
    let recorded: HashSet<&str> = splits.iter().map(|split| split.name.as_str()).collect();
    let new: Vec<String> = find::files(source, paths).unwrap_or_default();
    let new: Vec<&str> = new
        .iter()
        .map(String::as_str)
        .filter(|name| !recorded.contains(name))
        .collect();
    if !new.is_empty() {
        let listed = new[..new.len().min(3)].join(", ");
        let more = if new.len() > 3 {
            format!(" and {} more", new.len() - 3)
        } else {
            String::new()
        };
        warnings.push(format!(
            "source `{source}`: the files of a job are settled when it first starts; not read: {listed}{more}"
        ));
    }
    Ok(warnings)
}

fn to_json(position: &Position) -> serde_json::Value {
    serde_json::to_value(position).expect("a position is plain data")
}

/// See [`watch::deal`].
pub(super) use watch::deal as deal_watched;

#[derive(Debug)]
struct File {
    state: SplitState,
    position: Position,
    /// Its number in origins of records.
    origin: u32,
    /// Open already, and known to be what `position` says: a file that was just found.
    found: Option<std::fs::File>,
    /// See [`watch::Found::dir`].
    dir: u64,
}

/// The file that is being read.
#[derive(Debug)]
struct Open {
    /// Which of the subtask's files.
    index: usize,
    stream: Stream,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// On the way to the position: so many bytes still to pass over, then those whose hash must be the recorded one.
    Seeking {
        skip: u64,
        history: Vec<u8>,
    },
    Reading(Box<Records>),
}

/// The reader of a file source's subtask.
#[derive(Debug)]
pub(super) struct Files {
    source: NodeId,
    compression: Compression,
    decoding: Decoding,
    /// Those that were dealt; where files are watched, those of them that are not finished.
    files: Vec<File>,
    /// What is to be opened, by index.
    queue: VecDeque<usize>,
    open: Option<Open>,
    /// Whether the files begun before a restart were reported.
    announced: bool,
    /// Finds further ones.
    watch: Option<Watch>,
}

impl Files {
    pub(super) fn open(
        source: &model::Source,
        splits: Vec<SplitState>,
        first_split: u32,
    ) -> Result<Files, Error> {
        let SourceConnector::File {
            paths,
            compression,
            watch: every,
        } = &source.connector
        else {
            unreachable!("called for file sources only");
        };
        let mut files = Vec::with_capacity(splits.len());
        let mut watch = None;
        for state in splits {
            if let (Some(every), true) = (every, watch::is_ledger(&state)) {
                watch = Some(Watch::new(&source.id, paths, *every, &state)?);
                continue;
            }
            let position = position(&source.id, &state)?;
            let origin = first_split.saturating_add(state.split);
            files.push(File {
                state,
                position,
                origin,
                found: None,
                dir: 0,
            });
        }
        // In order even where a later file is half read, as it can be after the job went on at a lower parallelism: were that one
        // finished first, everything in the earlier ones would be late. It holds the watermark meanwhile.
        files.sort_by_key(|file| file.state.split);
        let queue = (0..files.len())
            .filter(|&index| !files[index].state.done)
            .collect();
        Ok(Files {
            source: source.id.clone(),
            compression: *compression,
            decoding: Decoding::new(source)?,
            files,
            queue,
            open: None,
            announced: false,
            watch,
        })
    }

    /// Opens file `index` and sets out for its position.
    fn begin(&mut self, index: usize) -> Result<Open, Error> {
        let found = self.files[index].found.take();
        let File {
            state, position, ..
        } = &self.files[index];
        let unreadable = |cause| identity::unreadable(&self.source, &state.name, cause);
        let file = match found {
            Some(file) => file,
            None => {
                identity::check(&self.source, &state.name, position.identity, false)?;
                identity::open(&self.source, &state.name)?
            }
        };
        if let Some(found) = stream::contradicts(&file, self.compression).map_err(unreadable)? {
            return Err(Error::Invalid(format!(
                "source `{}`: {} does not begin as `compression` says it does but as one of {found} does; leave `compression` out, \
                 and each file's first bytes tell",
                self.source, state.name
            )));
        }
        let mut stream = Stream::open(file, self.compression).map_err(unreadable)?;
        let history = position.at.min(HISTORY as u64);
        let mut skip = position.at - history;
        if let Stream::Plain(file) = &mut stream {
            file.seek(SeekFrom::Start(skip)).map_err(unreadable)?;
            skip = 0;
        }
        let stage = if position.at == 0 {
            Stage::Reading(Box::new(
                self.records(index, Framer::new(self.decoding.format()))?,
            ))
        } else {
            Stage::Seeking {
                skip,
                history: Vec::with_capacity(history as usize),
            }
        };
        Ok(Open {
            index,
            stream,
            stage,
        })
    }

    /// File `index` from where `framer` stands.
    fn records(&self, index: usize, framer: Framer) -> Result<Records, Error> {
        let File {
            state,
            position,
            origin,
            ..
        } = &self.files[index];
        let columns = match (&position.header, self.decoding.format()) {
            (Some(names), Format::Csv { .. }) => {
                Some(self.decoding.columns(names.clone(), &state.name)?)
            }
            _ => None,
        };
        Ok(Records::new(
            state.split,
            *origin,
            &state.name,
            framer,
            columns,
            state.max_time,
        ))
    }

    /// Takes `open` a piece further towards its position.
    fn seek(&self, open: &mut Open) -> Result<(), Error> {
        let Stage::Seeking { skip, history } = &mut open.stage else {
            unreachable!("called while seeking");
        };
        let File {
            state, position, ..
        } = &self.files[open.index];
        let wanted = position.at.min(HISTORY as u64) as usize;
        let mut piece = [0; HISTORY];
        let room = if *skip > 0 {
            (*skip).min(HISTORY as u64) as usize
        } else {
            wanted - history.len()
        };
        let read = open
            .stream
            .read(&mut piece[..room])
            .map_err(|cause| identity::unreadable(&self.source, &state.name, cause))?;
        if read == 0 {
            let left = *skip + (wanted - history.len()) as u64;
            return Err(identity::changed(
                &self.source,
                &state.name,
                &format!(
                    "{} bytes (decompressed) were read of it, now there are {}",
                    position.at,
                    position.at - left
                ),
            ));
        }
        if *skip > 0 {
            *skip -= read as u64;
            return Ok(());
        }
        history.extend_from_slice(&piece[..read]);
        if history.len() < wanted {
            return Ok(());
        }
        let tail = tail_hash(history);
        if tail != position.tail {
            return Err(identity::changed(
                &self.source,
                &state.name,
                &format!(
                    "the {wanted} bytes before line {} had the hash {:016x}, now {tail:016x}",
                    position.line, position.tail
                ),
            ));
        }
        let framer = Framer::resume(self.decoding.format(), position.at, position.line, history);
        open.stage = Stage::Reading(Box::new(self.records(open.index, framer)?));
        Ok(())
    }

    /// Makes sure that the end which `stream` came to is the end of file `index`, before the bytes since the last line's end are taken
    /// for a record: a file that somebody cuts short or writes anew while it is read ends anywhere.
    fn check_end(&self, index: usize, stream: &Stream) -> Result<(), Error> {
        let File {
            state, position, ..
        } = &self.files[index];
        let unreadable = |cause| identity::unreadable(&self.source, &state.name, cause);
        let size = stream.raw_position().map_err(unreadable)?;
        let recorded = position.identity;
        let what = if size < recorded.size {
            format!("it had {} bytes and ended after {size}", recorded.size)
        } else if Identity::up_to(stream.file(), recorded.size).map_err(unreadable)? != recorded {
            "its beginning is not what it was".to_owned()
        } else {
            return Ok(());
        };
        Err(identity::changed(&self.source, &state.name, &what))
    }

    /// The file that `open` is about was read to its end.
    fn close(&mut self, open: Open) -> Result<(), Error> {
        let (state, position) = self.now(&open);
        let unreadable = |cause| identity::unreadable(&self.source, &state.name, cause);
        let size = open.stream.raw_position().map_err(unreadable)?;
        // It may have grown since it was found.
        let identity = Identity::up_to(open.stream.file(), size).map_err(unreadable)?;
        if let Some(watch) = &mut self.watch {
            let metadata = open.stream.file().metadata().map_err(unreadable)?;
            let File { dir, .. } = self.files.remove(open.index);
            watch.finished(&state.name, identity, &metadata, dir);
            let later = self.queue.iter_mut().filter(|index| **index > open.index);
            later.for_each(|index| *index -= 1);
            return Ok(());
        }
        let file = &mut self.files[open.index];
        file.position = Position {
            identity,
            ..position
        };
        file.state = SplitState {
            done: true,
            ..state
        };
        Ok(())
    }

    /// Asks for a file that has appeared, and queues it. Whether there was one.
    fn find(&mut self, watch: &mut Watch) -> Result<bool, Error> {
        let Some(found) = watch.next()? else {
            return Ok(false);
        };
        let position = Position {
            at: 0,
            line: 1,
            identity: found.identity,
            tail: tail_hash(b""),
            header: None,
        };
        let state = SplitState {
            split: watch.split(),
            name: found.name,
            done: false,
            max_time: NO_TIME,
            position: serde_json::Value::Null,
        };
        self.queue.push_back(self.files.len());
        self.files.push(File {
            state,
            position,
            origin: 0,
            found: Some(found.file),
            dir: found.dir,
        });
        Ok(true)
    }

    /// State and position of the file that is being read.
    fn now(&self, open: &Open) -> (SplitState, Position) {
        let File {
            state, position, ..
        } = &self.files[open.index];
        let (mut state, mut position) = (state.clone(), position.clone());
        if let Stage::Reading(records) = &open.stage {
            let mark = records.mark();
            state.max_time = records.max_time();
            position.at = mark.offset;
            position.line = mark.line;
            position.tail = mark.tail;
            position.header = records.columns().map(|columns| columns.names().to_vec());
        }
        (state, position)
    }
}

impl Reader for Files {
    fn read(&mut self, emit: &mut dyn Emit) -> Result<Progress, Error> {
        if !self.announced {
            self.announced = true;
            for file in self
                .files
                .iter()
                .filter(|file| !file.state.done && file.state.is_begun())
            {
                emit.opened(file.state.split);
            }
        }
        for _ in 0..READS_PER_CALL {
            let Some(mut open) = self.open.take() else {
                let Some(&index) = self.queue.front() else {
                    let Some(mut watch) = self.watch.take() else {
                        return Ok(Progress::Ended);
                    };
                    let found = self.find(&mut watch);
                    self.watch = Some(watch);
                    if found? {
                        continue;
                    }
                    return Ok(Progress::Idle);
                };
                if self.watch.is_some() {
                    self.files[index].origin = emit.origin(&self.files[index].state.name, "line");
                }
                let state = &self.files[index].state;
                if !state.is_begun() {
                    emit.opened(state.split);
                }
                self.open = Some(self.begin(index)?);
                self.queue.pop_front();
                continue;
            };
            match &mut open.stage {
                Stage::Seeking { .. } => self.seek(&mut open)?,
                Stage::Reading(records) => match records.emit(&mut self.decoding, emit)? {
                    Pause::Full => {
                        self.open = Some(open);
                        return Ok(Progress::More);
                    }
                    Pause::Hungry => {
                        let framer = records.framer();
                        let read = open.stream.read(framer.room()).map_err(|cause| {
                            identity::unreadable(
                                &self.source,
                                &self.files[open.index].state.name,
                                cause,
                            )
                        })?;
                        if read == 0 {
                            self.check_end(open.index, &open.stream)?;
                            framer.finish()
                        } else {
                            framer.filled(read)
                        }
                    }
                    Pause::Done => {
                        let split = self.files[open.index].state.split;
                        self.close(open)?;
                        emit.done(split);
                        continue;
                    }
                },
            }
            self.open = Some(open);
        }
        Ok(Progress::More)
    }

    fn splits(&self) -> Vec<SplitState> {
        let mut splits: Vec<SplitState> = Vec::with_capacity(self.files.len());
        for (index, file) in self.files.iter().enumerate() {
            let (state, position) = match &self.open {
                Some(open) if open.index == index => self.now(open),
                _ => (file.state.clone(), file.position.clone()),
            };
            // What was not begun is found again.
            if self.watch.is_some() && position.at == 0 {
                continue;
            }
            splits.push(SplitState {
                position: to_json(&position),
                ..state
            });
        }
        splits.extend(self.watch.as_ref().map(Watch::state));
        splits.sort_by_key(|split| split.split);
        splits
    }

    fn share(&self) -> Option<(u64, u64)> {
        if self.watch.is_some() {
            return None;
        }
        let (mut read, mut all) = (0, 0);
        for (index, file) in self.files.iter().enumerate() {
            let size = file.position.identity.size;
            all += size;
            read += match &self.open {
                _ if file.state.done => size,
                Some(open) if open.index == index => {
                    open.stream.raw_position().map_or(0, |at| at.min(size))
                }
                // Of a compressed file that was begun before a restart this is a guess.
                _ => file.position.at.min(size),
            };
        }
        Some((read, all))
    }

    fn files(&self) -> Option<(u64, u64)> {
        let done = self.files.iter().filter(|file| file.state.done).count();
        Some((done as u64, self.files.len() as u64))
    }
}
