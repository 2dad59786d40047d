//! The host under test: the binary, the components, and processes of it.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often a process or its log is looked at.
const POLL: Duration = Duration::from_millis(2);

/// A process that takes longer than this hangs.
pub const HANGS: Duration = Duration::from_secs(120);

/// The binary and the components that tests run.
#[derive(Debug)]
pub struct Host {
    weir: PathBuf,
}

impl Host {
    /// `weir` beside the running executable, unless `WEIR_BIN` names another.
    ///
    /// # Errors
    /// It is missing or knows no fault points, or there are no components. Says what to do.
    pub fn find() -> Result<&'static Host, String> {
        static HOST: OnceLock<Result<Host, String>> = OnceLock::new();
        HOST.get_or_init(Host::look).as_ref().map_err(String::clone)
    }

    fn look() -> Result<Host, String> {
        let weir = match named("WEIR_BIN") {
            Some(weir) => weir,
            None => beside_this_executable()
                .map_err(|error| format!("where is this executable? {error}"))?,
        };
        let host = Host { weir };
        guest("weir_guest_ledger")?;
        host.check_fault_points()?;
        Ok(host)
    }

    /// A binary without fault points would let every test of them pass without testing anything.
    fn check_fault_points(&self) -> Result<(), String> {
        let build = "build it with `cargo build --release -p weir --features weir/fault-points`";
        let dir =
            tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
        let job = dir.path().join("job.yaml");
        let text = "version: 1\njob: fault-points\ncheckpoint: {}\n\
            sources: {one: {generator: {records: 1}}}\nsinks: {none: {input: one, blackhole: {}}}\n";
        fs::write(&job, text).map_err(|error| format!("{}: {error}", job.display()))?;
        let output = Command::new(&self.weir)
            .arg("run")
            .arg(&job)
            .env("WEIR_FAULT", "nowhere")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot run {}: {error}; {build}", self.weir.display()))?;
        let log = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && log.contains("WEIR_FAULT=nowhere names no fault point") {
            return Ok(());
        }
        let weir = self.weir.display();
        Err(format!(
            "{weir} knows no fault points ({}); {build}. It said:\n{log}",
            output.status
        ))
    }

    /// The binary.
    pub fn weir(&self) -> &Path {
        &self.weir
    }
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The file of a component, by the name of its crate with underscores: in `target/guests` of the repository, unless
/// `WEIR_GUESTS` names another folder.
///
/// # Errors
/// It has not been built.
pub fn guest(name: &str) -> Result<PathBuf, String> {
    let dir = named("WEIR_GUESTS")
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/guests"));
    let path = dir.join(format!("{name}.wasm"));
    if path.is_file() {
        Ok(path)
    } else {
        let foreign = name.ends_with("_python") || name.ends_with("_javascript");
        let target = if foreign { "foreign-guests" } else { "guests" };
        Err(format!("no {}: run `make {target}` first", path.display()))
    }
}

fn beside_this_executable() -> io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let mut dir = this.parent().unwrap_or(Path::new("."));
    // Tests lie one folder deeper than binaries.
    if dir.ends_with("deps") {
        dir = dir.parent().unwrap_or(dir);
    }
    Ok(dir.join("weir"))
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Exit {
    status: ExitStatus,
    /// What it wrote to standard error.
    pub log: String,
    /// What it wrote to standard output.
    pub out: Vec<u8>,
}

impl Exit {
    /// The exit code, if it ended by itself.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Whether SIGKILL ended it.
    pub fn killed(&self) -> bool {
        self.status.signal() == Some(Signal::KILL.as_raw())
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Checks the exit code and that the log contains each of `said`.
    ///
    /// # Panics
    /// Otherwise, with the whole log.
    #[track_caller]
    pub fn expect(&self, code: i32, said: &[&str]) {
        assert_eq!(
            self.code(),
            Some(code),
            "{} instead of exit code {code}; log:\n{}",
            self.status,
            self.log
        );
        for text in said {
            assert!(
                self.log.contains(text),
                "the log does not say `{text}`:\n{}",
                self.log
            );
        }
    }
}

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    out: PathBuf,
    exit: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`, its standard error to the file `log`, its standard output to the file `out`.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(command: &mut Command, log: PathBuf, out: PathBuf) -> Process {
        let file = |path: &Path| {
            File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let child = command.stderr(file(&log)).stdout(file(&out)).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Process {
            child,
            log,
            out,
            exit: None,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Standard input, the first time, if it was given a pipe.
    pub fn stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// Sends it a signal. One that is over gets none.
    pub fn signal(&mut self, signal: Signal) {
        // Its id is its own until it has been waited for.
        if self.exit().is_none() {
            kill_process(self.pid(), signal).expect("a child may be sent signals");
        }
    }

    /// What it has written to standard error so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn exit(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none() {
            self.exit = self.child.try_wait().expect("a child can be waited for");
        }
        self.exit
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.exit().is_none()
    }

    /// Waits until the log contains `text` at least `times` times, the process ends, or `timeout` is over. Whether the log does.
    pub fn says(&mut self, text: &str, times: usize, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        loop {
            let over = !self.is_running() || Instant::now() >= until;
            if self.log().matches(text).count() >= times {
                return true;
            }
            if over {
                return false;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits for its end, for `timeout` at most. `None` if it is still running.
    pub fn within(&mut self, timeout: Duration) -> Option<Exit> {
        let until = Instant::now() + timeout;
        while self.is_running() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::sleep(POLL.min(left));
        }
        let out = fs::read(&self.out).unwrap_or_default();
        self.exit.map(|status| Exit {
            status,
            log: self.log(),
            out,
        })
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It hangs; with its log.
    #[track_caller]
    pub fn end(&mut self) -> Exit {
        match self.within(HANGS) {
            Some(exit) => exit,
            None => panic!(
                "still running after {} s; log:\n{}",
                HANGS.as_secs(),
                self.log()
            ),
        }
    }

    /// Kills it with SIGKILL and waits for it.
    #[track_caller]
    pub fn kill(&mut self) -> Exit {
        self.signal(Signal::KILL);
        self.end()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // It may have ended by now; then there is nothing to do.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
