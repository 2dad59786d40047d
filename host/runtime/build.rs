//! Collects the source of the Rust SDK and the contract into one table, so that `weir new` works outside of a clone.
//!
//! The SDK keeps its place relative to the contract, since its bindings name `../../wit`. Its `Cargo.toml` takes versions from the
//! workspace, which the copy does not have, so they are written out.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What is copied, relative to the repository; folders whole.
const COPIED: &[&str] = &["LICENSE", "guest-sdk/rust/src", "wit"];

const MANIFEST: &str = "guest-sdk/rust/Cargo.toml";

fn main() {
    let variable = |name| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let root = variable("CARGO_MANIFEST_DIR").join("../..");
    let out = variable("OUT_DIR");
    let mut files = Vec::new();
    for copied in COPIED {
        println!("cargo::rerun-if-changed={}", root.join(copied).display());
        collect(&root, Path::new(copied), &mut files);
    }
    files.sort();
    for manifest in [MANIFEST, "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(manifest).display());
    }
    let manifest = standalone(&read(&root.join(MANIFEST)), &read(&root.join("Cargo.toml")));
    let rewritten = out.join("sdk-manifest");
    fs::write(&rewritten, manifest).expect("OUT_DIR can be written");

    let mut table = String::from("&[\n");
    let mut entry = |name: &Path, content: &Path| {
        let content = content.canonicalize().expect("it was just found");
        writeln!(table, "({name:?}, include_str!({content:?})),").expect("a String takes it");
    };
    entry(Path::new(MANIFEST), &rewritten);
    for file in &files {
        entry(file, &root.join(file));
    }
    table.push_str("]\n");
    fs::write(out.join("sdk.rs"), table).expect("OUT_DIR can be written");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Adds the file `path`, or those in the folder `path`, however deep.
fn collect(root: &Path, path: &Path, files: &mut Vec<PathBuf>) {
    let full = root.join(path);
    if full.is_dir() {
        for entry in fs::read_dir(&full).expect("the repository can be read") {
            let entry = entry.expect("the repository can be read");
            collect(root, &path.join(entry.file_name()), files);
        }
    } else {
        files.push(path.to_owned());
    }
}

/// `manifest` with what it takes from `workspace` written out, and without its lints: they are for those who work on the SDK.
fn standalone(manifest: &str, workspace: &str) -> String {
    let mut out = String::new();
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        if section == "[lints]" {
            continue;
        }
        let line = match line.strip_suffix(".workspace = true") {
            Some(key) => {
                let section = match section {
                    "[package]" => "[workspace.package]",
                    _ => "[workspace.dependencies]",
                };
                value_of(workspace, section, key)
            }
            None => line,
        };
        out.push_str(line);
        out.push('\n');
    }
    assert!(
        !out.contains("workspace"),
        "{MANIFEST} takes something from the workspace in a way that is not understood here:\n{out}"
    );
    out
}

/// The line of `key` in a section of the workspace's manifest.
fn value_of<'a>(workspace: &'a str, section: &str, key: &str) -> &'a str {
    workspace
        .lines()
        .skip_while(|line| *line != section)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .find(|line| {
            line.strip_prefix(key)
                .is_some_and(|rest| rest.starts_with(" = "))
        })
        .unwrap_or_else(|| panic!("{section} of Cargo.toml has no `{key} = …` in one line"))
}
