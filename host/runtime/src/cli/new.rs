//! `weir new`: a project to begin an operator with.
//!
//! It needs no clone: the SDK's source is part of the binary, and the project depends on the copy that is written beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::args::New;
use super::{print, refuse};
use crate::diagnostic::{Diagnostic, ExitCode};

/// The SDK with the contract: path and text.
const SDK: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

/// Where it goes in a project.
const SDK_DIR: &str = ".weir-sdk";

/// The rest of a project: path and text, in which `@NAME@` stands for the name.
const TEMPLATE: &[(&str, &str)] = &[
    (".gitignore", include_str!("new/template/gitignore.in")),
    ("Cargo.toml", include_str!("new/template/Cargo.toml.in")),
    ("README.md", include_str!("new/template/README.md.in")),
    (
        "data/orders.jsonl",
        include_str!("new/template/orders.jsonl.in"),
    ),
    ("job.yaml", include_str!("new/template/job.yaml.in")),
    ("src/lib.rs", include_str!("new/template/lib.rs.in")),
];

/// Longest name: a job's.
const MAX_NAME: usize = 64;

/// What cargo refuses as a package, or what would be confused with something else that a project uses.
const TAKEN: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "weir-sdk",
    "where",
    "while",
    "yield",
];

/// Writes the project and says what to do with it.
pub(super) fn new(args: &New) -> ExitCode {
    let dir = args
        .dir
        .clone()
        .unwrap_or_else(|| PathBuf::from(&args.name));
    match create(&args.name, &dir) {
        Ok(()) => print(&next_steps(&args.name, &dir)),
        Err(problem) => refuse(&[*problem], ExitCode::InvalidJob),
    }
}

fn next_steps(name: &str, dir: &Path) -> String {
    format!(
        "created {dir}: an operator with its tests, sample data and a job\n\
         \x20 cd {dir}\n\
         \x20 cargo test            tests it without a host\n\
         \x20 weir build            makes build/{name}.wasm\n\
         \x20 weir run job.yaml     runs the job\n",
        dir = dir.display()
    )
}

/// Whether a package and a job can be called so.
fn check_name(name: &str) -> Result<(), Box<Diagnostic>> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let why = if name.len() > MAX_NAME {
        "is longer than 64 characters"
    } else if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(allowed) {
        "is not a name for an operator: lower-case letters, digits, `-` and `_`, a letter first"
    } else if TAKEN.contains(&name.replace('_', "-").as_str()) {
        "means something else in Rust"
    } else {
        return Ok(());
    };
    let title = format!("`{}` {why}", name.escape_debug());
    Err(Diagnostic::error("W0801", title)
        .help("choose another name; `--dir` says where the project goes")
        .into())
}

/// Writes the project to `dir`, whole or not at all.
fn create(name: &str, dir: &Path) -> Result<(), Box<Diagnostic>> {
    check_name(name)?;
    let shown = dir.display();
    let failed = |error: io::Error| {
        Diagnostic::error("W0801", format!("cannot create {shown}: {error}")).into()
    };
    match fs::read_dir(dir) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                let title = format!("{shown} is there already, and not empty");
                return Err(Diagnostic::error("W0801", title)
                    .help("choose another name, or another folder with `--dir`")
                    .into());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(failed)?;
    // Beside it, so that one rename makes it appear as a whole.
    let unfinished = parent.join(format!(".{name}.weir-new-{}", std::process::id()));
    let written = write_project(name, &unfinished).and_then(|()| fs::rename(&unfinished, dir));
    written.map_err(|error| {
        // Whether it can be removed or not, what failed first is what has to be said.
        let _ = fs::remove_dir_all(&unfinished);
        failed(error)
    })
}

fn write_project(name: &str, dir: &Path) -> io::Result<()> {
    let write = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        fs::write(path, text)
    };
    for (path, text) in TEMPLATE {
        write(dir.join(path), &text.replace("@NAME@", name))?;
    }
    for (path, text) in SDK {
        write(dir.join(SDK_DIR).join(path), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_packages() {
        for name in ["totals", "a", "my-operator_2"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "a".repeat(65);
        for name in [
            "", "2x", "Totals", "a b", "../x", "fn", "weir_sdk", "test", &long,
        ] {
            assert_eq!(check_name(name).expect_err(name).code, "W0801");
        }
    }

    #[test]
    fn a_project_is_written_whole_and_over_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("deep/er");
        create("shout", &project).unwrap();
        let read = |path: &str| fs::read_to_string(project.join(path)).unwrap();
        assert!(read("Cargo.toml").contains("name = \"shout\""));
        assert!(read("job.yaml").contains("component: build/shout.wasm"));
        assert!(!read("README.md").contains('@'));
        let left: Vec<_> = fs::read_dir(project.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing unfinished stays");

        let again = create("shout", &project).expect_err("it is there");
        assert!(again.title.contains("is there already"), "{again}");
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        create("shout", &empty).unwrap();
        assert!(empty.join("src/lib.rs").is_file());
    }

    /// The SDK's own text, in the place that its bindings expect, with a manifest that needs no workspace.
    #[test]
    fn the_copied_sdk_stands_alone() {
        let text = |path: &str| {
            let found = SDK.iter().find(|(known, _)| *known == path);
            found.unwrap_or_else(|| panic!("no {path}")).1
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for path in [
            "guest-sdk/rust/src/bindings.rs",
            "wit/operator.wit",
            "LICENSE",
        ] {
            assert_eq!(text(path), fs::read_to_string(root.join(path)).unwrap());
        }
        assert!(text("guest-sdk/rust/src/bindings.rs").contains("\"../../wit/operator.wit\""));
        let manifest = text("guest-sdk/rust/Cargo.toml");
        assert!(!manifest.contains("workspace"), "{manifest}");
        assert!(manifest.contains("\nserde = { version = "), "{manifest}");
    }

    #[test]
    fn the_sample_job_is_valid() {
        let (_, job) = TEMPLATE
            .iter()
            .find(|(path, _)| *path == "job.yaml")
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.yaml");
        fs::write(&path, job.replace("@NAME@", "shout")).unwrap();
        let loaded = crate::job::load(&path, &|_| None);
        assert!(loaded.is_ok(), "{loaded:?}");
    }
}
