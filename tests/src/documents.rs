//! The Markdown files of the repository: their blocks, links and headings.

use std::fs;
use std::path::{Path, PathBuf};

/// A Markdown file of the repository.
#[derive(Debug)]
pub struct Document {
    /// Relative to the repository.
    pub name: String,
    /// Its contents.
    pub text: String,
}

/// A fenced block.
#[derive(Debug)]
pub struct Block<'a> {
    /// Where it begins: `README.md:12`.
    pub at: String,
    /// The word after the fence.
    pub language: &'a str,
    /// The line before the fence.
    pub before: &'a str,
    /// What is in it.
    pub lines: Vec<&'a str>,
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every Markdown file by name, without build output and hidden folders.
///
/// # Panics
/// A folder cannot be read.
pub fn documents() -> Vec<Document> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder of the repository") {
            let entry = entry.expect("listed");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let path = folder.join(&name);
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if entry.file_type().expect("known").is_dir() {
                left.push(path);
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(entry.path()).expect("documents are UTF-8");
                let name = path.display().to_string();
                found.push(Document { name, text });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(
        found.iter().any(|document| document.name == "README.md"),
        "the documents were not found"
    );
    found
}

impl Document {
    /// The document of this name.
    ///
    /// # Panics
    /// There is none.
    pub fn named(name: &str) -> Document {
        let path = root().join(name);
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Document {
            name: name.to_owned(),
            text,
        }
    }

    /// Its fenced blocks.
    ///
    /// # Panics
    /// One is not closed.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<Block<'_>> = None;
        let mut before = "";
        for (number, line) in self.text.lines().enumerate() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(language), None) => {
                    open = Some(Block {
                        at: format!("{}:{}", self.name, number + 1),
                        language,
                        before,
                        lines: Vec::new(),
                    });
                }
                (None, Some(block)) => block.lines.push(line),
                (None, None) => {}
            }
            before = line;
        }
        assert!(open.is_none(), "{}: a block is not closed", self.name);
        blocks
    }

    /// Its lines outside of blocks.
    pub fn prose(&self) -> impl Iterator<Item = &str> {
        let mut fenced = false;
        self.text.lines().filter(move |line| {
            let fence = line.starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        })
    }

    /// The targets of its `[text](target)` and `![text](target)`.
    pub fn links(&self) -> Vec<&str> {
        let targets = self.prose().flat_map(|line| line.split("](").skip(1));
        targets.filter_map(|rest| rest.split(')').next()).collect()
    }

    /// Its headings as links name them.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        headings.map(anchor).collect()
    }
}

/// A heading as links name it.
pub fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
