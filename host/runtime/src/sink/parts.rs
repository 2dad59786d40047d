//! What happens to a file sink's directory outside of its writers: the check at start, taking over, publishing, sweeping.
//!
//! A complete part exists under its staged name, then under its final name, never under both and (a rename is atomic) never in
//! between. Whatever the process was killed at, doing it again leads to the same directory.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use super::{Author, Error, PartKind, StagedPart};
use crate::checkpoint::outputs::Adoption;
use crate::fault_point;
use crate::job::model::{SinkCompression, SinkFormat};

#[cfg(test)]
mod tests;

const EXTENSIONS: [&str; 3] = ["txt", "jsonl", "csv"];

/// What follows them where a part is compressed.
const COMPRESSED: [&str; 3] = ["", ".gz", ".zst"];

fn extension(kind: &PartKind) -> String {
    let format = match kind.format {
        SinkFormat::Raw => EXTENSIONS[0],
        SinkFormat::Json => EXTENSIONS[1],
        SinkFormat::Csv(_) => EXTENSIONS[2],
    };
    let compression = match kind.compression {
        SinkCompression::None => COMPRESSED[0],
        SinkCompression::Gzip { .. } => COMPRESSED[1],
        SinkCompression::Zstd { .. } => COMPRESSED[2],
    };
    format!("{format}{compression}")
}

fn is_extension(text: &str) -> bool {
    let formats = EXTENSIONS
        .iter()
        .filter_map(|format| text.strip_prefix(format));
    formats.into_iter().any(|rest| COMPRESSED.contains(&rest))
}

/// The name of the `number`th part of an attempt's subtask while it is staged: hidden, so that no pattern finds it.
pub(super) fn staged_name(author: &Author, number: u64, kind: &PartKind) -> String {
    let Author {
        lineage,
        attempt,
        subtask,
        ..
    } = author;
    format!(
        ".part-{lineage}-{attempt}-{subtask:03}-{number:06}.{}",
        extension(kind)
    )
}

/// The name, once it is published, of the `number`th part that was begun before checkpoint [`Author::next_n`] and after the one
/// before it.
pub(super) fn final_name(author: &Author, number: u64, kind: &PartKind) -> String {
    let Author {
        lineage,
        subtask,
        next_n,
        ..
    } = author;
    format!(
        "part-{lineage}-{next_n:06}-{subtask:03}-{number:03}.{}",
        extension(kind)
    )
}

/// What a staged name says, if it is one.
enum Staged<'a> {
    /// A file that only tried whether something can be written.
    Probe,
    /// What [`staged_name`] names: the attempt, and what stands before and after it.
    Part(&'a str, u64, &'a str),
}

fn parse_staged(name: &str) -> Option<Staged<'_>> {
    let rest = name.strip_prefix(".part-")?;
    let (stem, extension) = rest.split_once('.')?;
    if !is_extension(extension) {
        return None;
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let fields: Vec<&str> = stem.split('-').collect();
    match fields[..] {
        ["probe", process] if is_number(process) => Some(Staged::Probe),
        [lineage, attempt, subtask, number]
            if !lineage.is_empty()
                && lineage.bytes().all(|b| b.is_ascii_hexdigit())
                && [attempt, subtask, number].into_iter().all(is_number) =>
        {
            let (before, after) = rest.split_at(lineage.len() + 1);
            Some(Staged::Part(
                before,
                attempt.parse().ok()?,
                &after[attempt.len()..],
            ))
        }
        _ => None,
    }
}

/// The attempt that wrote a file of this name, if it is a staged one; 0 for a probe, which any attempt may remove.
fn staged_by(name: &str) -> Option<u64> {
    match parse_staged(name)? {
        Staged::Probe => Some(0),
        Staged::Part(_, attempt, _) => Some(attempt),
    }
}

/// Takes over for `attempt` what is committed of parts that an earlier attempt had open: a copy of so many bytes of each, under a
/// staged name of `attempt`, durable when this returns. The originals stay as they are, and whoever still writes to them does not
/// write to the copies.
///
/// To be called only by the attempt that owns the job.
///
/// The inner error is a part that is not there as it was recorded: not at all, or shorter.
///
/// # Errors
/// [`Error::Part`] if a name is not that of a part; [`Error::Io`].
pub fn adopt(open: &[StagedPart], attempt: u64) -> Result<Adoption, Error> {
    let mut adopted = Vec::with_capacity(open.len());
    for (number, part) in open.iter().enumerate() {
        if number > 0 {
            fault_point::pass("mid-adoption");
        }
        match adopt_one(part, attempt)? {
            Some(part) => adopted.push(part),
            None => return Ok(Err(part.clone())),
        }
    }
    let dirs: BTreeSet<_> = adopted.iter().map(|part| &part.dir).collect();
    dirs.into_iter().try_for_each(|dir| sync_dir(dir))?;
    Ok(Ok(adopted))
}

/// The end of a staged name, subtask, number and extension, with a zero more before the number than [`staged_name`] ever writes. Once what was
/// taken over is published its staged name is free, and as long as it may have to be published again none of the attempt's own parts must
/// have that name.
fn numbered_apart(end: &str) -> String {
    let (subtask, number) = end
        .rsplit_once('-')
        .expect("a staged name was found to have a number");
    format!("{subtask}-0{number}")
}

fn adopt_one(part: &StagedPart, attempt: u64) -> Result<Option<StagedPart>, Error> {
    let from = part.dir.join(&part.staged);
    let Some(Staged::Part(before, _, after)) = parse_staged(&part.staged) else {
        return Err(Error::Part(format!(
            "sink `{}`: {} is not the name of a staged part",
            part.sink, part.staged
        )));
    };
    let staged = format!(".part-{before}{attempt}{}", numbered_apart(after));
    let to = part.dir.join(&staged);
    let file = match File::open(&from) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("cannot read", &from, error)),
    };
    let mut copy = File::create_new(&to).map_err(|cause| failed("cannot create", &to, cause))?;
    // The file system shares the bytes instead, if it can.
    let copied = io::copy(&mut file.take(part.bytes), &mut copy)
        .and_then(|copied| copy.sync_all().map(|()| copied))
        .map_err(|cause| failed("cannot write", &to, cause))?;
    Ok((copied == part.bytes).then(|| StagedPart {
        staged,
        ..part.clone()
    }))
}

/// Makes sure that sink `sink` can write to `dir`, and tries to write a file. If only the directory is missing, `create` decides whether
/// it is created or what it would be created in is tried instead.
///
/// # Errors
/// [`Error::Directory`] with what is wrong and the remedy.
pub fn check_dir(sink: &str, dir: &Path, create: bool) -> Result<(), Error> {
    let refuse = |what: String| {
        Error::Directory(format!(
            "sink `{sink}`: output directory {}: {what}",
            dir.display()
        ))
    };
    let without_parent = || {
        let parent = dir.parent().unwrap_or(dir).display();
        refuse(format!(
            "{parent} does not exist; create it (is a volume not mounted?) or correct `dir`"
        ))
    };
    let mut tried = dir;
    match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => {}
        Err(error) if error.kind() == ErrorKind::NotFound && !create => {
            tried = dir
                .parent()
                .filter(|parent| parent.is_dir())
                .ok_or_else(without_parent)?;
        }
        Ok(_) => {
            return Err(refuse(
                "it is a file; remove it or choose another `dir`".to_owned(),
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::create_dir(dir) {
            Ok(()) => {
                if let Some(parent) = dir.parent() {
                    sync_dir(parent)?;
                }
            }
            // Another sink of the job was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(without_parent()),
            Err(error) => return Err(refuse(format!("it cannot be created: {error}"))),
        },
        Err(error) => return Err(refuse(format!("it cannot be looked at: {error}"))),
    }
    let probe = tried.join(format!(".part-probe-{}.txt", std::process::id()));
    let written = File::create(&probe).and_then(|mut file| file.write_all(b"probe\n"));
    let removed = fs::remove_file(&probe);
    written.and(removed).map_err(|error| {
        refuse(format!("it cannot be written to ({error}); give the user who runs the job write access and free space"))
    })
}

/// Makes `parts` visible under their final names, durably. Doing it again is no error; a crash in between is mended by
/// doing it again.
///
/// To be called only when the checkpoint that names the parts is decided.
///
/// # Errors
/// [`Error::Part`] if a part is gone, is not as long as recorded, or would replace another file; [`Error::Io`].
pub fn publish(parts: &[StagedPart]) -> Result<(), Error> {
    let mut dirs = BTreeSet::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            fault_point::pass("mid-renames");
        }
        publish_one(part)?;
        dirs.insert(&part.dir);
    }
    // Of those found published as well: the crash may have come before their directory was synced.
    dirs.into_iter().try_for_each(|dir| sync_dir(dir))
}

fn publish_one(part: &StagedPart) -> Result<(), Error> {
    let wrong = |what: String| {
        Error::Part(format!(
            "sink `{}`: part {} of {} records in {}: {what}",
            part.sink,
            part.name,
            part.records,
            part.dir.display()
        ))
    };
    if part.name.contains('/') || part.staged.contains('/') || !part.staged.starts_with('.') {
        return Err(wrong(format!(
            "the recorded names are not those of a part (staged as {})",
            part.staged
        )));
    }
    let (staged, published) = (part.dir.join(&part.staged), part.dir.join(&part.name));
    let check_length = |found: u64, path: &Path| {
        if found == part.bytes {
            return Ok(());
        }
        Err(wrong(format!(
            "{} has {found} bytes where the checkpoint has {}; it was changed by someone else, so its output cannot be \
             vouched for. Restore it, or move the output away and start over with `--fresh`",
            path.display(),
            part.bytes
        )))
    };
    match (length(&staged)?, length(&published)?) {
        (None, None) => Err(wrong(
            "it is neither staged nor published, though it was committed; was the directory emptied or is a volume not \
             mounted? Restore it, or move the output away and start over with `--fresh`"
                .to_owned(),
        )),
        (None, Some(found)) => check_length(found, &published),
        (Some(found), None) => {
            check_length(found, &staged)?;
            fs::rename(&staged, &published)
                .map_err(|cause| failed(&format!("sink `{}`: cannot publish", part.sink), &published, cause))
        }
        (Some(found), Some(_)) => {
            check_length(found, &staged)?;
            if !same_content(&staged, &published)? {
                return Err(wrong(
                    "another file has its name already; do two sinks write to one directory? Move the file away".to_owned(),
                ));
            }
            // A copy, restored from a backup for one.
            fs::remove_file(&staged).map_err(|cause| failed("cannot remove", &staged, cause))
        }
    }
}

fn same_content(left: &Path, right: &Path) -> Result<bool, Error> {
    let open = |path: &Path| File::open(path).map_err(|cause| failed("cannot read", path, cause));
    let read = |file: &mut File, path: &Path| {
        let mut piece = Vec::with_capacity(64 * 1024);
        file.take(64 * 1024)
            .read_to_end(&mut piece)
            .map_err(|cause| failed("cannot read", path, cause))?;
        Ok(piece)
    };
    let (mut one, mut other) = (open(left)?, open(right)?);
    loop {
        let piece = read(&mut one, left)?;
        if piece != read(&mut other, right)? {
            return Ok(false);
        }
        if piece.is_empty() {
            return Ok(true);
        }
    }
}

/// Removes staged parts in `dir` that attempts below `attempt` wrote and that are not among `keep`: what killed attempts
/// left, of any lineage, since a directory belongs to one job. Those of newer attempts stay: the caller may have been
/// replaced without knowing. Returns how many. A directory that is not there has none.
///
/// To be called only by the attempt that owns the job, after it knows which parts are still to be published.
///
/// # Errors
/// [`Error::Io`].
pub fn sweep(dir: &Path, keep: &[StagedPart], attempt: u64) -> Result<usize, Error> {
    let keep: HashSet<&str> = keep
        .iter()
        .filter(|part| part.dir == dir)
        .map(|part| part.staged.as_str())
        .collect();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed("cannot list", dir, error)),
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry.map_err(|cause| failed("cannot list", dir, cause))?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| {
            staged_by(name).is_some_and(|by| by < attempt) && !keep.contains(name)
        }) {
            match fs::remove_file(entry.path()) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed("cannot remove", &entry.path(), error)),
            }
        }
    }
    if removed > 0 {
        sync_dir(dir)?;
    }
    Ok(removed)
}

/// The length of the file at `path`, `None` if there is none.
fn length(path: &Path) -> Result<Option<u64>, Error> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
        Ok(_) => Err(Error::Part(format!(
            "{} is not a file; move it away",
            path.display()
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("cannot look at", path, error)),
    }
}

/// The names in `dir` are on the disk when this returns.
pub(super) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|cause| failed("cannot sync", dir, cause))
}

fn failed(what: &str, path: &Path, cause: io::Error) -> Error {
    Error::Io {
        what: format!("{what} {}", path.display()),
        source: cause,
    }
}
