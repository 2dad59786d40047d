//! Follows a document as a newcomer would: its commands, literally and in order, in one shell; its changes to files; and what the
//! commands print compared with what the document says that they do.
//!
//! In blocks of the language `console`, `$ ` begins a command, `> ` goes on with it, and the lines up to the next one are what it
//! prints: all of standard output, or a piece of standard error. None shown is none compared. `…` stands for any text in a line, and
//! as a line of its own for any lines. A command fails if and only if what is shown of it says so (`error[…` or `FAILED`);
//! `timeout -s KILL …` is killed. What ends in `&` goes on beside the others, and is waited for until it has printed what is shown.
//!
//! A block of the language `diff` after a line `<!-- change to FILE -->` changes that file: lines with `-` and without a sign are
//! looked for, lines with `+` and without a sign are put in their place.
//!
//! What takes minutes and is done before any test (the clone, the build) is not done again, but checked. `make kafka` starts a broker of
//! this document's own, and tells the commands after it where that is, by `KAFKA`. Where that cannot be, the document is followed no further.

mod shell;

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::documents::{Block, Document, root};
use crate::host::guest;
#[cfg(feature = "kafka")]
use crate::kafka::{Broker, Options, OwnBroker};
use crate::place::Place;
use shell::{Shell, within_time};

/// Where a document is followed: a folder with the examples, their components and the scripts, as a clone has them.
#[derive(Debug)]
pub struct Walk {
    // In the order in which they end.
    shell: RefCell<Shell>,
    #[cfg(feature = "kafka")]
    broker: RefCell<Option<OwnBroker>>,
    place: Place,
}

/// What has been done for us.
enum Prepared {
    Done,
    /// It cannot be.
    NotHere,
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
        let scripts = root().join("scripts").canonicalize().expect("it is there");
        symlink(scripts, place.path("clone/scripts")).expect("the folder is ours");
        let weir = place.host().weir();
        let weir = weir.canonicalize().expect("the host was found");
        symlink(weir, place.path("bin/weir")).expect("the folder is ours");
        let shell = Shell::start(&place.path("clone"), &place.path("printed"), |bash| {
            let path = std::env::var("PATH").expect("there is a PATH");
            let bin = place.path("bin");
            bash.env("PATH", format!("{}:{path}", bin.display()))
                // So that dependencies are compiled once and not once a test run.
                .env("CARGO_TARGET_DIR", target)
                .env("LC_ALL", "C.UTF-8");
            for variable in [
                "WEIR_FAULT",
                "STATE_DIRECTORY",
                "WEIR_CACHE",
                "KAFKA",
                "KAFKA_PORT",
            ] {
                bash.env_remove(variable);
            }
        });
        Walk {
            shell: RefCell::new(shell),
            #[cfg(feature = "kafka")]
            broker: RefCell::default(),
            place,
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

    /// Follows the document to its end, or as far as it can be here. Returns how many commands that were.
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
                match self.prepared(&shown.command) {
                    None => self.run(&block.at, &shown),
                    Some(Prepared::Done) => {}
                    Some(Prepared::NotHere) => return followed,
                }
            }
        }
        followed
    }

    /// What has been done of a command for us, if it is one of those. Checks that it could be done.
    fn prepared(&self, command: &str) -> Option<Prepared> {
        let words: Vec<_> = command.split_whitespace().collect();
        match words[..] {
            ["git", "clone", ..] | ["cd", "weir"] => {}
            ["make", target] => {
                let makefile = fs::read_to_string(root().join("Makefile")).expect("there is one");
                let rule = format!("\n{target}:");
                assert!(makefile.contains(&rule), "the Makefile has no {target}");
                if target == "kafka" {
                    return Some(self.make_kafka());
                }
            }
            ["scripts/setup", part] => {
                let script = fs::read_to_string(root().join("scripts/setup")).expect("it is there");
                let case = format!("\n{part})");
                assert!(script.contains(&case), "scripts/setup knows no {part}");
            }
            ["scripts/build-guests" | "scripts/build-foreign-guests", ..] => {
                for package in &words[1..] {
                    guest(&package.replace('-', "_")).unwrap_or_else(|what| panic!("{what}"));
                }
            }
            ["cargo", "build", "--release", "--bin", "weir"]
            | [
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
            _ => return None,
        }
        Some(Prepared::Done)
    }

    #[cfg(feature = "kafka")]
    fn make_kafka(&self) -> Prepared {
        let Some(broker) = Broker::own(&Options::default()) else {
            return Prepared::NotHere;
        };
        self.shell.borrow_mut().export("KAFKA", broker.address());
        self.broker.replace(Some(broker));
        Prepared::Done
    }

    #[cfg(not(feature = "kafka"))]
    fn make_kafka(&self) -> Prepared {
        Prepared::NotHere
    }

    fn run(&self, at: &str, shown: &Shown<'_>) {
        let command = &shown.command;
        let done = self.shell.borrow_mut().run(command);
        let prints = |said: &str, log: &str| {
            let said: Vec<_> = said.lines().map(str::trim_end).collect();
            let log: Vec<_> = log.lines().map(str::trim_end).collect();
            let piece = [&["…"], &shown.prints[..], &["…"]].concat();
            shown.prints.is_empty() || matches(&shown.prints, &said) || matches(&piece, &log)
        };
        if command.ends_with('&') {
            within_time(|| prints(&done.said(), &done.log()));
        }
        let (said, log) = (done.said(), done.log());
        let status = done.status;
        let all = format!(
            "{at}: {command}\nexit code {status}\n--- standard output:\n{said}\n--- standard error:\n{log}"
        );
        if command.starts_with("timeout -s KILL ") {
            assert_eq!(status, 137, "not killed: {all}");
        } else {
            let fails = |line: &&str| line.starts_with("error[") || line.contains("FAILED");
            let fails = shown.prints.iter().any(fails);
            assert_eq!(status != 0, fails, "{all}");
        }
        assert!(
            prints(&said, &log),
            "it does not print\n{}\n{all}",
            shown.prints.join("\n")
        );
        if let Some(name) = command.strip_prefix("weir new ") {
            self.lock(name);
        }
    }

    /// Gives a new project the versions that the repository is tested with, which are on this machine already.
    fn lock(&self, name: &str) {
        let project = self.cwd().join(name);
        fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))
            .expect("the project was just written");
    }

    fn cwd(&self) -> PathBuf {
        self.shell.borrow().cwd()
    }

    /// Makes the change that a block shows.
    fn change(&self, block: &Block<'_>) {
        let name = block
            .before
            .strip_prefix("<!-- change to ")
            .and_then(|rest| rest.strip_suffix(" -->"))
            .unwrap_or_else(|| panic!("{}: the line before names no file", block.at));
        let path = self.cwd().join(name);
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
