//! Why a file is no operator this host can run, in words for who built it.

use std::error::Error;
use std::fmt;

use crate::contract::{NEEDED, PACKAGE, VERSION};

/// Names listed in a message before it says how many more there are.
const NAMES: usize = 5;

/// A file that cannot be loaded. Displayed as a headline and indented lines, to follow an error's
/// code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// What the caller of [`Engine::load`](crate::Engine::load) named the file.
    pub origin: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It is not WebAssembly, but, as far as can be told, this.
    NotWasm(Found),
    /// It is a core module without component type information.
    Untyped,
    /// It is a program rather than an operator: what shows it.
    Program {
        /// The export or import by which it was recognised, such as ``exports `wasi:cli/run@0.2.0`
        /// ``.
        sign: String,
    },
    /// It is a component for something else.
    Foreign {
        /// All that it exports.
        exports: Vec<String>,
    },
    /// It was built against a version of the contract that this host does not run.
    Version {
        /// The package and version that it names.
        found: String,
    },
    /// It imports what WASI has and this host has no stubs of.
    Wasi {
        /// All such imports.
        imports: Vec<String>,
    },
    /// It imports what is not part of the contract.
    Imports {
        /// All such imports.
        imports: Vec<String>,
    },
    /// Its functions are not of the contract's types, or some are missing.
    Mismatch {
        /// What differs.
        detail: String,
    },
    /// It claims to be WebAssembly and is not valid.
    Invalid {
        /// What is wrong and where.
        detail: String,
    },
}

/// What a file that is not WebAssembly seems to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing: it has no bytes.
    Empty,
    /// WebAssembly in its text format.
    Text,
    /// A native program or library.
    Native,
    /// A gzip or zstd archive.
    Compressed,
    /// Anything else, and the bytes it starts with.
    Other([u8; 4]),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Empty => f.write_str("an empty file"),
            Found::Text => f.write_str("WebAssembly in its text format"),
            Found::Native => f.write_str("a native program or library"),
            Found::Compressed => f.write_str("a compressed file"),
            Found::Other(bytes) => {
                f.write_str("not WebAssembly, starts with the bytes")?;
                bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
        }
    }
}

impl Problem {
    /// What the file is or does, in a sentence that follows its name.
    pub fn headline(&self) -> &'static str {
        match self {
            Problem::NotWasm(_)
            | Problem::Untyped
            | Problem::Program { .. }
            | Problem::Foreign { .. } => "is not a Weir operator",
            Problem::Version { .. } => "was built for another version of the operator contract",
            Problem::Wasi { .. } | Problem::Imports { .. } => "needs what this host does not offer",
            Problem::Mismatch { .. } => "does not match the operator contract",
            Problem::Invalid { .. } => "is not valid WebAssembly",
        }
    }

    /// What was found, and what was needed.
    pub fn detail(&self) -> String {
        match self {
            Problem::NotWasm(found) => format!("found: {found}; needed: `{NEEDED}`"),
            Problem::Untyped => {
                format!(
                    "found: a core module without component type information; needed: `{NEEDED}`"
                )
            }
            Problem::Program { sign } => {
                format!("found: a WASI command, {sign}; needed: `{NEEDED}`")
            }
            Problem::Foreign { exports } if exports.is_empty() => {
                format!("found: a component that exports nothing; needed: `{NEEDED}`")
            }
            Problem::Foreign { exports } => {
                format!("found: exports {}; needed: `{NEEDED}`", list(exports))
            }
            Problem::Version { found } => {
                format!("found: `{found}`; this host has `{PACKAGE}@{VERSION}`")
            }
            Problem::Wasi { imports } => {
                format!("imports {}, of which there are no stubs", list(imports))
            }
            Problem::Imports { imports } => {
                format!("imports {}, not part of `{NEEDED}`", list(imports))
            }
            Problem::Mismatch { detail } | Problem::Invalid { detail } => detail.clone(),
        }
    }

    /// What to do about it, where that is known.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Problem::NotWasm(Found::Text) => Some("`wasm-tools parse` turns text into a binary"),
            Problem::NotWasm(Found::Native) => {
                Some("build it with `--target wasm32-unknown-unknown`")
            }
            Problem::NotWasm(Found::Compressed) => Some("unpack it first"),
            Problem::NotWasm(_) | Problem::Foreign { .. } | Problem::Imports { .. } => {
                Some("`weir inspect` shows what is there")
            }
            Problem::Untyped => Some(
                "operators use weir-sdk, or wit-bindgen with the contract's WIT; what strips a \
                 module must keep its `component-type` sections",
            ),
            Problem::Program { .. } => Some(
                "it was built as a program; an operator is a library (`crate-type = \
                 [\"cdylib\"]`) built with `--target wasm32-unknown-unknown`; `weir inspect` shows what is there",
            ),
            Problem::Version { .. } => Some("build it again with the SDK of this release"),
            Problem::Wasi { imports } if imports.iter().all(|name| !name.starts_with("wasi:")) => {
                Some(
                    "a module that imports WASI's preview 1 has to become a component first \
                     (`wasm-tools component new --adapt`); Rust needs no WASI at all with `--target \
                     wasm32-unknown-unknown`",
                )
            }
            Problem::Wasi { .. } => Some(
                "operators get stubs of WASI 0.2's cli, clocks, filesystem, io, random and sockets; \
                 build it without the rest (componentize-js: `disableFeatures: ['http', \
                 'fetch-event']`)",
            ),
            Problem::Mismatch { .. } => {
                Some("build it with the contract's WIT as released, unchanged")
            }
            Problem::Invalid { .. } => None,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}\n  {}",
            self.origin,
            self.problem.headline(),
            self.problem.detail()
        )?;
        match self.problem.help() {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl Error for LoadError {}

/// Names in backticks, as many as fit a line.
fn list(names: &[String]) -> String {
    let mut text = names
        .iter()
        .take(NAMES)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > NAMES {
        text.push_str(&format!(" and {} more", names.len() - NAMES));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{LoadError, Problem, list};

    #[test]
    fn a_message_says_what_was_found_what_was_needed_and_what_to_do() {
        let error = LoadError {
            origin: "build/clean.wasm".to_owned(),
            problem: Problem::Program {
                sign: "exports `wasi:cli/run@0.2.0`".to_owned(),
            },
        };
        assert_eq!(
            error.to_string(),
            "build/clean.wasm is not a Weir operator\n  \
             found: a WASI command, exports `wasi:cli/run@0.2.0`; needed: `weir:operator@0.1`\n  \
             help: it was built as a program; an operator is a library (`crate-type = \
             [\"cdylib\"]`) built with `--target wasm32-unknown-unknown`; `weir inspect` shows what is there"
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let names = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned);
        assert_eq!(list(&names[..2]), "`a`, `b`");
        assert_eq!(list(&names), "`a`, `b`, `c`, `d`, `e` and 2 more");
    }
}
