//! What sinks committed.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// Names in a folder, sorted; none if there is no such folder.
pub fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("a folder can be read")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// The published parts in the directory of a file sink.
pub fn parts(dir: &Path) -> Vec<PathBuf> {
    let names = names(dir)
        .into_iter()
        .filter(|name| name.starts_with("part-"));
    names.map(|name| dir.join(name)).collect()
}

/// The text of a part, decompressed.
fn text(part: &Path) -> io::Result<String> {
    let bytes = fs::read(part)?;
    let end = part.extension().and_then(|end| end.to_str());
    let mut text = String::new();
    match end {
        Some("gz") => MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text)?,
        Some("zst") => zstd::Decoder::new(&bytes[..])?.read_to_string(&mut text)?,
        _ => (&bytes[..]).read_to_string(&mut text)?,
    };
    Ok(text)
}

/// All lines of all published parts, sorted.
///
/// # Panics
/// A part does not end with a whole line, is empty, or is not UTF-8: a reader would see half of something.
pub fn committed(dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for part in parts(dir) {
        let text = text(&part).unwrap_or_else(|error| panic!("{}: {error}", part.display()));
        let whole = text.strip_suffix('\n');
        let whole = whole.unwrap_or_else(|| panic!("{} does not end with a line", part.display()));
        lines.extend(whole.split('\n').map(str::to_owned));
    }
    lines.sort();
    lines
}

/// What a job that has finished must not leave: staged parts, unfinished writes of checkpoints and witnesses.
pub fn leftovers(place: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    let mut folders = vec![place.join("out"), place.join("checkpoints")];
    while let Some(dir) = folders.pop() {
        for name in names(&dir) {
            let path = dir.join(&name);
            if path.is_dir() {
                folders.push(path);
            } else if name.starts_with(".part-") || name.contains(".tmp") {
                left.push(path);
            }
        }
    }
    left
}

/// How what was committed differs from what should have been.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Lines missing.
    pub lost: Vec<String>,
    /// Lines too many, whether they should be there once or not at all.
    pub doubled: Vec<String>,
}

impl Difference {
    /// Between two sorted lists of lines.
    pub fn between(expected: &[String], found: &[String]) -> Difference {
        let mut difference = Difference::default();
        let (mut expected, mut found) = (expected.iter().peekable(), found.iter().peekable());
        loop {
            match (expected.peek(), found.peek()) {
                (None, None) => return difference,
                (Some(left), Some(right)) if left == right => {
                    expected.next();
                    found.next();
                }
                (Some(left), right) if right.is_none_or(|right| left < right) => {
                    difference.lost.extend(expected.next().cloned());
                }
                _ => difference.doubled.extend(found.next().cloned()),
            }
        }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        for (what, lines) in [("lost", &self.lost), ("too many", &self.doubled)] {
            writeln!(f, "  {} lines {what}", lines.len())?;
            for line in lines.iter().take(SHOWN) {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Difference;

    fn between(expected: &[&str], found: &[&str]) -> (Vec<String>, Vec<String>) {
        let lines = |lines: &[&str]| {
            lines
                .iter()
                .map(|line| (*line).to_owned())
                .collect::<Vec<_>>()
        };
        let difference = Difference::between(&lines(expected), &lines(found));
        (difference.lost, difference.doubled)
    }

    #[test]
    fn every_missing_and_every_surplus_line_counts() {
        let none: [&str; 0] = [];
        assert_eq!(between(&["a", "b"], &["a", "b"]), (vec![], vec![]));
        assert_eq!(
            between(&["a", "a", "b"], &["a", "c", "c"]),
            (vec!["a".into(), "b".into()], vec!["c".into(), "c".into()])
        );
        assert_eq!(between(&none, &["x"]), (vec![], vec!["x".into()]));
        assert_eq!(
            between(&["x", "y"], &["y", "y"]),
            (vec!["x".into()], vec!["y".into()])
        );
        assert_eq!(between(&["x"], &none), (vec!["x".into()], vec![]));
    }
}
