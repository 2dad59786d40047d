//! Why a record could not be processed.

use std::fmt;

/// The result of everything an operator does.
pub type Result<T = (), E = Fault> = std::result::Result<T, E>;

/// A record, or a timer, that could not be processed, and why.
///
/// Any error converts into one, so that `?` works on parsers and the like. The SDK adds the row that
/// was being processed; what then happens to it is the operator's error policy in the job file: fail
/// the job (the default), skip the record, or send it to a dead-letter sink. Whatever the failing
/// record had done before is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(crate) row: Option<u32>,
    pub(crate) message: String,
}

impl Fault {
    /// A fault with this message. It is shown to the people who run the job beside the record's
    /// position, so say what was found and what was expected.
    pub fn new(message: impl fmt::Display) -> Fault {
        Fault {
            row: None,
            message: message.to_string(),
        }
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The row within the host's call, once the SDK has added it; `None` where the call had no rows.
    pub fn row(&self) -> Option<u32> {
        self.row
    }
}

// No `Display` beside this: a type that implements `Error` could not have the conversion below.
impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Fault {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Fault { row: None, message }
    }
}

impl From<Fault> for crate::bindings::weir::operator::types::Fault {
    fn from(fault: Fault) -> Self {
        Self {
            row: fault.row,
            message: fault.message,
        }
    }
}
