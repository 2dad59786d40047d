//! The witness: a small file beside the output that says how far it was committed.
//!
//! The commit log lies in checkpoint storage itself, so an emptied or unmounted storage would look like a job that never ran.
//! `.weir-<job>.json` in each file sink's directory tells the difference. It is created after marker 0 is committed and
//! before the first record. When a checkpoint is committed, it is updated twice: before the first part becomes visible, and when all are.
//! So it is never behind what readers can see, and checkpoint storage that was rolled back by a single checkpoint is noticed; and it
//! says whether publishing must be finished. Where a checkpoint brings no parts, the first update is left out.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::manifest::Lineage;
use super::storage::sync_dir;

/// The version this release writes, and the only one it reads.
pub const FORMAT: u32 = 1;

/// How far the output of a job in one directory was committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// [`FORMAT`].
    pub format: u32,
    /// The job.
    pub job: String,
    /// The history that was committed.
    pub lineage: Lineage,
    /// The newest checkpoint of which something may be visible here.
    pub n: u64,
    /// Whether all of it is: then readers may have taken parts away since.
    pub complete: bool,
    /// The attempt that wrote it, so that one that wakes up late does not turn it back.
    pub attempt: u64,
}

impl Witness {
    /// Whether this one may replace what is there: never a newer attempt's.
    pub fn may_replace(&self, there: &Witness) -> bool {
        (there.attempt, there.n, there.complete) <= (self.attempt, self.n, self.complete)
    }
}

/// What became of [`write()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is there and durable.
    Done,
    /// A newer attempt's witness is there: this attempt was taken over.
    Newer {
        /// The attempt.
        attempt: u64,
    },
}

/// The witness of `job` in `dir`.
pub fn path(dir: &Path, job: &str) -> PathBuf {
    dir.join(format!(".weir-{job}.json"))
}

/// Reads the witness of `job` in `dir`; `None` if there is none, or no such directory. The inner error says what is wrong with
/// the contents.
///
/// # Errors
/// It cannot be read.
pub fn read(dir: &Path, job: &str) -> io::Result<Option<Result<Witness, String>>> {
    let bytes = match fs::read(path(dir, job)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(decode(job, &bytes)))
}

fn decode(job: &str, bytes: &[u8]) -> Result<Witness, String> {
    #[derive(Deserialize)]
    struct Probe {
        format: u32,
    }
    let damaged = |error: serde_json::Error| format!("it is damaged: {error}");
    let probe: Probe = serde_json::from_slice(bytes).map_err(damaged)?;
    if probe.format != FORMAT {
        return Err(format!(
            "it has format {}; this is Weir {} and reads format {FORMAT}",
            probe.format,
            env!("CARGO_PKG_VERSION")
        ));
    }
    let witness: Witness = serde_json::from_slice(bytes).map_err(damaged)?;
    if witness.job != job {
        return Err(format!("it belongs to job `{}`", witness.job));
    }
    Ok(witness)
}

/// Writes a witness into `dir`, atomically and durably, unless a newer attempt's is there. The directory is created if it is
/// missing (its parent must be there).
///
/// # Errors
/// The old one may be there still, whole.
pub fn write(dir: &Path, witness: &Witness) -> io::Result<Written> {
    if let Some(Ok(there)) = read(dir, &witness.job)?
        && !witness.may_replace(&there)
    {
        return Ok(Written::Newer {
            attempt: there.attempt,
        });
    }
    if !dir.is_dir() {
        fs::create_dir(dir)?;
        sync_dir(dir.parent().unwrap_or(Path::new("/")))?;
    }
    let target = path(dir, &witness.job);
    // One name an attempt: a process that was replaced never writes into its successor's half-written file.
    let temporary = dir.join(format!(
        ".weir-{}.json.tmp-{}",
        witness.job, witness.attempt
    ));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    let mut bytes = serde_json::to_vec(witness).expect("a witness is plain data");
    bytes.push(b'\n');
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, &target)?;
    sync_dir(dir)?;
    Ok(Written::Done)
}

/// Removes what earlier attempts left of unfinished writes in `dir`. Only for the owner, after its claim.
///
/// # Errors
/// Something may remain.
pub fn sweep(dir: &Path, job: &str) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let prefix = format!(".weir-{job}.json.tmp-");
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&prefix)) {
            match fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn witness(attempt: u64, n: u64) -> Witness {
        Witness {
            format: FORMAT,
            job: "j".to_owned(),
            lineage: Lineage::from_bits(7),
            n,
            complete: true,
            attempt,
        }
    }

    #[test]
    fn it_is_read_as_written_and_never_turned_back() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let out = dir.path().join("out");
        assert_eq!(read(&out, "j").expect("read"), None);
        assert_eq!(write(&out, &witness(2, 5)).expect("written"), Written::Done);
        let newer = Written::Newer { attempt: 2 };
        assert_eq!(write(&out, &witness(1, 9)).expect("refused"), newer);
        assert_eq!(write(&out, &witness(2, 4)).expect("refused"), newer);
        let begun = Witness {
            complete: false,
            ..witness(2, 5)
        };
        assert_eq!(write(&out, &begun).expect("refused"), newer);
        assert_eq!(read(&out, "j").expect("read"), Some(Ok(witness(2, 5))));
        assert_eq!(write(&out, &witness(3, 5)).expect("written"), Written::Done);
        assert_eq!(read(&out, "other").expect("read"), None);
        let names = fs::read_dir(&out).expect("listed").count();
        assert_eq!(names, 1, "no temporary file is left");
    }

    #[test]
    fn a_witness_that_cannot_be_understood_is_not_an_absent_one() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let place = |text: &str| fs::write(path(dir.path(), "j"), text).expect("written");
        let found = || {
            read(dir.path(), "j")
                .expect("read")
                .expect("there")
                .expect_err("unusable")
        };
        place("{");
        assert!(found().contains("damaged"));
        place(r#"{"format": 2}"#);
        assert!(found().contains("format 2"));
        let foreign = serde_json::to_string(&Witness {
            job: "k".to_owned(),
            ..witness(1, 1)
        });
        place(&foreign.expect("plain data"));
        assert!(found().contains("job `k`"));
    }
}
