//! What the program says to the people who run it: coded, placed, with a remedy; and what it exits with.
//!
//! ```text
//! error[W0102]: unknown field `exchang` in operator `daily`
//!   --> job.yaml:24:29
//!   did you mean `exchange`? (forward, by-key, rebalance)
//! ```
//!
//! Codes are permanent: [`code`] lists every one, and scripts may match on them. Titles may be reworded.

pub mod code;
pub mod explain;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// What was asked for does not happen.
    Error,
    /// It happens, but somebody should look.
    Warning,
}

/// A place in a file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, as the user named it.
    pub file: Arc<Path>,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// One message. `Display` renders it without a final newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Its permanent code, listed in [`code::CODES`].
    pub code: &'static str,
    /// What is wrong, in a line: names what it is about.
    pub title: String,
    /// Where, if it has a place in a file.
    pub place: Option<Location>,
    /// Details, a line or more each: what was found, what is needed.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    fn new(severity: Severity, code: &'static str, title: String) -> Diagnostic {
        debug_assert!(
            code::meaning(code).is_some(),
            "code {code} is not in the table"
        );
        Diagnostic {
            severity,
            code,
            title,
            place: None,
            notes: Vec::new(),
            help: None,
        }
    }

    /// An error.
    pub fn error(code: &'static str, title: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, code, title.into())
    }

    /// An error whose message has several lines: its title, then notes, and a remedy behind `help: `.
    pub fn error_of(code: &'static str, text: &str) -> Diagnostic {
        let mut lines = text.lines();
        let problem = Diagnostic::error(code, lines.next().unwrap_or_default());
        lines.fold(problem, |problem, line| {
            let line = line.trim();
            match line.strip_prefix("help: ") {
                Some(help) => problem.help(help),
                None => problem.note(line),
            }
        })
    }

    /// A warning.
    pub fn warning(code: &'static str, title: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, code, title.into())
    }

    /// With a place.
    #[must_use]
    pub fn at(mut self, place: Location) -> Diagnostic {
        self.place = Some(place);
        self
    }

    /// With one more note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// With a remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warn",
        };
        write!(f, "{severity}[{}]: {}", self.code, self.title)?;
        if let Some(place) = &self.place {
            write!(f, "\n  --> {place}")?;
        }
        for note in &self.notes {
            for line in note.lines() {
                write!(f, "\n  {line}")?;
            }
        }
        if let Some(help) = &self.help {
            for (number, line) in help.lines().enumerate() {
                write!(
                    f,
                    "\n  {}{line}",
                    if number == 0 { "help: " } else { "      " }
                )?;
            }
        }
        Ok(())
    }
}

/// Several messages, an empty line between them and a newline at the end.
pub fn render(diagnostics: &[Diagnostic]) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&diagnostic.to_string());
        text.push('\n');
    }
    text
}

/// What the program exits with: what whoever started it should do next.
///
/// A supervisor must not restart after 2, 3, 4 and 5: the same would happen again, or somebody else runs the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done, or stopped cleanly with a last checkpoint.
    Done = 0,
    /// A fault of the program itself.
    Internal = 1,
    /// The job file or a component is wrong.
    InvalidJob = 2,
    /// The job is right, but starting it now would be wrong: an input or checkpoint is missing or differs.
    StartRefused = 3,
    /// Another process runs this job, or has taken it over.
    OwnedElsewhere = 4,
    /// The job failed more often than its restart strategy allows, or in a way that repeats.
    GaveUp = 5,
    /// Stopped when asked to, but without a last checkpoint.
    StoppedWithoutCheckpoint = 6,
    /// Something outside that the job needs cannot be reached; trying later may help.
    DependencyUnavailable = 75,
}

impl ExitCode {
    /// The one with this number, if there is one.
    pub fn of(code: u8) -> Option<ExitCode> {
        use ExitCode::*;
        let all = [
            Done,
            Internal,
            InvalidJob,
            StartRefused,
            OwnedElsewhere,
            GaveUp,
            StoppedWithoutCheckpoint,
            DependencyUnavailable,
        ];
        all.into_iter().find(|known| known.code() == code)
    }

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> std::process::ExitCode {
        std::process::ExitCode::from(code.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_every_part_in_order() {
        let place = Location {
            file: Path::new("job.yaml").into(),
            line: 24,
            column: 29,
        };
        let error = Diagnostic::error("W0102", "unknown field `exchang` in operator `daily`")
            .at(place)
            .note("did you mean `exchange`? (forward, by-key, rebalance)\nsecond line")
            .help("do this,\nor that");
        assert_eq!(
            error.to_string(),
            "error[W0102]: unknown field `exchang` in operator `daily`\n\
             \x20 --> job.yaml:24:29\n\
             \x20 did you mean `exchange`? (forward, by-key, rebalance)\n\
             \x20 second line\n\
             \x20 help: do this,\n\
             \x20       or that"
        );
        let warning = Diagnostic::warning("W0102", "short");
        assert_eq!(
            render(&[error.clone(), warning]),
            format!("{error}\n\nwarn[W0102]: short\n")
        );
    }
}
