//! The reference pages, made from what the program itself goes by, so that they cannot say anything else:
//!
//! * [`job_file`] from the JSON Schema of job files, with examples from the guide;
//! * [`contract`] from the operator contract in WIT.

pub mod contract;
pub mod job_file;
pub mod yaml;

use std::fs;

use crate::documents::root;

/// Compares a page of the repository with what it must be. With `WEIR_BLESS=1` in the environment it is rewritten instead, to be read
/// in the diff.
///
/// # Panics
/// They differ.
pub fn check(name: &str, expected: &str) {
    let path = root().join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, expected).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = (1..)
        .zip(found.lines().zip(expected.lines()))
        .find(|(_, (found, expected))| found != expected);
    if let Some((number, (found, expected))) = differs {
        panic!(
            "{name}:{number} is not current, see its first lines\nis:  {found}\nnow: {expected}"
        );
    }
    assert!(
        found == expected,
        "{name} is not current, see its first lines"
    );
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
