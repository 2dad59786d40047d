//! What serde is told when a value cannot be decoded.

use std::fmt;

use serde::de::{Error, Expected, Unexpected};

/// Why a value could not be decoded. Never leaves the decoder but as `Reported`.
#[derive(Debug)]
pub(in crate::job) enum Fault {
    /// The report has it.
    Reported,
    /// A field is missing.
    Missing(&'static str),
    /// Another type was expected.
    Expected(String),
    /// What is wrong, and on a second line the remedy.
    Message(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Fault::Message(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Fault::Missing(field)
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::Expected(expected.to_string())
    }
}
