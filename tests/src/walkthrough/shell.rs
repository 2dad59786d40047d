//! A shell that does one command after the other, as a person's would.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::host::HANGS;

/// A command that takes longer than this hangs; some compile.
const COMMAND_HANGS: Duration = HANGS.saturating_mul(10);

/// A bash. With it end all that it has started, in the background too, whichever of the two ends first and however it does.
#[derive(Debug)]
pub(super) struct Shell {
    bash: Child,
    stdin: ChildStdin,
    /// Lines of its standard output.
    lines: Receiver<io::Result<String>>,
    /// Where commands' output goes.
    dir: PathBuf,
    commands: usize,
}

/// What came of a command.
#[derive(Debug)]
pub(super) struct Done {
    /// Its exit code, or 128 and the signal that ended it; 0 of what runs on in the background.
    pub(super) status: i32,
    out: PathBuf,
    err: PathBuf,
}

fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Done {
    /// Standard output so far.
    pub(super) fn said(&self) -> String {
        text(&self.out)
    }

    /// Standard error so far.
    pub(super) fn log(&self) -> String {
        text(&self.err)
    }
}

impl Shell {
    /// One that begins in the folder `cwd`, and puts what commands print into files below `dir`. `configure` completes the environment.
    ///
    /// # Panics
    /// There is no bash.
    pub(super) fn start(cwd: &Path, dir: &Path, configure: impl FnOnce(&mut Command)) -> Shell {
        fs::create_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        let complaints = File::create(dir.join("bash")).expect("the folder is ours");
        let mut command = Command::new("bash");
        configure(&mut command);
        command
            .current_dir(cwd)
            // A group of its own, to be killed as a whole.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints);
        let mut bash = command.spawn().expect("there is a bash");
        let stdin = bash.stdin.take().expect("it was given a pipe");
        let stdout = bash.stdout.take().expect("it was given a pipe");
        let (sender, lines) = mpsc::channel();
        // It ends with the shell.
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines();
            lines.try_for_each(|line| sender.send(line))
        });
        let mut shell = Shell {
            bash,
            stdin,
            lines,
            dir: dir.to_owned(),
            commands: 0,
        };
        // Its input ends with the process that runs the test, however that ends.
        shell.tell("trap 'kill -KILL 0' EXIT\n");
        shell
    }

    fn tell(&mut self, lines: &str) {
        let told = self.stdin.write_all(lines.as_bytes());
        told.unwrap_or_else(|error| panic!("bash is gone: {error}; {}", self.complaints()));
    }

    fn complaints(&self) -> String {
        text(&self.dir.join("bash"))
    }

    /// Does a command and waits for its end, or only starts it, if it ends in `&`.
    ///
    /// # Panics
    /// It is no command, ends the shell, or hangs.
    pub(super) fn run(&mut self, command: &str) -> Done {
        self.commands += 1;
        let file = |kind: &str| self.dir.join(format!("{:03}-{kind}", self.commands));
        let (out, err, lock) = (file("out"), file("err"), file("lock"));
        // The status comes in a line of its own, by a way that the command does not have. The lock is held by all that the command starts.
        self.tell(&format!(
            "{{\nflock 8\n{command}\n}} </dev/null >'{}' 2>'{}' 8>'{}'\necho $?\n",
            out.display(),
            err.display(),
            lock.display()
        ));
        let status = match self.lines.recv_timeout(COMMAND_HANGS) {
            Ok(Ok(line)) => line.trim_end().parse(),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{command}: it hangs"),
            _ => panic!("{command}: the shell has ended; {}", self.complaints()),
        };
        let status = status.unwrap_or_else(|error| panic!("{command}: {error}"));
        if !command.ends_with('&') {
            // `timeout` may be gone a moment before the process that it has killed.
            let lock = File::open(&lock).expect("bash has made it");
            let is_over = || flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
            assert!(within_time(is_over), "{command}: something of it runs on");
        }
        Done { status, out, err }
    }

    /// Sets an environment variable for all commands to come.
    pub(super) fn export(&mut self, name: &str, value: &str) {
        self.tell(&format!("export {name}='{value}'\n"));
    }

    /// The folder that it is in.
    pub(super) fn cwd(&self) -> PathBuf {
        let link = format!("/proc/{}/cwd", self.bash.id());
        fs::read_link(link).expect("bash is running")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = kill_process_group(Pid::from_child(&self.bash), Signal::KILL);
        let _ = self.bash.wait();
    }
}

/// Waits until `is_so`, for as long as what takes longer hangs. Whether it is.
pub(super) fn within_time(mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + HANGS;
    loop {
        let over = Instant::now() >= until;
        if is_so() {
            return true;
        }
        if over {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> (tempfile::TempDir, Shell) {
        let dir = tempfile::tempdir().unwrap();
        let shell = Shell::start(dir.path(), &dir.path().join("output"), |_| {});
        (dir, shell)
    }

    #[test]
    fn what_a_command_changes_of_the_shell_stays() {
        let (dir, mut shell) = shell();
        fs::create_dir(dir.path().join("inner")).unwrap();
        shell.run("cd inner");
        shell.export("FIRST", "1 and");
        shell.run("export SECOND=2");
        let done = shell.run("echo $FIRST $SECOND; pwd; echo no >&2; false");
        assert_eq!(done.status, 1);
        let inner = shell.cwd();
        assert!(inner.ends_with("inner"));
        assert_eq!(done.said(), format!("1 and 2\n{}\n", inner.display()));
        assert_eq!(done.log(), "no\n");
    }

    #[test]
    fn what_runs_in_the_background_can_be_named_and_ends_with_the_shell() {
        let (_dir, mut shell) = shell();
        let done = shell.run("{ echo up; exec sleep 1000; } &");
        assert_eq!(done.status, 0);
        assert!(within_time(|| done.said() == "up\n"));
        let killed = shell.run("kill -9 %1; wait %1");
        assert_eq!(killed.status, 128 + 9);
        shell.run("sleep 1000 &");
        let pid: i32 = shell.run("echo $!").said().trim_end().parse().unwrap();
        let alive = || Path::new(&format!("/proc/{pid}/stat")).exists();
        assert!(alive());
        drop(shell);
        assert!(within_time(|| !alive()));
    }

    #[test]
    fn what_runs_in_the_background_ends_with_whoever_tells_the_shell() {
        let (_dir, mut shell) = shell();
        shell.run("sleep 1000 &");
        let pid: i32 = shell.run("echo $!").said().trim_end().parse().unwrap();
        // As when the test is killed: nobody kills the shell.
        let (_, nobody) = io::pipe().unwrap();
        shell.stdin = ChildStdin::from(std::os::fd::OwnedFd::from(nobody));
        assert!(within_time(
            || !Path::new(&format!("/proc/{pid}/stat")).exists()
        ));
    }

    #[test]
    fn a_command_is_over_when_all_of_it_is() {
        let (_dir, mut shell) = shell();
        let done = shell.run("sh -c '(sleep 0.5; echo late) & echo soon'");
        assert_eq!(done.said(), "soon\nlate\n");
    }

    #[test]
    #[should_panic(expected = "the shell has ended")]
    fn a_command_that_ends_the_shell_is_told() {
        let (_dir, mut shell) = shell();
        shell.run("exit 3");
    }
}
