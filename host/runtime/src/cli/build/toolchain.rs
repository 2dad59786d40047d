//! A way to compile Rust for `wasm32-unknown-unknown` on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::diagnostic::Diagnostic;

/// What operators are compiled for.
pub(super) const TRIPLE: &str = "wasm32-unknown-unknown";

/// Debian's packages, which are not rustup's and lie beside it.
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// The oldest compiler that the SDK allows: 1.x.
const OLDEST_MINOR: u32 = 95;

/// How to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Toolchain {
    /// The toolchain in `PATH` has the target.
    Native,
    /// Debian's compiler builds the standard library from its source.
    Debian {
        /// `rust-lld`, which Debian's compiler does not have: that of the toolchain in `PATH`.
        linker: PathBuf,
    },
}

/// What is asked of the machine.
pub(super) trait Machine {
    /// What a program prints; `None` if it is not there or fails.
    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String>;
    /// Names of what is in a folder; none if it cannot be read.
    fn list(&self, dir: &Path) -> Vec<String>;
}

/// This machine, as seen from the project's folder, which may choose its own toolchain.
pub(super) struct Here<'a>(pub(super) &'a Path);

impl Machine for Here<'_> {
    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.0)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }
}

impl Toolchain {
    /// The first way that there is.
    ///
    /// # Errors
    /// There is none: what is missing and what to do.
    pub(super) fn find(machine: &impl Machine) -> Result<Toolchain, Box<Diagnostic>> {
        if machine.ask("cargo", &["--version"]).is_none() {
            let title = "cargo is not installed, or not in PATH";
            return Err(Diagnostic::error("W0803", title)
                .help("install Rust as https://rustup.rs says")
                .into());
        }
        if has_target(machine) {
            return Ok(Toolchain::Native);
        }
        if has_debian(machine)
            && let Some(linker) = linker(machine)
        {
            return Ok(Toolchain::Debian { linker });
        }
        let title = format!("the Rust toolchain cannot compile for {TRIPLE}");
        let help = if machine.ask("rustup", &["--version"]).is_some() {
            format!("call `rustup target add {TRIPLE}`")
        } else {
            "install Rust as https://rustup.rs says, then call \
             `rustup target add wasm32-unknown-unknown`"
                .to_owned()
        };
        Err(Diagnostic::error("W0803", title)
            .help(format!(
                "{help};\nor, on Debian 12 with its security updates, \
                 `apt-get install rustc-web cargo-web rust-web-src`"
            ))
            .into())
    }

    /// `cargo build`, up to the arguments that say what is built.
    pub(super) fn cargo_build(&self) -> Command {
        let mut command = match self {
            Toolchain::Native => Command::new("cargo"),
            Toolchain::Debian { .. } => Command::new(DEBIAN_CARGO),
        };
        command.args(["build", "--release", "--target", TRIPLE]);
        if let Toolchain::Debian { linker } = self {
            // -Zbuild-std is unstable; RUSTC_BOOTSTRAP allows it on a stable compiler. The variables that are removed would speak
            // of the other toolchain.
            command
                .arg("-Zbuild-std=std,panic_abort")
                .env_remove("RUSTUP_TOOLCHAIN")
                .env_remove("RUSTC_WRAPPER")
                .env("RUSTC", DEBIAN_RUSTC)
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
        // Whole-program optimisation: a third faster and a third of the size, for a second or two.
        command
            .env("CARGO_PROFILE_RELEASE_LTO", "fat")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        command
    }
}

fn has_target(machine: &impl Machine) -> bool {
    machine
        .ask("rustc", &["--print", "target-libdir", "--target", TRIPLE])
        .is_some_and(|dir| {
            let libraries = machine.list(Path::new(&dir));
            libraries
                .iter()
                .any(|name| name.starts_with("libstd-") && name.ends_with(".rlib"))
        })
}

/// Whether Debian's compiler is there, with the source of its standard library, and not too old.
fn has_debian(machine: &impl Machine) -> bool {
    let minor = machine
        .ask(DEBIAN_RUSTC, &["--version"])
        .and_then(|version| {
            let minor = version.strip_prefix("rustc 1.")?.split('.').next()?;
            minor.parse::<u32>().ok()
        });
    let source = machine
        .ask(DEBIAN_RUSTC, &["--print", "sysroot"])
        .is_some_and(|sysroot| {
            let dir = Path::new(&sysroot).join("lib/rustlib/src/rust/library/std");
            machine.list(&dir).iter().any(|name| name == "Cargo.toml")
        });
    machine.ask(DEBIAN_CARGO, &["--version"]).is_some() && minor >= Some(OLDEST_MINOR) && source
}

fn linker(machine: &impl Machine) -> Option<PathBuf> {
    let version = machine.ask("rustc", &["--version", "--verbose"])?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))?;
    let sysroot = machine.ask("rustc", &["--print", "sysroot"])?;
    let dir = Path::new(&sysroot).join(format!("lib/rustlib/{host}/bin"));
    machine
        .list(&dir)
        .iter()
        .any(|name| name == "rust-lld")
        .then(|| dir.join("rust-lld"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that has the parts named.
    struct Made(&'static [&'static str]);

    impl Machine for Made {
        fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
            let part = match program {
                DEBIAN_CARGO | DEBIAN_RUSTC => "debian",
                "rustc" => "cargo",
                other => other,
            };
            self.0.contains(&part).then(|| {
                let printed = match (program, arguments) {
                    (_, ["--print", "target-libdir", ..]) => "/rust/wasm",
                    (DEBIAN_RUSTC, ["--print", "sysroot"]) => "/usr",
                    (_, ["--print", "sysroot"]) => "/rust",
                    ("rustc", _) => "rustc 1.95.0\nhost: x86_64-unknown-linux-gnu",
                    _ => "rustc 1.95.0 (of Debian)",
                };
                printed.to_owned()
            })
        }

        fn list(&self, dir: &Path) -> Vec<String> {
            let (part, name) = match dir.to_str() {
                Some("/rust/wasm") => ("target", "libstd-1234.rlib"),
                Some("/usr/lib/rustlib/src/rust/library/std") => ("source", "Cargo.toml"),
                Some("/rust/lib/rustlib/x86_64-unknown-linux-gnu/bin") => ("lld", "rust-lld"),
                other => panic!("{other:?}"),
            };
            let there = self.0.contains(&part);
            there.then(|| name.to_owned()).into_iter().collect()
        }
    }

    #[test]
    fn the_target_comes_first_then_debians_compiler() {
        let native = Made(&["cargo", "target", "debian", "source", "lld"]);
        assert_eq!(Toolchain::find(&native), Ok(Toolchain::Native));
        let linker = PathBuf::from("/rust/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld");
        let debian = Made(&["cargo", "debian", "source", "lld"]);
        let found = Toolchain::find(&debian);
        assert_eq!(found, Ok(Toolchain::Debian { linker }));
    }

    #[test]
    fn what_is_missing_is_said_with_the_command_that_helps() {
        for (parts, words) in [
            (&[][..], "https://rustup.rs"),
            (&["cargo"], "install Rust"),
            (
                &["cargo", "rustup"],
                "call `rustup target add wasm32-unknown-unknown`",
            ),
            (&["cargo", "debian"], "rust-web-src"),
            (&["cargo", "debian", "source"], "rustup target add"),
        ] {
            let problem = Toolchain::find(&Made(parts)).expect_err("something is missing");
            assert_eq!(problem.code, "W0803");
            let help = problem.help.as_deref().unwrap_or_default();
            assert!(help.contains(words), "{parts:?}: {problem}");
        }
    }

    #[test]
    fn debians_cargo_is_told_what_it_lacks() {
        let linker = PathBuf::from("/rust-lld");
        let command = Toolchain::Debian { linker }.cargo_build();
        assert_eq!(command.get_program(), DEBIAN_CARGO);
        let set = |name: &str| {
            let mut all = command.get_envs();
            all.find(|(known, _)| *known == name)
                .and_then(|(_, value)| value)
                .map(|value| value.to_string_lossy().into_owned())
        };
        let linker = set("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER");
        assert_eq!(linker.as_deref(), Some("/rust-lld"));
        assert_eq!(set("RUSTC_BOOTSTRAP").as_deref(), Some("1"));
        assert_eq!(set("CARGO_PROFILE_RELEASE_LTO").as_deref(), Some("fat"));
    }
}
