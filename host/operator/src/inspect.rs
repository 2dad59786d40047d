//! Looks at a file from outside: what it is, what it imports and exports, and whether that is the
//! contract's.
//!
//! Nothing is compiled or run, so that `weir inspect` can print what is there for any file.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::ComponentEncoder;

use crate::contract::{IMPORTS, LIFECYCLE, PACKAGE, runs};
use crate::load_error::{Found, Problem};
use crate::wasi::is_wasi_stub;

/// The names by which a core module imports WASI's first preview: the current and the oldest.
const PREVIEW_1: [&str; 2] = ["wasi_snapshot_preview1", "wasi_unstable"];

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Not WebAssembly.
    Other,
    /// A core module; with `typed` it carries component type information and is turned into a
    /// component when loaded.
    Module {
        /// Whether it carries component type information.
        typed: bool,
    },
    /// A component.
    Component,
}

/// What a file imports and exports. A component's names are interfaces and functions; those of a
/// core module without component type information are `module.name` for imports and names for
/// exports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// What it imports, in its order.
    pub imports: Vec<String>,
    /// What it exports, in its order.
    pub exports: Vec<String>,
}

/// A file seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub sha256: String,
    /// What it is.
    pub form: Form,
    /// What it imports and exports; of a core module with component type information, what its
    /// component does.
    pub interface: Interface,
    /// Why it is no operator this host can run, as far as names tell. `None`: loading it goes on to
    /// compare types.
    pub problem: Option<Problem>,
}

/// Looks at a file's bytes.
pub fn inspect(bytes: &[u8]) -> Inspection {
    examine(bytes).0
}

/// Looks at a file's bytes, and returns the component they are or make.
pub(crate) fn examine(bytes: &[u8]) -> (Inspection, Option<Cow<'_, [u8]>>) {
    let mut inspection = Inspection {
        sha256: hex(&Sha256::digest(bytes)),
        form: Form::Other,
        interface: Interface::default(),
        problem: None,
    };
    match component_of(bytes, &mut inspection) {
        Ok(component) => {
            inspection.problem = contract_problem(&inspection.interface);
            (inspection, Some(component))
        }
        Err(problem) => {
            inspection.problem = Some(problem);
            (inspection, None)
        }
    }
}

/// Finds out the form and the interface, and encodes a typed core module.
fn component_of<'a>(
    bytes: &'a [u8],
    inspection: &mut Inspection,
) -> Result<Cow<'a, [u8]>, Problem> {
    if Parser::is_component(bytes) {
        inspection.form = Form::Component;
        inspection.interface = component_interface(bytes).map_err(invalid)?;
        return Ok(Cow::Borrowed(bytes));
    }
    if !Parser::is_core_wasm(bytes) {
        return Err(Problem::NotWasm(guess(bytes)));
    }
    inspection.form = Form::Module { typed: false };
    let module = core_module(bytes).map_err(invalid)?;
    inspection.form = Form::Module {
        typed: module.typed,
    };
    inspection.interface = module.interface;
    if !module.typed {
        let exports = &inspection.interface.exports;
        return Err(
            match (
                exports.iter().any(|name| name == "_start"),
                module.preview_1.first(),
            ) {
                (true, _) => Problem::Program {
                    sign: "exports `_start`".to_owned(),
                },
                (false, Some(import)) => Problem::Program {
                    sign: format!("imports `{import}`"),
                },
                (false, None) => Problem::Untyped,
            },
        );
    }
    if !module.preview_1.is_empty() {
        return Err(Problem::Wasi {
            imports: module.preview_1,
        });
    }
    let component = ComponentEncoder::default()
        .module(bytes)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(|error| Problem::Invalid {
            detail: format!("cannot make a component of the module: {error:#}"),
        })?;
    inspection.interface = component_interface(&component).map_err(invalid)?;
    Ok(Cow::Owned(component))
}

/// Compares an interface with the contract by names.
fn contract_problem(interface: &Interface) -> Option<Problem> {
    let Interface { imports, exports } = interface;
    if let Some(found) = imports
        .iter()
        .chain(exports)
        .find_map(|name| other_version(name))
    {
        return Some(Problem::Version { found });
    }
    if !exports
        .iter()
        .any(|name| contract_interface(name).is_some_and(|(name, _)| name == LIFECYCLE))
    {
        return Some(
            match exports
                .iter()
                .find(|name| name.starts_with("wasi:cli/run@"))
            {
                Some(run) => Problem::Program {
                    sign: format!("exports `{run}`"),
                },
                None => Problem::Foreign {
                    exports: exports.clone(),
                },
            },
        );
    }
    let (wasi, other): (Vec<_>, Vec<_>) = imports
        .iter()
        .filter(|name| !contract_interface(name).is_some_and(|(name, _)| IMPORTS.contains(&name)))
        .filter(|name| !is_wasi_stub(name))
        .cloned()
        .partition(|name| name.starts_with("wasi:"));
    match (wasi.is_empty(), other.is_empty()) {
        (true, true) => None,
        (_, false) => Some(Problem::Imports { imports: other }),
        (false, true) => Some(Problem::Wasi { imports: wasi }),
    }
}

/// Splits `weir:operator/NAME@VERSION`; the version is empty where there is none.
fn contract_interface(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
    Some(rest.split_once('@').unwrap_or((rest, "")))
}

/// The package and version that an interface of the contract names, if this host does not run that
/// version.
fn other_version(name: &str) -> Option<String> {
    let (_, version) = contract_interface(name)?;
    match version {
        _ if runs(version) => None,
        "" => Some(format!("{PACKAGE} without a version")),
        _ => Some(format!("{PACKAGE}@{version}")),
    }
}

/// Names of a component's own imports and exports, not those of components and modules inside it.
fn component_interface(bytes: &[u8]) -> wasmparser::Result<Interface> {
    let mut interface = Interface::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            // Also ends the component itself, after which nothing follows.
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    interface.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    interface.exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(interface)
}

/// A core module seen from outside.
struct CoreModule {
    interface: Interface,
    typed: bool,
    /// Imports of WASI's first preview.
    preview_1: Vec<String>,
}

fn core_module(bytes: &[u8]) -> wasmparser::Result<CoreModule> {
    let mut module = CoreModule {
        interface: Interface::default(),
        typed: false,
        preview_1: Vec::new(),
    };
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version {
                encoding: Encoding::Component,
                ..
            } => break,
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    let name = format!("{}.{}", import.module, import.name);
                    if PREVIEW_1.contains(&import.module) {
                        module.preview_1.push(name.clone());
                    }
                    module.interface.imports.push(name);
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    module.interface.exports.push(export?.name.to_owned());
                }
            }
            Payload::CustomSection(section) => {
                module.typed |= section.name().starts_with("component-type")
            }
            _ => {}
        }
    }
    Ok(module)
}

/// What a file that is not WebAssembly seems to be.
fn guess(bytes: &[u8]) -> Found {
    const NATIVE: [&[u8]; 5] = [
        b"\x7fELF",
        b"MZ",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
        b"!<arch>\n",
    ];
    const COMPRESSED: [&[u8]; 3] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"];
    let begins = |marks: &[&[u8]]| marks.iter().any(|mark| bytes.starts_with(mark));
    let text = bytes.trim_ascii_start();
    if bytes.is_empty() {
        Found::Empty
    } else if begins(&NATIVE) {
        Found::Native
    } else if begins(&COMPRESSED) {
        Found::Compressed
    } else if text.starts_with(b"(module") || text.starts_with(b"(component") {
        Found::Text
    } else {
        let mut first = [0; 4];
        let known = bytes.len().min(4);
        first[..known].copy_from_slice(&bytes[..known]);
        Found::Other(first)
    }
}

fn invalid(error: wasmparser::BinaryReaderError) -> Problem {
    Problem::Invalid {
        detail: error.to_string(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Interface, contract_problem, guess};
    use crate::load_error::{Found, Problem};

    fn problem(imports: &[&str], exports: &[&str]) -> Option<Problem> {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        contract_problem(&Interface {
            imports: own(imports),
            exports: own(exports),
        })
    }

    const OPERATOR: &[&str] = &["weir:operator/lifecycle@0.1.0"];

    #[test]
    fn an_operator_imports_of_the_contract_what_it_needs() {
        assert_eq!(problem(&[], OPERATOR), None);
        assert_eq!(
            problem(
                &["weir:operator/types@0.1.0", "weir:operator/state@0.1.0"],
                OPERATOR
            ),
            None
        );
    }

    #[test]
    fn names_outside_of_the_contract_are_told_apart() {
        let imports = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            problem(&[], &[]),
            Some(Problem::Foreign { exports: vec![] })
        );
        assert_eq!(
            problem(&[], &["wasi:cli/run@0.2.6"]),
            Some(Problem::Program {
                sign: "exports `wasi:cli/run@0.2.6`".to_owned()
            })
        );
        assert_eq!(
            problem(
                &[
                    "wasi:http/types@0.2.0",
                    "wasi:io/streams@0.2.0",
                    "weir:operator/state@0.1.0"
                ],
                OPERATOR
            ),
            Some(Problem::Wasi {
                imports: imports(&["wasi:http/types@0.2.0"])
            })
        );
        assert_eq!(
            problem(&["wasi:io/streams@0.2.0", "my:db/query"], OPERATOR),
            Some(Problem::Imports {
                imports: imports(&["my:db/query"])
            })
        );
        assert_eq!(
            problem(&["weir:operator/clock@0.1.0"], OPERATOR),
            Some(Problem::Imports {
                imports: imports(&["weir:operator/clock@0.1.0"])
            })
        );
        assert_eq!(
            problem(&[], &["weir:operators/lifecycle@0.1.0"]),
            Some(Problem::Foreign {
                exports: imports(&["weir:operators/lifecycle@0.1.0"])
            })
        );
    }

    #[test]
    fn another_version_of_the_contract_is_named() {
        for (name, found) in [
            ("weir:operator/lifecycle@0.2.0", "weir:operator@0.2.0"),
            ("weir:operator/lifecycle@0.1.7", "weir:operator@0.1.7"),
            ("weir:operator/lifecycle", "weir:operator without a version"),
        ] {
            assert_eq!(
                problem(&[], &[name]),
                Some(Problem::Version {
                    found: found.to_owned()
                })
            );
        }
        assert_eq!(
            problem(&["weir:operator/state@0.3.0"], OPERATOR),
            Some(Problem::Version {
                found: "weir:operator@0.3.0".to_owned()
            })
        );
    }

    #[test]
    fn files_of_other_kinds_are_recognised() {
        assert_eq!(guess(b""), Found::Empty);
        assert_eq!(guess(b"\x7fELF\x02"), Found::Native);
        assert_eq!(guess(b"\n (component)"), Found::Text);
        assert_eq!(guess(b"\x1f\x8b\x08"), Found::Compressed);
        assert_eq!(guess(b"job: x"), Found::Other(*b"job:"));
        assert_eq!(guess(b"ab"), Found::Other(*b"ab\0\0"));
    }
}
