//! What is used, what is refused and what is replaced, over components of a few bytes.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::{CacheError, CacheUse, CompileCache, HEADER, TEMPORARY, is_entry, is_temporary};
use crate::engine::Engine;

struct Place {
    engine: Engine,
    parent: TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            engine: Engine::new().unwrap(),
            parent: TempDir::new().unwrap(),
        }
    }

    fn dir(&self) -> PathBuf {
        self.parent.path().join("deep/cache")
    }

    fn cache(&self) -> CompileCache {
        CompileCache::new(self.dir())
    }

    fn used(&self, of: i32) -> CacheUse {
        self.used_by(&self.cache(), of)
    }

    fn used_by(&self, cache: &CompileCache, of: i32) -> CacheUse {
        let (_, used) = cache
            .component(self.engine.wasmtime(), &binary(of))
            .unwrap();
        used
    }

    /// What is in the directory, but the file of this component: temporary files too.
    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(self.dir())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort_unstable();
        files
    }

    fn file(&self, of: i32) -> PathBuf {
        self.dir()
            .join(super::name(self.engine.wasmtime(), &binary(of)))
    }

    /// The reason for which nothing was cached.
    fn failure(&self, of: i32) -> String {
        match self.used(of) {
            CacheUse::Failed(error) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

fn binary(of: i32) -> Vec<u8> {
    wat::parse_str(format!(
        "(component (core module (func (export \"f\") (result i32) i32.const {of})))"
    ))
    .unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn set_age(path: &Path, seconds: u64) {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000 - seconds);
    File::open(path)
        .unwrap()
        .set_times(FileTimes::new().set_modified(then))
        .unwrap();
}

fn flip(path: &Path, position: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[position] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn the_second_time_is_a_hit_and_other_bytes_are_a_miss() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    assert!(matches!(place.used(1), CacheUse::Hit));
    assert!(matches!(place.used(2), CacheUse::Stored));
    assert!(matches!(place.used(1), CacheUse::Hit));
    let mut expected = [place.file(1), place.file(2)];
    expected.sort_unstable();
    assert_eq!(place.files(), expected);
    assert!(is_entry(
        place.file(1).file_name().unwrap().as_encoded_bytes()
    ));
    assert_eq!((mode(&place.dir()), mode(&place.file(1))), (0o700, 0o600));
}

#[test]
fn nothing_is_made_for_what_does_not_compile() {
    let place = Place::new();
    let broken = place.cache().component(place.engine.wasmtime(), b"\0asm");
    assert!(broken.is_err());
    assert!(!place.dir().exists());
}

#[test]
fn other_settings_are_another_file() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    let mut config = wasmtime::Config::new();
    config
        .concurrency_support(false)
        .epoch_interruption(false)
        .cranelift_nan_canonicalization(true);
    let other = wasmtime::Engine::new(&config).unwrap();
    for expected in ["Stored", "Hit"] {
        let (_, used) = place.cache().component(&other, &binary(1)).unwrap();
        assert_eq!(format!("{used:?}"), expected);
    }
    assert_eq!(place.files().len(), 2);
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    let dir = place.dir();
    for (bits, shown) in [(0o770, "0770"), (0o707, "0707"), (0o1777, "1777")] {
        set_mode(&dir, bits);
        let expected = format!(
            "{} can be written by other users (mode {shown})",
            dir.display()
        );
        assert_eq!(place.failure(1), expected);
        assert_eq!(place.failure(2), expected);
    }
    set_mode(&dir, 0o755);
    assert!(matches!(place.used(1), CacheUse::Hit));
    assert_eq!(place.files(), [place.file(1)]);
}

#[test]
fn a_file_that_others_may_write_is_refused_and_left_alone() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    let file = place.file(1);
    set_mode(&file, 0o620);
    let expected = format!(
        "{} can be written by other users (mode 0620)",
        file.display()
    );
    assert_eq!(place.failure(1), expected);
    assert_eq!(mode(&file), 0o620);
    set_mode(&file, 0o644);
    assert!(matches!(place.used(1), CacheUse::Hit));
}

#[test]
fn only_this_user_and_root_may_own() {
    let verdict = |owner, mode, me| super::judge(owner, mode, me).is_ok();
    assert!(verdict(1000, 0o700, 1000) && verdict(0, 0o755, 1000) && verdict(0, 0o600, 0));
    assert!(!verdict(1001, 0o700, 1000) && !verdict(1000, 0o700, 0));
    assert!(!verdict(1000, 0o720, 1000) && !verdict(0, 0o702, 1000));
}

/// Only root can give files away: other users leave this to the test above.
#[test]
fn what_was_given_to_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    for path in [place.file(1), place.dir()] {
        chown(&path, Some(65534), None).unwrap();
        let expected = format!(
            "{} belongs to user 65534, neither to this one (0) nor to root",
            path.display()
        );
        assert_eq!(place.failure(1), expected);
        chown(&path, Some(0), None).unwrap();
        assert!(matches!(place.used(1), CacheUse::Hit));
    }
}

#[test]
fn a_directory_that_cannot_be_written_serves_what_is_there() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    set_mode(&place.dir(), 0o500);
    assert!(matches!(place.used(1), CacheUse::Hit));
    set_mode(&place.dir(), 0o700);
    // Root's, writable by nobody, and even root can make no file there.
    for (dir, doing) in [
        ("/proc", "cannot create /proc/"),
        (
            "/proc/weir/cache",
            "cannot create the parent of /proc/weir/cache: ",
        ),
    ] {
        let used = place.used_by(&CompileCache::new(dir), 1);
        assert!(
            matches!(&used, CacheUse::Failed(error) if error.to_string().starts_with(doing)),
            "{used:?}"
        );
    }
}

#[test]
fn symbolic_links_are_not_followed() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    let elsewhere = place.parent.path().join("elsewhere");
    fs::rename(place.file(1), &elsewhere).unwrap();
    symlink(&elsewhere, place.file(1)).unwrap();
    let expected = format!("{} is a symbolic link", place.file(1).display());
    assert_eq!(place.failure(1), expected);
    fs::remove_file(place.file(1)).unwrap();
    fs::rename(&elsewhere, place.file(1)).unwrap();
    assert!(matches!(place.used(1), CacheUse::Hit));

    let link = place.parent.path().join("link");
    symlink(place.dir(), &link).unwrap();
    for spelling in [link.clone(), link.join(""), link.join(".")] {
        let used = place.used_by(&CompileCache::new(&spelling), 1);
        let expected = format!("{} is a symbolic link or not a directory", link.display());
        assert!(
            matches!(&used, CacheUse::Failed(error) if error.to_string() == expected),
            "{used:?}"
        );
    }
}

#[test]
fn what_is_no_file_or_no_directory_is_refused() {
    let place = Place::new();
    fs::create_dir_all(place.file(1)).unwrap();
    assert!(place.failure(1).ends_with(" is not a file"));
    fs::remove_dir_all(place.dir()).unwrap();
    fs::write(place.dir(), "").unwrap();
    assert!(
        place
            .failure(1)
            .ends_with("cache is a symbolic link or not a directory")
    );
}

#[test]
fn a_damaged_file_is_compiled_anew_and_replaced() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    let file = place.file(1);
    let length = fs::metadata(&file).unwrap().len();
    let replaced = |what: &str| {
        assert!(matches!(place.used(1), CacheUse::Stored), "{what}");
        assert!(matches!(place.used(1), CacheUse::Hit), "{what}");
        assert_eq!(fs::metadata(&file).unwrap().len(), length, "{what}");
    };
    for keep in [0, 1, HEADER as u64 - 1, HEADER as u64, length - 1] {
        let opened = OpenOptions::new().write(true).open(&file).unwrap();
        opened.set_len(keep).unwrap();
        replaced(&format!("cut to {keep}"));
    }
    // Magic, version, inode, birth, digest, contents from the first to the last byte.
    for position in [0, 7, 8, 16, 24, HEADER, HEADER + 5000, length as usize - 1] {
        flip(&file, position);
        replaced(&format!("a bit of byte {position}"));
    }
    let mut longer = fs::read(&file).unwrap();
    longer.push(0);
    fs::write(&file, longer).unwrap();
    replaced("a byte more");
}

#[test]
fn code_of_another_component_is_not_taken() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    fs::rename(place.file(1), place.file(2)).unwrap();
    assert!(matches!(place.used(2), CacheUse::Stored));
    assert!(matches!(place.used(2), CacheUse::Hit));
}

/// As from an archive or a checkout: our file by owner and mode, and every byte as it was written.
#[test]
fn a_copy_is_not_taken() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    let copy = place.parent.path().join("copy");
    fs::copy(place.file(1), &copy).unwrap();
    fs::rename(&copy, place.file(1)).unwrap();
    assert!(matches!(place.used(1), CacheUse::Stored));
    assert!(matches!(place.used(1), CacheUse::Hit));
}

#[test]
fn what_was_used_least_recently_is_evicted() {
    let place = Place::new();
    (1..=4).for_each(|of| assert!(matches!(place.used(of), CacheUse::Stored)));
    let size = fs::metadata(place.file(1)).unwrap().len();
    for of in 1..=4 {
        set_age(&place.file(of), 3_000_000_000 - of as u64);
    }
    // The oldest, but used again.
    assert!(matches!(place.used(1), CacheUse::Hit));
    let foreign = place.dir().join("notes.txt");
    fs::write(&foreign, vec![0; size as usize * 4]).unwrap();
    set_age(&foreign, 3_500_000_000);

    let cache = place.cache().max_bytes(size * 3 + size / 2);
    assert!(matches!(place.used_by(&cache, 5), CacheUse::Stored));
    let left: Vec<_> = (1..=5).filter(|of| place.file(*of).exists()).collect();
    assert_eq!(left, [1, 4, 5]);
    assert!(foreign.exists(), "what is not ours is not removed");
}

#[test]
fn what_is_larger_than_the_cache_is_not_kept() {
    let place = Place::new();
    let cache = place.cache().max_bytes(1000);
    let used = place.used_by(&cache, 1);
    let CacheUse::Failed(error @ CacheError::TooLarge { .. }) = used else {
        panic!("{used:?}")
    };
    assert!(
        error
            .to_string()
            .contains("bytes of compiled code are more than the 1000 that"),
        "{error}"
    );
    assert!(!place.dir().exists());
}

#[test]
fn what_crashed_writers_left_is_removed_after_a_while() {
    let place = Place::new();
    assert!(matches!(place.used(1), CacheUse::Stored));
    let entry = place.file(1).display().to_string();
    let [old, young] = [1, 2].map(|n| PathBuf::from(format!("{entry}.77-{n}{TEMPORARY}")));
    for (path, age) in [(&old, 3_900_000_000), (&young, 0)] {
        fs::write(path, "half").unwrap();
        set_age(path, age);
        assert!(is_temporary(path.file_name().unwrap().as_encoded_bytes()));
    }
    assert!(matches!(place.used(2), CacheUse::Stored));
    assert!(!old.exists() && young.exists());
}

#[test]
fn writers_do_not_disturb_each_other() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let used = [place.used(1), place.used(2)];
                    assert!(
                        used.iter()
                            .all(|used| matches!(used, CacheUse::Hit | CacheUse::Stored)),
                        "{used:?}"
                    );
                    let _ = fs::remove_file(place.file(2));
                }
            });
        }
    });
    place.used(2);
    assert!(matches!(place.used(1), CacheUse::Hit));
    assert!(matches!(place.used(2), CacheUse::Hit));
    assert_eq!(place.files().len(), 2, "no temporary file is left");
}

#[test]
fn names_are_recognised_exactly() {
    let name = format!("{}-{}.compiled", "0a".repeat(32), "f0".repeat(8));
    assert!(is_entry(name.as_bytes()) && !is_temporary(name.as_bytes()));
    for other in [
        format!("x{name}"),
        format!("{name}.tmp"),
        name.replace('-', "_"),
        name.replace('f', "g"),
        "notes.compiled".to_owned(),
    ] {
        assert!(!is_entry(other.as_bytes()), "{other}");
    }
    assert!(is_temporary(format!("{name}.1-2.tmp").as_bytes()));
    assert!(!is_temporary(b"notes.tmp"));
}
