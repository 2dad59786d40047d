//! The folder of one job: everything it reads, writes and says is below it.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::checkpoints::Checkpoints;
use crate::host::{Exit, Host, Process, guest};
use crate::output;

/// How a job is started.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// `--parallelism`, if not the job file's.
    pub parallelism: Option<u16>,
    /// The fault point that kills it, and at which passing.
    pub fault: Option<(String, u32)>,
    /// The fault point does not kill it but holds it, as long as this file is there.
    pub hold: Option<PathBuf>,
    /// Further arguments.
    pub args: Vec<String>,
    /// Contents of standard input; none if there are none.
    pub stdin: Option<PathBuf>,
}

impl Start {
    /// As the job file says, with further arguments.
    pub fn with(args: &[&str]) -> Start {
        Start {
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            ..Start::default()
        }
    }

    /// At another parallelism.
    pub fn at(parallelism: u16) -> Start {
        Start {
            parallelism: Some(parallelism),
            ..Start::default()
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Place {
    host: &'static Host,
    dir: PathBuf,
    starts: Cell<u32>,
    /// Removes the folder in the end, unless it is kept.
    temporary: Option<tempfile::TempDir>,
}

fn create(dir: &Path) {
    fs::create_dir_all(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
}

impl Place {
    /// A temporary folder. It stays if the test fails.
    ///
    /// # Panics
    /// There is no host to run, or no temporary folder.
    pub fn temporary() -> Place {
        let host = Host::find().unwrap_or_else(|what| panic!("{what}"));
        let temporary = tempfile::Builder::new()
            .prefix("weir-test-")
            .tempdir()
            .expect("a temporary directory");
        let mut place = Place::at(host, temporary.path().to_owned());
        place.temporary = Some(temporary);
        place
    }

    /// The folder `dir`, which is created.
    pub fn at(host: &'static Host, dir: PathBuf) -> Place {
        create(&dir.join("out"));
        create(&dir.join("in"));
        Place {
            host,
            dir,
            starts: Cell::new(0),
            temporary: None,
        }
    }

    /// The host that runs jobs here.
    pub fn host(&self) -> &'static Host {
        self.host
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path below the folder.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.join(relative)
    }

    /// The job file.
    pub fn job(&self) -> PathBuf {
        self.path("job.yaml")
    }

    /// Writes a file below the folder.
    pub fn write(&self, relative: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        create(path.parent().expect("it is below the folder"));
        fs::write(&path, contents).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// Writes the job file. `@NAME` in it stands for the path of the component NAME.
    pub fn write_job(&self, text: &str) {
        let mut whole = String::with_capacity(text.len() + 200);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('@') {
            let end = after
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(after.len());
            whole.push_str(before);
            let path = guest(&after[..end]).unwrap_or_else(|what| panic!("{what}"));
            whole.push_str(&path.display().to_string());
            rest = &after[end..];
        }
        whole.push_str(rest);
        self.write("job.yaml", whole);
    }

    /// Starts the job.
    pub fn start(&self, start: &Start) -> Process {
        let mut command = self.command();
        command
            .arg("run")
            .arg(self.job())
            .arg("--no-progress")
            .args(&start.args);
        if let Some(parallelism) = start.parallelism {
            command.arg("--parallelism").arg(parallelism.to_string());
        }
        if let Some((point, times)) = &start.fault {
            command.env("WEIR_FAULT", format!("{point}:{times}"));
        }
        if let Some(hold) = &start.hold {
            command.env("WEIR_FAULT_HOLD", hold);
        }
        if let Some(stdin) = &start.stdin {
            let file = fs::File::open(stdin)
                .unwrap_or_else(|error| panic!("{}: {error}", stdin.display()));
            command.stdin(file);
        }
        self.spawn(&mut command)
    }

    /// The binary, without arguments yet, in the folder and with an environment without surprises.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.host.weir());
        command.current_dir(&self.dir).stdin(Stdio::null());
        for variable in [
            "WEIR_FAULT",
            "WEIR_FAULT_HOLD",
            "STATE_DIRECTORY",
            "WEIR_CACHE",
            "NOTIFY_SOCKET",
        ] {
            command.env_remove(variable);
        }
        command
    }

    /// Starts a command; its log is numbered in the order of starts.
    pub fn spawn(&self, command: &mut Command) -> Process {
        let number = self.starts.get();
        self.starts.set(number + 1);
        Process::start(
            command,
            self.path(&format!("log-{number:03}")),
            self.path(&format!("stdout-{number:03}")),
        )
    }

    /// Runs the job as the file says, to its end.
    #[track_caller]
    pub fn run(&self) -> Exit {
        self.run_with(&Start::default())
    }

    /// Runs the job to its end.
    #[track_caller]
    pub fn run_with(&self, start: &Start) -> Exit {
        self.start(start).end()
    }

    /// Runs the binary with other arguments.
    #[track_caller]
    pub fn weir(&self, args: &[&str]) -> Exit {
        let mut command = self.command();
        command.args(args);
        self.spawn(&mut command).end()
    }

    /// The lines that the sink with directory `out/NAME` committed, sorted.
    pub fn committed(&self, name: &str) -> Vec<String> {
        output::committed(&self.path(&format!("out/{name}")))
    }

    /// The job's checkpoint storage, `checkpoints` in the folder.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::at(self.path("checkpoints"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(temporary) = self.temporary.take()
        {
            eprintln!("the job's folder is kept: {}", temporary.keep().display());
        }
    }
}
