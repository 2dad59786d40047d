//! What can go wrong in a call.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::environment::HostError;

/// Bytes kept of a message that a guest gives: a fault's, a reject's.
pub(crate) const MESSAGE_BYTES: usize = 64 << 10;

/// Bytes kept of a log message.
pub(crate) const LOG_BYTES: usize = 16 << 10;

/// Why a call, or one row of it, failed, as the guest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The row of the batch or firing, below its length; `None` if the guest cannot tell or the
    /// call has no rows.
    pub row: Option<u32>,
    /// What went wrong, for people; at most 64 KiB.
    pub message: String,
}

/// Why a call has failed. None of its effects happened.
///
/// After [`Fault`](CallError::Fault) and [`Open`](CallError::Open) the instance can go on; after a
/// [`Host`](CallError::Host) error of `apply` its environment cannot. After everything else it is
/// dead and has to be [replaced](crate::Instance::replace).
#[derive(Debug)]
pub enum CallError {
    /// The guest returned a fault.
    Fault(Fault),
    /// The guest trapped.
    Trap {
        /// What kind of trap it was.
        message: String,
        /// What the guest said before, such as its panic's message and place.
        last_words: Option<Fault>,
        /// What the guest wrote to standard error in this call, if it is one that has WASI: the end
        /// of it, at most 64 KiB.
        stderr: String,
        /// The functions on the guest's stack, innermost first; at most 32.
        backtrace: Vec<String>,
    },
    /// The call took longer than it may.
    Deadline {
        /// [`Limits::call_time`](crate::Limits::call_time)
        limit: Duration,
    },
    /// The guest trapped after it was refused more memory.
    Memory {
        /// [`Limits::memory_bytes`](crate::Limits::memory_bytes)
        limit: usize,
        /// How many bytes it would have had.
        asked: usize,
    },
    /// The call emitted, wrote or read more than a call may carry; fewer rows at a time may go
    /// through.
    Output {
        /// [`Limits::output_bytes`](crate::Limits::output_bytes)
        limit: usize,
    },
    /// The guest broke the contract: how.
    Contract(String),
    /// The environment failed. Nothing is known against the guest or its records.
    Host(HostError),
    /// The guest refused its configuration, in `describe` or `open`.
    Open(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Fault(fault) => write!(f, "the operator reports: {}", fault.message),
            CallError::Trap {
                message,
                last_words,
                stderr,
                ..
            } => {
                write!(f, "the operator trapped: {message}")?;
                let stderr = stderr.trim_end();
                match last_words {
                    Some(words) => write!(f, ": {}", words.message),
                    None if stderr.is_empty() => Ok(()),
                    None => write!(f, "; it wrote to standard error:\n{}", last_lines(stderr)),
                }
            }
            CallError::Deadline { limit } => write!(f, "the call took longer than {limit:?}"),
            CallError::Memory { limit, asked } => {
                write!(
                    f,
                    "the operator asked for {asked} bytes of memory; its limit is {limit}"
                )
            }
            CallError::Output { limit } => {
                write!(f, "the call exceeded its limit of {limit} bytes")
            }
            CallError::Contract(how) => write!(f, "the operator broke the contract: {how}"),
            CallError::Host(error) => write!(f, "{error}"),
            CallError::Open(message) => {
                write!(f, "the operator refused its configuration: {message}")
            }
        }
    }
}

impl Error for CallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CallError::Host(error) => error.cause().and_then(|cause| cause.source()),
            _ => None,
        }
    }
}

/// The last lines of a text, as many as one reads in a message.
fn last_lines(text: &str) -> &str {
    const LINES: usize = 20;
    match text.rmatch_indices('\n').nth(LINES - 1) {
        Some((position, _)) => &text[position + 1..],
        None => text,
    }
}

/// Cuts a guest's message to `bytes` at a character's boundary.
pub(crate) fn shorten(mut message: String, bytes: usize) -> String {
    if message.len() > bytes {
        message.truncate(message.floor_char_boundary(bytes));
        message.shrink_to_fit();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::{CallError, last_lines, shorten};

    #[test]
    fn messages_are_cut_between_characters() {
        assert_eq!(shorten("aé".to_owned(), 3), "aé");
        assert_eq!(shorten("aé".to_owned(), 2), "a");
        assert_eq!(shorten("aé".to_owned(), 0), "");
    }

    #[test]
    fn a_trap_says_what_the_guest_wrote_last() {
        let trap = |stderr: &str| {
            CallError::Trap {
                message: "unreachable".to_owned(),
                last_words: None,
                stderr: stderr.to_owned(),
                backtrace: vec![],
            }
            .to_string()
        };
        assert_eq!(trap("\n"), "the operator trapped: unreachable");
        assert_eq!(
            trap("Traceback:\nKeyError: 'x'\n"),
            "the operator trapped: unreachable; it wrote to standard error:\nTraceback:\nKeyError: 'x'"
        );
        let lines: Vec<_> = (0..30).map(|line| line.to_string()).collect();
        assert_eq!(last_lines(&lines.join("\n")), lines[10..].join("\n"));
        assert_eq!(last_lines("one"), "one");
    }
}
