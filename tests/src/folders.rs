//! Folders that are copied and removed whole, as an operator would, also while a job writes to them.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::host::HANGS;

/// Copies a folder with everything in it, replacing what is there.
///
/// # Panics
/// It cannot be read, or the other one not be written.
pub fn copy(from: &Path, to: &Path) {
    remove(to);
    fs::create_dir_all(to).expect("a folder can be created");
    for entry in fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("the folder can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            // It may be swept away by a running job meanwhile.
            let _ = fs::copy(entry.path(), target);
        }
    }
}

/// Removes a folder, if it is there, with everything in it.
///
/// # Panics
/// It cannot be removed, or is filled faster than it is emptied.
pub fn remove(dir: &Path) {
    let until = Instant::now() + HANGS;
    while dir.exists() {
        assert!(
            Instant::now() < until,
            "{} cannot be removed",
            dir.display()
        );
        // What was added meanwhile is removed the next time.
        let _ = fs::remove_dir_all(dir);
    }
}
