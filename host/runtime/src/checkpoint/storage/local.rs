//! Checkpoint storage in a local directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{CheckpointStorage, Created, Folder, Key, MAX_OBJECT_BYTES, Upload};

/// What unfinished writes are called, so that listings leave them out.
const TEMPORARY: &str = ".tmp-";

/// A local directory, or one that behaves like it (rename and fsync mean what POSIX says).
///
/// Files have mode 0600 and directories 0700: state holds the job's data.
#[derive(Clone, Debug)]
pub struct LocalDirectory {
    root: PathBuf,
    /// Begins the names of this process's unfinished writes.
    temporary: Arc<Temporary>,
}

#[derive(Debug)]
struct Temporary {
    prefix: String,
    next: AtomicU64,
}

impl Temporary {
    /// Process ids repeat (containers all have pid 1), so a random number tells two hosts on one directory apart.
    fn new() -> io::Result<Temporary> {
        Ok(Temporary {
            prefix: format!("{TEMPORARY}{:032x}-", random_bits()?),
            next: AtomicU64::new(0),
        })
    }
}

impl LocalDirectory {
    /// Opens `root`, and creates it and its folders where they are missing.
    ///
    /// Only here: a folder that vanishes later (the volume was unmounted, somebody emptied it) makes writes fail instead of
    /// starting a second, empty history in its place.
    ///
    /// # Errors
    /// It cannot be created, or is not a directory.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<LocalDirectory> {
        let root = root.into();
        create_dir(&root)?;
        for folder in Folder::ALL {
            create_dir(&root.join(folder.name()))?;
        }
        Ok(LocalDirectory {
            root,
            temporary: Arc::new(Temporary::new()?),
        })
    }

    /// Opens `root` to look at it, as it is: nothing is created. `None` if it is not there.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn look(root: impl Into<PathBuf>) -> io::Result<Option<LocalDirectory>> {
        let root = root.into();
        if !root.is_dir() {
            return Ok(None);
        }
        Ok(Some(LocalDirectory {
            root,
            temporary: Arc::new(Temporary::new()?),
        }))
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// Unfinished writes lie in the root: any folder is on the same file system, and listings need not skip so many.
    fn begin(&self) -> io::Result<LocalUpload> {
        let number = self.temporary.next.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join(format!("{}{number}", self.temporary.prefix));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(LocalUpload {
            root: self.root.clone(),
            path,
            file,
        })
    }
}

impl CheckpointStorage for LocalDirectory {
    fn location(&self) -> String {
        self.root.display().to_string()
    }

    fn create(&self, key: &Key, contents: &[u8]) -> io::Result<Created> {
        let mut upload = self.begin()?;
        upload.write_all(contents)?;
        upload.publish(key)
    }

    fn get(&self, key: &Key) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = existing(File::open(self.path(key)))? else {
            return Ok(None);
        };
        let mut contents = Vec::new();
        file.take(MAX_OBJECT_BYTES + 1).read_to_end(&mut contents)?;
        if contents.len() as u64 > MAX_OBJECT_BYTES {
            let what = format!("larger than {MAX_OBJECT_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Some(contents))
    }

    fn open(&self, key: &Key) -> io::Result<Option<Box<dyn Read + Send>>> {
        let file = existing(File::open(self.path(key)))?;
        Ok(file.map(|file| Box::new(file) as Box<dyn Read + Send>))
    }

    fn size(&self, key: &Key) -> io::Result<Option<u64>> {
        let metadata = existing(fs::metadata(self.path(key)))?;
        Ok(metadata.map(|metadata| metadata.len()))
    }

    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(folder.name()))? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn delete(&self, key: &Key) -> io::Result<()> {
        existing(fs::remove_file(self.path(key))).map(|_| ())
    }

    fn upload(&self) -> io::Result<Box<dyn Upload>> {
        Ok(Box::new(self.begin()?))
    }

    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TEMPORARY) && !name.starts_with(&self.temporary.prefix) {
                existing(fs::remove_file(entry.path()))?;
            }
        }
        Ok(())
    }
}

struct LocalUpload {
    root: PathBuf,
    path: PathBuf,
    file: File,
}

impl LocalUpload {
    fn publish(&self, key: &Key) -> io::Result<Created> {
        self.file.sync_all()?;
        let target = self.root.join(key.as_str());
        let created = rename_if_absent(&self.path, &target)?;
        // Also when it was taken: the winner may have been killed between its rename and its fsync.
        sync_dir(
            target
                .parent()
                .expect("a key lies in the root or in a folder of it"),
        )?;
        Ok(created)
    }
}

impl Write for LocalUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Upload for LocalUpload {
    fn finish(self: Box<Self>, key: &Key) -> io::Result<()> {
        self.publish(key).map(|_| ())
    }
}

impl Drop for LocalUpload {
    fn drop(&mut self) {
        // Fails after a successful rename, as it should; what else remains is swept at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// 128 bits from the operating system.
pub(in crate::checkpoint) fn random_bits() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// `None` for "not found".
fn existing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Renames without replacing. Where the file system cannot (NFS, some FUSE), a hard link has the same meaning.
fn rename_if_absent(from: &Path, to: &Path) -> io::Result<Created> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Created::New),
        Err(Errno::EXIST) => Ok(Created::Taken),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_if_absent(from, to),
        Err(error) => Err(error.into()),
    }
}

fn link_if_absent(from: &Path, to: &Path) -> io::Result<Created> {
    match fs::hard_link(from, to) {
        Ok(()) => {
            fs::remove_file(from)?;
            Ok(Created::New)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Created::Taken),
        Err(error) => Err(error),
    }
}

/// Makes the names in a directory durable.
pub(in crate::checkpoint) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Creates a directory and what is missing above it, each durable in its parent.
fn create_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_dir(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        other => other?,
    }
    sync_dir(parent.unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const FOLDERS: [&str; 4] = ["components", "log", "manifests", "state"];

    fn storage() -> (tempfile::TempDir, LocalDirectory) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let storage = LocalDirectory::open(dir.path().join("a/b")).expect("it opens");
        (dir, storage)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .expect("it is a directory")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("UTF-8")
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn of_two_creates_one_wins_and_nothing_else_remains() {
        let (_dir, storage) = storage();
        let key = Key::slot(0);
        assert_eq!(storage.create(&key, b"one").expect("created"), Created::New);
        assert_eq!(
            storage.create(&key, b"two").expect("refused"),
            Created::Taken
        );
        assert_eq!(storage.get(&key).expect("read"), Some(b"one".to_vec()));
        assert_eq!(names(storage.root()), FOLDERS);
        assert_eq!(storage.list(Folder::Log).expect("listed").len(), 1);
    }

    #[test]
    fn of_many_threads_exactly_one_creates_a_slot() {
        let (_dir, storage) = storage();
        let wins: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8_u8)
                .map(|i| {
                    let storage = storage.clone();
                    scope.spawn(move || storage.create(&Key::slot(3), &[i]).expect("an outcome"))
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| usize::from(racer.join().expect("no panic") == Created::New))
                .sum()
        });
        assert_eq!(wins, 1);
    }

    #[test]
    fn a_hard_link_is_as_conditional_as_a_rename() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, b"x").expect("written");
        assert_eq!(link_if_absent(&from, &to).expect("linked"), Created::New);
        assert!(!from.exists());
        fs::write(&from, b"y").expect("written");
        assert_eq!(link_if_absent(&from, &to).expect("refused"), Created::Taken);
        assert_eq!(fs::read(&to).expect("read"), b"x");
    }

    #[test]
    fn only_the_owner_can_read() {
        let (_dir, storage) = storage();
        storage.create(&Key::slot(0), b"x").expect("created");
        let mode = |path: PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(storage.root().to_owned()), 0o700);
        assert_eq!(mode(storage.root().join("log")), 0o700);
        assert_eq!(mode(storage.root().join(Key::slot(0).as_str())), 0o600);
    }

    #[test]
    fn an_abandoned_upload_leaves_nothing_and_a_dead_hosts_is_swept() {
        let (_dir, storage) = storage();
        let mut upload = storage.upload().expect("started");
        upload.write_all(b"half").expect("written");
        fs::write(storage.root().join(".tmp-1-2-3"), b"dead").expect("written");
        storage.sweep().expect("swept");
        // Our own unfinished write survives the sweep, the dead host's does not.
        assert_eq!(names(storage.root()).len(), FOLDERS.len() + 1);
        drop(upload);
        assert_eq!(names(storage.root()), FOLDERS);
    }

    #[test]
    fn looking_creates_nothing() {
        let (_dir, storage) = storage();
        assert!(
            LocalDirectory::look(storage.root().join("no"))
                .expect("looked")
                .is_none()
        );
        fs::remove_dir(storage.root().join("components")).expect("removed");
        let looked = LocalDirectory::look(storage.root()).expect("looked");
        let looked = looked.expect("there");
        assert_eq!(looked.get(&Key::owner()).expect("read"), None);
        assert_eq!(names(storage.root()), FOLDERS[1..]);
    }

    #[test]
    fn a_folder_that_vanished_is_an_error_not_an_empty_history() {
        let (_dir, storage) = storage();
        fs::remove_dir_all(storage.root()).expect("removed");
        assert!(storage.create(&Key::slot(0), b"x").is_err());
        assert!(storage.list(Folder::Log).is_err());
        assert!(!storage.root().exists());
    }
}
