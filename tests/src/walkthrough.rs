//! Follows a document as a newcomer would: its commands, literally and in order, in one shell; its changes to files; and what the
//! commands print compared with what the document says that they do.
//!
//! In blocks of the language `console`, `$ ` begins a command, `> ` goes on with it, and the lines up to the next one are what it
//! prints: all of standard output, or a piece of standard error. None shown is none compared. `…` stands for any text in a line, and
//! as a line of its own for any lines. A command fails if and only if what is shown of it says so (`error[…` or `FAILED`);
//! `timeout -s KILL …` is killed.
//!
//! A block of the language `diff` after a line `<!-- change to FILE -->` changes that file: lines with `-` and without a sign are
//! looked for, lines with `+` and without a sign are put in their place.
//!
//! What takes minutes and is done before any test (the clone, the build) is not done again, but checked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::documents::{Block, Document, root};
use crate::host::guest;
use crate::place::Place;

/// Where a document is followed: a folder with the examples and their components, as a clone has them.
#[derive(Debug)]
pub struct Walk {
    place: Place,
    /// Where cargo puts what it builds, so that dependencies are compiled once and not once a test run.
    target: PathBuf,
}

/// A command with what is shown of it.
#[derive(Debug)]
struct Shown<'a> {
    command: String,
    prints: Vec<&'a str>,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder of a temporary folder");
    for entry in fs::read_dir(from).expect("a folder of the repository") {
        let entry = entry.expect("listed");
        let name = entry.file_name();
        let name = name.to_str().expect("names are UTF-8");
        // What running an example by hand has left.
        if name.starts_with("out") || name.starts_with('.') || name == "checkpoints" {
            continue;
        }
        match entry.file_type().expect("known").is_dir() {
            true => copy(&entry.path(), &to.join(name)),
            false => {
                fs::copy(entry.path(), to.join(name)).expect("both can be reached");
            }
        }
    }
}

impl Walk {
    /// Begins one. `target` is where cargo may put what it builds.
    ///
    /// # Panics
    /// There is no host to run, no component, or no temporary folder.
    pub fn begin(target: &Path) -> Walk {
        let place = Place::temporary();
        copy(&root().join("examples"), &place.path("clone/examples"));
        let component = guest("wordcount_split").unwrap_or_else(|what| panic!("{what}"));
        let guests = component.parent().expect("it lies in a folder");
        let guests = guests.canonicalize().expect("it is there");
        for folder in ["clone/target", "bin"] {
            fs::create_dir(place.path(folder)).expect("the folder is ours");
        }
        symlink(guests, place.path("clone/target/guests")).expect("the folder is ours");
        let weir = place.host().weir();
        let weir = weir.canonicalize().expect("the host was found");
        symlink(weir, place.path("bin/weir")).expect("the folder is ours");
        place.write("cwd", place.path("clone").display().to_string());
        place.write("environment", "");
        Walk {
            place,
            target: target.to_owned(),
        }
    }

    /// The host in the folder in which commands begin, without arguments yet.
    pub fn weir(&self) -> Command {
        let mut weir = self.place.command();
        weir.current_dir(self.path(""));
        weir
    }

    /// A path below the folder in which commands begin.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.place.path("clone").join(relative)
    }

    /// Follows the document to its end. Returns how many commands that were.
    ///
    /// # Panics
    /// Something is not as the document says.
    pub fn follow(&self, document: &Document) -> usize {
        let mut followed = 0;
        for block in document.blocks() {
            if block.language == "diff" {
                self.change(&block);
            }
            if block.language != "console" {
                continue;
            }
            for shown in commands(&block) {
                followed += 1;
                if !self.is_prepared(&shown.command) {
                    self.run(&block.at, &shown);
                }
            }
        }
        followed
    }

    /// Whether a command has been done for us. If so, checks that it could be done.
    fn is_prepared(&self, command: &str) -> bool {
        let words: Vec<_> = command.split_whitespace().collect();
        match words[..] {
            ["git", "clone", ..] | ["cd", "weir"] => {}
            ["make", target] => {
                let makefile = fs::read_to_string(root().join("Makefile")).expect("there is one");
                let rule = format!("\n{target}:");
                assert!(makefile.contains(&rule), "the Makefile has no {target}");
            }
            ["scripts/build-guests" | "scripts/build-foreign-guests", ..] => {
                for package in &words[1..] {
                    guest(&package.replace('-', "_")).unwrap_or_else(|what| panic!("{what}"));
                }
            }
            [
                "cargo",
                "build",
                "--release",
                "--bin",
                "weir",
                "--no-default-features",
            ] => {}
            ["export", "PATH=\"$PWD/target/release:$PATH\""] => {}
            ["cargo", "test", "--release", ..] => {
                let packages = words[3..].iter().filter(|word| **word != "-p");
                for package in packages {
                    guest(&package.replace('-', "_")).unwrap_or_else(|what| panic!("{what}"));
                }
            }
            _ => return false,
        }
        true
    }

    fn run(&self, at: &str, shown: &Shown<'_>) {
        let command = &shown.command;
        let script = format!(
            "source '{dir}/environment'\ncd \"$(cat '{dir}/cwd')\"\n{command}\nstatus=$?\n\
             pwd >'{dir}/cwd'\nexport -p >'{dir}/environment'\nexit $status\n",
            dir = self.place.dir().display()
        );
        let mut bash = Command::new("bash");
        let path = std::env::var("PATH").expect("there is a PATH");
        bash.args(["-c", &script])
            .env(
                "PATH",
                format!("{}:{path}", self.place.path("bin").display()),
            )
            .env("CARGO_TARGET_DIR", &self.target)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        for variable in ["WEIR_FAULT", "STATE_DIRECTORY", "WEIR_CACHE"] {
            bash.env_remove(variable);
        }
        let output = bash.output().expect("bash runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, log) = (text(&output.stdout), text(&output.stderr));
        let all = format!(
            "{at}: {command}\n{}\n--- standard output:\n{said}\n--- standard error:\n{log}",
            output.status
        );
        if command.starts_with("timeout -s KILL ") {
            assert_eq!(output.status.code(), Some(137), "not killed: {all}");
        } else {
            let fails = |line: &&str| line.starts_with("error[") || line.contains("FAILED");
            let fails = shown.prints.iter().any(fails);
            assert_eq!(!output.status.success(), fails, "{all}");
        }
        let said: Vec<_> = said.lines().map(str::trim_end).collect();
        let log: Vec<_> = log.lines().map(str::trim_end).collect();
        let piece = [&["…"], &shown.prints[..], &["…"]].concat();
        assert!(
            shown.prints.is_empty() || matches(&shown.prints, &said) || matches(&piece, &log),
            "it does not print\n{}\n{all}",
            shown.prints.join("\n")
        );
        if let Some(name) = command.strip_prefix("weir new ") {
            self.lock(name);
        }
    }

    /// Gives a new project the versions that the repository is tested with, which are on this machine already.
    fn lock(&self, name: &str) {
        let project = Path::new(&self.cwd()).join(name);
        fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))
            .expect("the project was just written");
    }

    fn cwd(&self) -> String {
        let cwd = fs::read_to_string(self.place.path("cwd")).expect("it was just written");
        cwd.trim_end().to_owned()
    }

    /// Makes the change that a block shows.
    fn change(&self, block: &Block<'_>) {
        let name = block
            .before
            .strip_prefix("<!-- change to ")
            .and_then(|rest| rest.strip_suffix(" -->"))
            .unwrap_or_else(|| panic!("{}: the line before names no file", block.at));
        let path = Path::new(&self.cwd()).join(name);
        let mut text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {}: {error}", block.at, path.display()));
        for hunk in block.lines.split(|line| *line == "…") {
            let without = |sign: char| {
                let lines = hunk.iter().filter(move |line| !line.starts_with(sign));
                lines
                    .map(|line| format!("{}\n", line.get(1..).unwrap_or_default()))
                    .collect::<String>()
            };
            let (old, new) = (without('+'), without('-'));
            let found = text.matches(&old).count();
            assert_eq!(found, 1, "{}: {found} times in {name}:\n{old}", block.at);
            text = text.replacen(&old, &new, 1);
        }
        fs::write(&path, text).expect("the file is ours");
    }
}

fn commands<'a>(block: &Block<'a>) -> Vec<Shown<'a>> {
    let mut all: Vec<Shown<'a>> = Vec::new();
    for line in &block.lines {
        if let Some(command) = line.strip_prefix("$ ") {
            // A remark for the reader. `#` in quotes does not follow two blanks.
            let command = command.split("  #").next().unwrap_or(command).trim_end();
            all.push(Shown {
                command: command.to_owned(),
                prints: Vec::new(),
            });
            continue;
        }
        let last = all.last_mut();
        let last = last.unwrap_or_else(|| panic!("{}: no command before {line}", block.at));
        match line.strip_prefix("> ") {
            Some(more) if last.prints.is_empty() => {
                last.command.push('\n');
                last.command.push_str(more);
            }
            _ => last.prints.push(line),
        }
    }
    all
}

/// Whether lines are as shown.
fn matches(shown: &[&str], lines: &[&str]) -> bool {
    match shown {
        [] => lines.is_empty(),
        ["…", rest @ ..] => (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..])),
        [first, rest @ ..] => lines
            .split_first()
            .is_some_and(|(line, lines)| line_matches(first, line) && matches(rest, lines)),
    }
}

fn line_matches(shown: &str, line: &str) -> bool {
    let Some((first, rest)) = shown.split_once('…') else {
        return shown == line;
    };
    let Some(left) = line.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = match rest.rsplit_once('…') {
        Some((middle, last)) => (middle, last),
        None => ("", rest),
    };
    let Some(mut left) = left.strip_suffix(last) else {
        return false;
    };
    for piece in middle.split('…') {
        let Some(at) = left.find(piece) else {
            return false;
        };
        left = &left[at + piece.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_may_be_anything_and_nothing_else_may() {
        assert!(matches(&["a", "…", "z"], &["a", "b", "z"]));
        assert!(matches(&["a", "…", "z"], &["a", "z"]));
        assert!(!matches(&["a", "z"], &["a", "b", "z"]));
        assert!(!matches(&["a"], &["a", "b"]));
        assert!(line_matches("… info  x: …", "12:00 info  x: fresh"));
        assert!(line_matches("took … s", "took 1.5 s"));
        assert!(!line_matches("took … s", "took 1.5 s or so"));
        assert!(!line_matches("took", "took 1.5 s"));
    }

    #[test]
    fn commands_and_what_they_print_are_told_apart() {
        let block = Block {
            at: "x.md:1".to_owned(),
            language: "console",
            before: "",
            lines: vec!["$ a \\", "> b", "1", "2", "$ c  # remark"],
        };
        let commands = commands(&block);
        assert_eq!(commands[0].command, "a \\\nb");
        assert_eq!(commands[0].prints, ["1", "2"]);
        assert_eq!(commands[1].command, "c");
    }
}
