//! Finds input files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::job::model::NodeId;
use crate::source::Error;

/// As a shell would: `*` does not cross folders and matches no hidden file (a file sink's staged parts are hidden).
const LIKE_A_SHELL: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// The files that `paths` name, sorted by their bytes, each once. A path that exists is that file, whatever characters
/// it has; else it is a pattern, which must match something.
pub(super) fn files(source: &NodeId, paths: &[String]) -> Result<Vec<String>, Error> {
    let mut found = BTreeSet::new();
    for path in paths {
        let matches = matches(source, path)?;
        if matches.is_empty() {
            return Err(Error::Invalid(format!(
                "source `{source}`: no file matches `{path}`; relative paths are relative to the job file"
            )));
        }
        found.extend(matches);
    }
    let mut names: HashMap<_, &String> = HashMap::new();
    for name in &found {
        // One that has gone meanwhile is found missing when it is opened.
        let Ok(metadata) = fs::metadata(name) else {
            continue;
        };
        if let Some(other) = names.insert(file_id(&metadata), name) {
            return Err(Error::Invalid(format!(
                "source `{source}`: {other} and {name} are one file, which would be read twice; leave one of them out"
            )));
        }
    }
    Ok(found.into_iter().collect())
}

/// What a file is, whatever paths and links lead to it.
pub(super) fn file_id(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// What is there of `pattern` now, and what cannot be looked at. What is no regular file, or has a name that is no text, is left out
/// and told of.
pub(super) fn present(pattern: &str) -> (BTreeMap<String, fs::Metadata>, Vec<String>) {
    let (mut found, mut troubles) = (BTreeMap::new(), Vec::new());
    let mut look = |path: &Path| match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(metadata) if metadata.is_file() => match path.to_str() {
            Some(name) => {
                found.insert(name.to_owned(), metadata);
            }
            None => troubles.push(format!(
                "the name of {} is not valid UTF-8, so it is not read",
                path.display()
            )),
        },
        Ok(_) => troubles.push(format!(
            "{} is not a regular file, so it is not read",
            path.display()
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => troubles.push(format!("{} cannot be looked at: {error}", path.display())),
    };
    if fs::metadata(pattern).is_ok_and(|metadata| !metadata.is_dir()) {
        look(Path::new(pattern));
        return (found, troubles);
    }
    let mut unreadable = Vec::new();
    // The pattern was checked when the job was.
    for path in glob::glob_with(pattern, LIKE_A_SHELL).into_iter().flatten() {
        match path {
            Ok(path) => look(&path),
            Err(error) => {
                let path = error.path().display().to_string();
                unreadable.push(format!("{path} cannot be looked at: {}", error.error()));
            }
        }
    }
    troubles.extend(unreadable);
    (found, troubles)
}

pub(super) fn matches(source: &NodeId, pattern: &str) -> Result<Vec<String>, Error> {
    let invalid = |what: String| Error::Invalid(format!("source `{source}`: {what}"));
    let unreadable = |path: &Path, cause| Error::Io {
        what: format!("source `{source}`: cannot read {}", path.display()),
        source: cause,
    };
    if let Ok(metadata) = fs::metadata(pattern) {
        if metadata.is_dir() {
            return Err(invalid(format!(
                "{pattern} is a directory; write {}/* to read the files in it",
                pattern.trim_end_matches('/')
            )));
        }
        check_regular(source, Path::new(pattern), &metadata)?;
        return Ok(vec![pattern.to_owned()]);
    }
    let paths = glob::glob_with(pattern, LIKE_A_SHELL).map_err(|error| {
        invalid(format!(
            "`{pattern}` is not a file and not a pattern: {error}"
        ))
    })?;
    let mut found = Vec::new();
    for path in paths {
        let path = path.map_err(|error| {
            let path = error.path().to_path_buf();
            unreadable(&path, error.into())
        })?;
        let metadata = fs::metadata(&path).map_err(|cause| unreadable(&path, cause))?;
        if metadata.is_dir() {
            continue;
        }
        check_regular(source, &path, &metadata)?;
        match path.into_os_string().into_string() {
            Ok(name) => found.push(name),
            Err(name) => {
                return Err(invalid(format!(
                    "the name of {} is not valid UTF-8; rename the file",
                    Path::new(&name).display()
                )));
            }
        }
    }
    Ok(found)
}

fn check_regular(source: &NodeId, path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "source `{source}`: {} is not a regular file, so it cannot be read again after a failure; \
         pipe it into a `stdin` source instead",
        path.display()
    )))
}
