//! No two parts of a job use the same directory: one would overwrite, read or clear away what is another's.
//!
//! By the paths alone. What links make equal only the file system knows; the witness in each directory finds that at start.

use std::path::{Component, Path, PathBuf};

use glob::Pattern;

use super::Check;
use crate::job::model::{Job, SinkConnector, SourceConnector};
use crate::job::wording::subject;

/// A directory that is written, and which field names it.
struct Owned<'a> {
    path: Vec<&'a str>,
    what: String,
    dir: PathBuf,
}

/// `path` without `..`, as if there were no links.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            component => plain.push(component),
        }
    }
    plain
}

/// Whether a path that `pattern` matches, component by component, can lie in the directory `dir`.
fn reaches(pattern: &[&str], dir: &[&str]) -> bool {
    // Whether some of `dir` so far is matched by the first i components of the pattern.
    let mut matched = vec![false; pattern.len() + 1];
    let deepen = |matched: &mut Vec<bool>| {
        for (index, part) in pattern.iter().enumerate() {
            if *part == "**" && matched[index] {
                matched[index + 1] = true;
            }
        }
    };
    matched[0] = true;
    deepen(&mut matched);
    for name in dir {
        let mut next = vec![false; pattern.len() + 1];
        for (index, part) in pattern
            .iter()
            .enumerate()
            .filter(|(index, _)| matched[*index])
        {
            if *part == "**" {
                next[index] = true;
            } else if Pattern::new(part).is_ok_and(|part| part.matches(name)) {
                next[index + 1] = true;
            }
        }
        deepen(&mut next);
        matched = next;
    }
    // Something must be left of the pattern for the file in the directory.
    matched[..pattern.len()].contains(&true)
}

impl Check<'_> {
    pub(super) fn directories(&self, job: &Job) {
        let mut owned: Vec<Owned<'_>> = Vec::new();
        if let Some(dir) = job
            .checkpoint
            .as_ref()
            .and_then(|settings| settings.dir.as_ref())
        {
            let what = "checkpoint storage".to_owned();
            owned.push(Owned {
                path: vec!["checkpoint", "dir"],
                what,
                dir: lexical(dir),
            });
        }
        for sink in &job.sinks {
            if let SinkConnector::File { dir, .. } = &sink.connector {
                let what = format!("sink `{}`", sink.id);
                let path = vec!["sinks", sink.id.as_str(), "file", "dir"];
                owned.push(Owned {
                    path,
                    what,
                    dir: lexical(dir),
                });
            }
        }
        for (index, one) in owned.iter().enumerate() {
            for other in &owned[..index] {
                let title = if one.dir == other.dir {
                    format!("{} and {} use the same directory", other.what, one.what)
                } else if one.dir.starts_with(&other.dir) {
                    format!(
                        "the directory of {} is inside that of {}",
                        one.what, other.what
                    )
                } else if other.dir.starts_with(&one.dir) {
                    format!(
                        "the directory of {} is inside that of {}",
                        other.what, one.what
                    )
                } else {
                    continue;
                };
                let at = self.tree.place_of(&other.path);
                self.push(
                    self.error("W0116", &one.path, title)
                        .note(format!("{} is at {}:{}", other.what, at.line, at.column))
                        .help("give each a directory of its own"),
                );
            }
        }
        for source in &job.sources {
            if let SourceConnector::File { paths, .. } = &source.connector {
                for (index, pattern) in paths.iter().enumerate() {
                    self.reads_own_output(source.id.as_str(), index, pattern, &owned);
                }
            }
        }
    }

    fn reads_own_output(&self, id: &str, index: usize, pattern: &str, owned: &[Owned<'_>]) {
        let pattern = lexical(Path::new(pattern));
        let parts = |path: &Path| -> Vec<String> {
            path.iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect()
        };
        let pattern = parts(&pattern);
        let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
        for Owned { what, dir, path } in owned {
            let dir = parts(dir);
            if reaches(
                &pattern,
                &dir.iter().map(String::as_str).collect::<Vec<_>>(),
            ) {
                let index = index.to_string();
                let at = self.tree.place_of(path);
                let place = ["sources", id, "file", "paths", &index];
                let title = format!("{} reaches into the directory of {what}", subject(&place));
                self.push(
                    self.error("W0116", &place, title)
                        .note(format!(
                            "that directory is named at {}:{}",
                            at.line, at.column
                        ))
                        .help("the job would read what it writes; keep input and output apart"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::reaches;

    #[test]
    fn patterns_reach_into_directories() {
        for (pattern, dir, expected) in [
            ("data/*.csv", "data", true),
            ("data/*.csv", "data/out", false),
            ("data/**/*.csv", "data/out", true),
            ("data/**/*.csv", "data", true),
            ("**/*", "a/b/c", true),
            ("a/**/c/*.csv", "a/b/c", true),
            ("a/**/d/*.csv", "a/b/c", true),
            ("d*/o?t/x", "data/out", true),
            ("d*/o?t", "data/out", false),
            ("data/in.csv", "data/in.csv", false),
            ("out/a/b.csv", "out", true),
            ("other/*", "out", false),
        ] {
            let split = |path: &'static str| path.split('/').collect::<Vec<_>>();
            assert_eq!(
                reaches(&split(pattern), &split(dir)),
                expected,
                "{pattern} in {dir}"
            );
        }
    }
}
