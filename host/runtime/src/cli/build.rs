//! `weir build`: compiles an operator's project to a component, and checks that it is one.

mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use weir_operator::{CallError, Component, Description, Limits};

use super::inspect;
use super::{print, refuse};
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::start;
use toolchain::{Here, TRIPLE, Toolchain};

/// Builds the project in `dir` to `build/NAME.wasm` in it, and says what came out.
pub(super) fn build(dir: &Path) -> ExitCode {
    match make(dir) {
        Ok(text) => print(&text),
        Err(problem) => refuse(&[*problem], ExitCode::InvalidJob),
    }
}

fn make(dir: &Path) -> Result<String, Box<Diagnostic>> {
    if !dir.join("Cargo.toml").is_file() {
        let title = format!("there is no Cargo.toml in {}", dir.display());
        return Err(Diagnostic::error("W0802", title)
            .help("name the folder of an operator's project, or make one with `weir new NAME`")
            .into());
    }
    let toolchain = Toolchain::find(&Here(dir))?;
    let project = Project::of(dir)?;
    let compiled = project.compile(dir, &toolchain)?;
    let bytes = start::read(&compiled).map_err(|error| {
        let title = format!("cannot read {}: {error}", compiled.display());
        Diagnostic::error("W0804", title)
    })?;
    let file = Path::new("build").join(format!("{}.wasm", project.name));
    let file = match dir == Path::new(".") {
        true => file,
        false => dir.join(file),
    };
    let shown = file.display().to_string();
    // Looked at before it takes the place of the last one.
    let (component, description) = check(&bytes, &shown)?;
    put(&bytes, &file)
        .map_err(|error| Diagnostic::error("W0804", format!("cannot write {shown}: {error}")))?;
    Ok(summary(
        &shown,
        bytes.len(),
        &component,
        description.as_ref(),
    ))
}

/// Loads the component and lets it describe itself, which it may refuse to do without a configuration.
fn check(bytes: &[u8], shown: &str) -> Result<(Component, Option<Description>), Box<Diagnostic>> {
    let engine =
        start::engine(None).map_err(|error| Diagnostic::error("W0200", error.to_string()))?;
    let component = engine
        .load(bytes, shown)
        .map_err(|error| start::load_problem(&error))?;
    start::warn_of_cache([&component]);
    match component.describe(None, &Limits::default()) {
        Ok(description) => Ok((component, Some(description))),
        Err(CallError::Open(_)) => Ok((component, None)),
        Err(error) => Err(Diagnostic::error("W0211", format!("{shown}: {error}"))
            .note("it was asked to describe itself without a configuration")
            .into()),
    }
}

/// Writes the file as a whole: a job that starts meanwhile never sees half of it.
fn put(bytes: &[u8], file: &Path) -> std::io::Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let unfinished = file.with_extension(format!("wasm.{}", std::process::id()));
    fs::write(&unfinished, bytes)?;
    fs::rename(&unfinished, file)
}

fn summary(
    shown: &str,
    bytes: usize,
    component: &Component,
    description: Option<&Description>,
) -> String {
    let mut text = format!(
        "{shown}: {} kB, sha256 {}\n",
        bytes.div_ceil(1_000),
        component.sha256()
    );
    match description {
        Some(description) => inspect::describe(&mut text, description),
        None => text.push_str("  it needs a configuration to say what it is\n"),
    }
    text
}

/// The package that is built.
#[derive(Debug, PartialEq, Eq)]
struct Project {
    /// Its name.
    name: String,
    /// The name of its library, as the compiler's file has it.
    library: String,
    /// Where cargo puts what it builds.
    target: PathBuf,
}

/// What is read of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    crate_types: Vec<String>,
}

impl Project {
    /// The project in `dir`, as cargo sees it.
    fn of(dir: &Path) -> Result<Project, Box<Diagnostic>> {
        let output = Command::new("cargo")
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(dir)
            .stderr(Stdio::inherit())
            .output();
        let read = output
            .map_err(|error| error.to_string())
            .and_then(|output| {
                if !output.status.success() {
                    return Err("see what it says above".to_owned());
                }
                serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
            });
        let shown = dir.join("Cargo.toml");
        let metadata = read.map_err(|error| {
            let title = format!("cargo cannot read {}: {error}", shown.display());
            Diagnostic::error("W0802", title)
        })?;
        Project::choose(metadata, &shown)
    }

    /// The package of the manifest, which must make a component.
    fn choose(metadata: Metadata, manifest: &Path) -> Result<Project, Box<Diagnostic>> {
        let shown = manifest.display();
        // Cargo prints it without links.
        let manifest = manifest.canonicalize().unwrap_or(manifest.to_owned());
        let of_component = |package: &Package| {
            let mut targets = package.targets.iter();
            let library = targets.find(|target| target.crate_types.iter().any(|t| t == "cdylib"));
            library.map(|target| target.name.replace('-', "_"))
        };
        let package = metadata
            .packages
            .iter()
            .find(|package| package.manifest_path == manifest);
        let Some(package) = package else {
            let operators: Vec<_> = metadata
                .packages
                .iter()
                .filter(|package| of_component(package).is_some())
                .filter_map(|package| package.manifest_path.parent())
                .map(|dir| format!("weir build {}", dir.display()))
                .collect();
            let problem =
                Diagnostic::error("W0802", format!("{shown} is a workspace, not a package"));
            return Err(match operators.is_empty() {
                true => problem.help("name the folder of an operator's package"),
                false => problem.help(format!("one of:\n{}", operators.join("\n"))),
            }
            .into());
        };
        let Some(library) = of_component(package) else {
            let title = format!("package `{}` makes no component", package.name);
            return Err(Diagnostic::error("W0802", title)
                .help(format!(
                    "add to {shown}:\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]"
                ))
                .into());
        };
        Ok(Project {
            name: package.name.clone(),
            library,
            target: metadata.target_directory,
        })
    }

    /// Compiles the package. Cargo's messages go to standard error, as they come.
    fn compile(&self, dir: &Path, toolchain: &Toolchain) -> Result<PathBuf, Box<Diagnostic>> {
        if matches!(toolchain, Toolchain::Debian { .. }) && !self.target.join(TRIPLE).is_dir() {
            super::say(
                "the first time, Debian's compiler builds the standard library too: about a minute\n",
            );
        }
        let status = toolchain
            .cargo_build()
            .args(["--lib", "--package", &self.name])
            // As it was told: the folders of other variables would win over it otherwise.
            .arg("--target-dir")
            .arg(&self.target)
            .current_dir(dir)
            .stdin(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(self
                .target
                .join(TRIPLE)
                .join("release")
                .join(format!("{}.wasm", self.library))),
            Ok(_) => Err(Diagnostic::error(
                "W0804",
                format!(
                    "operator `{}` was not built: see what cargo says above",
                    self.name
                ),
            )
            .into()),
            Err(error) => {
                Err(Diagnostic::error("W0804", format!("cannot run cargo: {error}")).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(packages: &str) -> Metadata {
        let text = format!("{{\"packages\": [{packages}], \"target_directory\": \"/t\"}}");
        serde_json::from_str(&text).unwrap()
    }

    fn package(name: &str, crate_type: &str) -> String {
        format!(
            r#"{{"name": "{name}", "manifest_path": "/p/{name}/Cargo.toml",
                "targets": [{{"name": "{name}", "crate_types": ["{crate_type}", "rlib"]}}]}}"#
        )
    }

    #[test]
    fn the_package_of_the_folder_is_built() {
        let both = [package("one-op", "cdylib"), package("two", "cdylib")].join(",");
        let project = Project::choose(metadata(&both), Path::new("/p/one-op/Cargo.toml"));
        let expected = Project {
            name: "one-op".into(),
            library: "one_op".into(),
            target: "/t".into(),
        };
        assert_eq!(project, Ok(expected));
    }

    #[test]
    fn what_is_no_operators_package_is_refused_with_what_to_do() {
        let both = [package("one", "cdylib"), package("two", "lib")].join(",");
        let refused = |manifest: &str| {
            let problem = Project::choose(metadata(&both), Path::new(manifest));
            let problem = problem.expect_err(manifest);
            assert_eq!(problem.code, "W0802");
            problem.to_string()
        };
        let library = refused("/p/two/Cargo.toml");
        assert!(library.contains("crate-type = [\"cdylib\""), "{library}");
        let workspace = refused("/p/Cargo.toml");
        assert!(workspace.contains("weir build /p/one"), "{workspace}");
        assert!(!workspace.contains("/p/two"), "{workspace}");
    }

    #[test]
    fn what_is_there_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("build/op.wasm");
        for bytes in [&b"one"[..], b"two", b"two"] {
            put(bytes, &file).unwrap();
            assert_eq!(fs::read(&file).unwrap(), bytes);
            assert_eq!(fs::read_dir(dir.path().join("build")).unwrap().count(), 1);
        }
    }
}
