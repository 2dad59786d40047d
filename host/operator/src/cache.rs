//! Compiled code on disk, so that the next start need not compile: seconds for an operator that
//! carries an interpreter. wasmtime has such a cache, which starts a thread; this one works within
//! the call.
//!
//! What is read back is machine code that runs outside of any sandbox. Hence:
//!
//! * **Nobody else can have written it.** The directory and the file belong to this user or to root,
//!   and no other user may write to either; both are asked of the open descriptor, files are opened
//!   relative to the directory's, and a symbolic link is not followed. Whoever gets around that can
//!   replace this program as well.
//! * **It was written here.** Ownership alone does not say so: an archive that is unpacked, or a
//!   repository that is checked out, belongs to who did it, and may carry a cache beside a job
//!   file. A file therefore holds the number and the birth time of its inode, which are given when
//!   it is made and cannot be chosen. A copy does not match, and is compiled anew.
//! * **It is whole and what its name says.** A SHA-256 over name, inode and contents is compared
//!   before the code is used. Files are not synced; one that a power cut spoils is compiled anew.
//!
//! The name is the component's SHA-256 and a digest of all that code depends on: wasmtime's version,
//! the machine's instruction set and the engine's settings. Files are replaced by `rename`, so that
//! processes may share a directory. Those used least recently go when the cap is passed; a use shows
//! as the file's modification time.

use std::ffi::CStr;
use std::fs::{self, File, Metadata};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use wasmtime::component::Component;

/// Of this format; the last byte is its version.
const MAGIC: [u8; 8] = *b"weircod\x01";
/// Magic, inode, birth, digest.
const HEADER: usize = 8 + 8 + 8 + 32;

const SUFFIX: &str = ".compiled";
const TEMPORARY: &str = ".tmp";
/// Hexadecimal digits of a name: the component's, and the engine's.
const NAME_DIGITS: (usize, usize) = (64, 16);

/// A temporary file that is this much older than one just written was left behind by a crash.
const LEFT_BEHIND_SECONDS: i64 = 3600;

/// A directory of compiled code: see [`Engine::with_cache`](crate::Engine::with_cache).
///
/// The directory is made when there is something to keep, with mode 0700. It is used only while it
/// belongs to this user or to root and nobody else may write to it; so is each file in it. Only
/// files that this cache names itself are ever removed.
#[derive(Debug)]
pub struct CompileCache {
    dir: PathBuf,
    max_bytes: u64,
}

/// What a cache had to do with a [`Component`](crate::Component).
#[derive(Debug)]
pub enum CacheUse {
    /// There is none: it was compiled.
    None,
    /// Its code was there.
    Hit,
    /// It was compiled, and its code is there now.
    Stored,
    /// It was compiled, and could not be kept: worth a warning, as the next start compiles it again.
    Failed(CacheError),
}

/// Why compiled code was not kept.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Somebody else could have put code there.
    #[error("{} {why}", path.display())]
    Unsafe {
        /// The directory, or a file in it.
        path: PathBuf,
        /// What is wrong with it, to be read after its name.
        why: String,
    },
    /// The file system keeps no birth times, by which a file that was written here is told from a
    /// copy.
    #[error("the file system of {} keeps no birth times of files", dir.display())]
    Birthless {
        /// The directory.
        dir: PathBuf,
    },
    /// One component's code alone is more than the cache may hold.
    #[error("{bytes} bytes of compiled code are more than the {max_bytes} that {} may hold", dir.display())]
    TooLarge {
        /// The directory.
        dir: PathBuf,
        /// Size of the code.
        bytes: u64,
        /// Most that the cache may hold.
        max_bytes: u64,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried, to be read before the path.
        doing: &'static str,
        /// The directory, or a file in it.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// wasmtime could not put the code into bytes.
    #[error("compiled code cannot be serialized: {0}")]
    Serialize(String),
}

/// What a file holds about its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Birth {
    inode: u64,
    nanos: u64,
}

impl Birth {
    /// `None` where the file system keeps no birth times.
    fn of(metadata: &Metadata) -> Option<Birth> {
        let since = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
        // Some file systems answer with zero instead of an error.
        let nanos = u64::try_from(since.as_nanos()).ok().filter(|n| *n > 0)?;
        Some(Birth {
            inode: metadata.ino(),
            nanos,
        })
    }
}

impl CompileCache {
    /// What a cache holds at most, unless told otherwise: 1 GiB.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// A cache in this directory, which need not exist.
    pub fn new(dir: impl AsRef<Path>) -> CompileCache {
        CompileCache {
            // Without a slash at the end, which would follow a symbolic link.
            dir: dir.as_ref().components().collect(),
            max_bytes: CompileCache::MAX_BYTES,
        }
    }

    /// With another limit to what it holds, in bytes of files.
    #[must_use]
    pub fn max_bytes(self, max_bytes: u64) -> CompileCache {
        CompileCache { max_bytes, ..self }
    }

    /// The compiled form of a component, from here if it is here. The error is that of compiling.
    pub(crate) fn component(
        &self,
        engine: &wasmtime::Engine,
        binary: &[u8],
    ) -> wasmtime::Result<(Component, CacheUse)> {
        let name = name(engine, binary);
        let found = match self.find(&name) {
            Ok(found) => found,
            Err(error) => {
                let component = Component::from_binary(engine, binary)?;
                return Ok((component, CacheUse::Failed(error)));
            }
        };
        if let Some(file) = found {
            // SAFETY: `deserialize` asks for bytes that `serialize` of any wasmtime returned,
            // unmodified. These are in memory of our own, so nobody changes them under us. They come
            // from a file that only this user and root can write and that was made on this file
            // system rather than copied to it, and the digest says that the file is still what
            // `store` wrote under this name; `store` writes what `serialize` returned. That they
            // are this engine's is in the name, and wasmtime checks it once more.
            let component = unsafe { Component::deserialize(engine, &file[HEADER..]) };
            if let Ok(component) = component {
                return Ok((component, CacheUse::Hit));
            }
        }
        let component = Component::from_binary(engine, binary)?;
        let stored = component
            .serialize()
            .map_err(|error| CacheError::Serialize(format!("{error:#}")))
            .and_then(|code| self.store(&name, &code));
        let used = match stored {
            Ok(()) => CacheUse::Stored,
            Err(error) => CacheUse::Failed(error),
        };
        Ok((component, used))
    }

    /// A file that was written here under this name, header included. `None`: there is none, or it
    /// is damaged or a copy, and may be replaced.
    fn find(&self, name: &str) -> Result<Option<Vec<u8>>, CacheError> {
        let Some(dir) = self.open()? else {
            return Ok(None);
        };
        let path = || self.dir.join(name);
        let file = match rustix::fs::openat(
            &dir,
            name,
            // A FIFO, opened without waiting, is no file below.
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => {
                return Err(CacheError::Unsafe {
                    path: path(),
                    why: "is a symbolic link".to_owned(),
                });
            }
            Err(error) => return Err(self.io("open", name)(error.into())),
        };
        let metadata = file.metadata().map_err(self.io("look at", name))?;
        let unsafe_file = |why: String| CacheError::Unsafe { path: path(), why };
        if !metadata.is_file() {
            return Err(unsafe_file("is not a file".to_owned()));
        }
        ours_alone(&metadata).map_err(unsafe_file)?;
        // Nothing larger was written here.
        if metadata.len() > self.max_bytes {
            return Ok(None);
        }
        let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let mut bytes = Vec::with_capacity(size);
        (&file)
            .take(metadata.len())
            .read_to_end(&mut bytes)
            .map_err(self.io("read", name))?;
        let Some((header, code)) = bytes.split_at_checked(HEADER) else {
            return Ok(None);
        };
        let whole =
            Birth::of(&metadata).is_some_and(|birth| header == header_of(name, birth, code));
        if !whole {
            return Ok(None);
        }
        // Used just now. What may not be touched is in a directory where nothing is evicted either.
        let _ = rustix::fs::futimens(
            &file,
            &Timestamps {
                last_access: moment(UTIME_OMIT),
                last_modification: moment(UTIME_NOW),
            },
        );
        Ok(Some(bytes))
    }

    /// Writes a file, making the directory if there is none, and evicts what is too much then.
    fn store(&self, name: &str, code: &[u8]) -> Result<(), CacheError> {
        let bytes = (HEADER + code.len()) as u64;
        if bytes > self.max_bytes {
            return Err(CacheError::TooLarge {
                dir: self.dir.clone(),
                bytes,
                max_bytes: self.max_bytes,
            });
        }
        let dir = match self.open()? {
            Some(dir) => dir,
            None => self.create()?,
        };
        let (temporary, file) = self.create_temporary(&dir, name)?;
        let written = self.write(&file, &temporary, name, code).and_then(|()| {
            rustix::fs::renameat(&dir, &temporary, &dir, name)
                .map_err(|error| self.io("rename to", name)(error.into()))
        });
        if written.is_err() {
            // As good as gone: the next writer removes what is left behind.
            let _ = rustix::fs::unlinkat(&dir, &temporary, AtFlags::empty());
            return written;
        }
        self.evict(&dir, name)
    }

    fn write(
        &self,
        mut file: &File,
        temporary: &str,
        name: &str,
        code: &[u8],
    ) -> Result<(), CacheError> {
        let metadata = file.metadata().map_err(self.io("look at", temporary))?;
        let birth = Birth::of(&metadata).ok_or_else(|| CacheError::Birthless {
            dir: self.dir.clone(),
        })?;
        file.write_all(&header_of(name, birth, code))
            .and_then(|()| file.write_all(code))
            .map_err(self.io("write", temporary))
    }

    /// A new file beside the one that it will replace, and its name.
    fn create_temporary(&self, dir: &OwnedFd, name: &str) -> Result<(String, File), CacheError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        loop {
            // Taken where another container has the same process id, or had when it crashed.
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let temporary = format!("{name}.{process}-{count}{TEMPORARY}");
            match rustix::fs::openat(
                dir,
                &temporary,
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::RUSR | Mode::WUSR,
            ) {
                Ok(file) => return Ok((temporary, File::from(file))),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(self.io("create", &temporary)(error.into())),
            }
        }
    }

    /// Removes what was used least recently until the rest fits, never `kept`, and what crashed
    /// writers left.
    fn evict(&self, dir: &OwnedFd, kept: &str) -> Result<(), CacheError> {
        let list = |error: Errno| self.io("list", "")(error.into());
        let mut entries = Vec::new();
        let mut temporaries = Vec::new();
        let mut total = 0_u64;
        let mut newest = i64::MIN;
        for entry in Dir::read_from(dir).map_err(list)? {
            let entry = entry.map_err(list)?;
            let name = entry.file_name();
            let is_entry = is_entry(name.to_bytes());
            if !is_entry && !is_temporary(name.to_bytes()) {
                continue;
            }
            // Gone meanwhile: somebody else evicts as well.
            let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let used = (stat.st_mtime, stat.st_mtime_nsec);
            if !is_entry {
                temporaries.push((used.0, name.to_owned()));
                continue;
            }
            let bytes = u64::try_from(stat.st_size).unwrap_or(0);
            total = total.saturating_add(bytes);
            if name.to_bytes() == kept.as_bytes() {
                newest = used.0;
            } else {
                entries.push((used, bytes, name.to_owned()));
            }
        }
        entries.sort_unstable();
        let mut left_behind = temporaries
            .into_iter()
            .filter(|(written, _)| written.saturating_add(LEFT_BEHIND_SECONDS) < newest)
            .map(|(_, name)| name);
        left_behind.try_for_each(|name| self.remove(dir, &name))?;
        for (_, bytes, name) in entries {
            if total <= self.max_bytes {
                break;
            }
            self.remove(dir, &name)?;
            total -= bytes;
        }
        Ok(())
    }

    fn remove(&self, dir: &OwnedFd, name: &CStr) -> Result<(), CacheError> {
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.io("remove", &name.to_string_lossy())(error.into())),
        }
    }

    /// The directory, if there is one, once it is known to be safe.
    fn open(&self) -> Result<Option<OwnedFd>, CacheError> {
        let refused = |why: String| CacheError::Unsafe {
            path: self.dir.clone(),
            why,
        };
        let opened = rustix::fs::open(
            &self.dir,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let dir = match opened {
            Ok(dir) => File::from(dir),
            Err(Errno::NOENT) => return Ok(None),
            // A symbolic link is either of both, depending on the system.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(refused("is a symbolic link or not a directory".to_owned()));
            }
            Err(error) => return Err(self.io("open", "")(error.into())),
        };
        let metadata = dir.metadata().map_err(self.io("look at", ""))?;
        ours_alone(&metadata).map_err(refused)?;
        Ok(Some(dir.into()))
    }

    fn create(&self) -> Result<OwnedFd, CacheError> {
        if let Some(parent) = self.dir.parent() {
            fs::create_dir_all(parent).map_err(self.io("create the parent of", ""))?;
        }
        match rustix::fs::mkdir(&self.dir, Mode::RWXU) {
            // Made by somebody else meanwhile, it is looked at like any other.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(self.io("create", "")(error.into())),
        }
        let gone = || self.io("open", "")(io::ErrorKind::NotFound.into());
        self.open()?.ok_or_else(gone)
    }

    /// An error of the file of this name; of the directory, if it is empty.
    fn io(&self, doing: &'static str, name: &str) -> impl FnOnce(io::Error) -> CacheError {
        let path = if name.is_empty() {
            self.dir.clone()
        } else {
            self.dir.join(name)
        };
        move |source| CacheError::Io {
            doing,
            path,
            source,
        }
    }
}

/// Whether nobody but this user and root can have written this, or why not.
fn ours_alone(metadata: &Metadata) -> Result<(), String> {
    let me = rustix::process::geteuid().as_raw();
    judge(metadata.uid(), metadata.mode() & 0o7777, me)
}

fn judge(owner: u32, mode: u32, me: u32) -> Result<(), String> {
    if owner != me && owner != 0 {
        return Err(format!(
            "belongs to user {owner}, neither to this one ({me}) nor to root"
        ));
    }
    // An access control list that lets another user write shows as the group's permission.
    if mode & 0o022 != 0 {
        return Err(format!("can be written by other users (mode {mode:04o})"));
    }
    Ok(())
}

fn name(engine: &wasmtime::Engine, binary: &[u8]) -> String {
    let mut settings = Settings(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut settings);
    let component = crate::inspect::hex(&Sha256::digest(binary));
    format!("{component}-{:016x}{SUFFIX}", settings.finish())
}

/// Hashes as std's hasher does not promise to: the same in every process and release.
struct Settings(Sha256);

impl Hasher for Settings {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        u64::from_be_bytes(*digest.first_chunk().expect("a digest has 32 bytes"))
    }
}

fn header_of(name: &str, birth: Birth, code: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..16].copy_from_slice(&birth.inode.to_le_bytes());
    header[16..24].copy_from_slice(&birth.nanos.to_le_bytes());
    let digest = Sha256::new()
        // All names have one length.
        .chain_update(name)
        .chain_update(&header[..24])
        .chain_update(code)
        .finalize();
    header[24..].copy_from_slice(&digest);
    header
}

fn is_entry(name: &[u8]) -> bool {
    let (component, engine) = NAME_DIGITS;
    name.strip_suffix(SUFFIX.as_bytes()).is_some_and(|digits| {
        digits.len() == component + 1 + engine
            && digits.iter().enumerate().all(|(i, digit)| {
                if i == component {
                    *digit == b'-'
                } else {
                    digit.is_ascii_hexdigit()
                }
            })
    })
}

fn is_temporary(name: &[u8]) -> bool {
    let (component, engine) = NAME_DIGITS;
    let entry = component + 1 + engine + SUFFIX.len();
    name.ends_with(TEMPORARY.as_bytes()) && name.get(..entry).is_some_and(is_entry)
}

fn moment(nanos: i64) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: nanos,
    }
}

#[cfg(test)]
mod tests;
