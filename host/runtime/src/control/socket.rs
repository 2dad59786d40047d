//! The control socket: where it is, how it gets there, and both ends of a conversation over it.
//!
//! `control.sock` in the job's data directory, for the job's user alone. Whoever makes it holds the lock of that directory, so what is
//! there already is left over from a process that was killed.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Shown;
use super::protocol::{Answer, Ended, MAX_ANSWER, MAX_REQUEST, Request};
use super::serve::{Server, Timed, read_until};
use crate::signals::Stopper;

/// The socket's name in the data directory.
pub const NAME: &str = "control.sock";

/// A folder that nobody else can enter: the socket is made in it and moved out when its mode is right.
const NURSERY: &str = ".control";

/// Longest path that a socket's address holds.
const MAX_PATH: usize = 107;

/// Clients that may wait for the end of the job.
const MAX_WAITING: usize = 64;

/// How long each of them may take to read its answer.
const FAREWELL: Duration = Duration::from_millis(500);

/// How long a client waits for a connection, and for an answer that is there at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `act` with a path to `name` in `dir` that fits an address, however long the real one is.
fn with_short_path<T>(
    dir: &Path,
    name: &str,
    act: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let path = dir.join(name);
    if path.as_os_str().as_bytes().len() <= MAX_PATH {
        return act(&path);
    }
    let open = File::open(dir)?;
    act(&PathBuf::from(format!(
        "/proc/self/fd/{}/{name}",
        open.as_raw_fd()
    )))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Clients that wait for the end, or how it was.
#[derive(Debug)]
enum Waiting {
    For(Vec<UnixStream>),
    Over(Ended),
}

/// The job's end of the socket. Dropping it removes the socket.
pub(super) struct Socket {
    dir: PathBuf,
    waiting: Arc<Mutex<Waiting>>,
    _server: Server,
}

impl Socket {
    /// Makes the socket in `dir`, whose lock the caller holds, and answers there.
    ///
    /// # Errors
    /// The file system refuses it, or the system a thread.
    pub(super) fn open(dir: &Path, shown: &Arc<Shown>, stopper: &Stopper) -> io::Result<Socket> {
        let nursery = dir.join(NURSERY);
        match fs::remove_dir_all(&nursery) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => DirBuilder::new().mode(0o700).create(&nursery)?,
        }
        let listener = with_short_path(&nursery, NAME, |path| UnixListener::bind(path))?;
        let made = nursery.join(NAME);
        fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        fs::rename(&made, dir.join(NAME))?;
        fs::remove_dir(&nursery)?;
        let waiting = Arc::new(Mutex::new(Waiting::For(Vec::new())));
        let (clients, shown, stopper) = (waiting.clone(), shown.clone(), stopper.clone());
        let server = Server::start("control", listener, move |stream| {
            converse(stream, &shown, &stopper, &clients);
        });
        let server = server.inspect_err(|_| drop(remove(&dir.join(NAME))))?;
        Ok(Socket {
            dir: dir.to_owned(),
            waiting,
            _server: server,
        })
    }

    /// The job has ended so: whoever asks from now on is told at once. Returns who waits for it.
    pub(super) fn end(&self, ended: &Ended) -> Vec<UnixStream> {
        match std::mem::replace(&mut *lock(&self.waiting), Waiting::Over(ended.clone())) {
            Waiting::For(clients) => clients,
            Waiting::Over(_) => Vec::new(),
        }
    }
}

/// Tells `clients` how the job ended.
pub(super) fn tell(clients: Vec<UnixStream>, ended: &Ended) {
    let line = Answer::Ended(ended.clone()).encode();
    for client in clients {
        // It may have gone.
        let _ = Timed::new(client, FAREWELL).write_all(&line);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The next run removes it as well.
        let _ = remove(&self.dir.join(NAME));
    }
}

fn lock(waiting: &Mutex<Waiting>) -> std::sync::MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn converse(
    mut stream: Timed<UnixStream>,
    shown: &Shown,
    stopper: &Stopper,
    waiting: &Mutex<Waiting>,
) {
    let Ok(read) = read_until(&mut stream, MAX_REQUEST, |all| all.contains(&b'\n')) else {
        return;
    };
    let answer = match Request::decode(&read) {
        Err(refusal) => refusal,
        Ok(Request::Status) => Answer::Status(Box::new(shown.status())),
        Ok(Request::Stop { within_ms }) => match enrol(waiting, stream) {
            Ok(()) => {
                crate::log::info("a stop was asked for over the control socket");
                return stopper.stop(Duration::from_millis(within_ms));
            }
            Err((back, answer)) => {
                stream = back;
                answer
            }
        },
    };
    // It may have gone.
    let _ = stream.write_all(&answer.encode());
}

/// Puts a client among those that wait for the end, or says why it need not or may not.
fn enrol(
    waiting: &Mutex<Waiting>,
    client: Timed<UnixStream>,
) -> Result<(), (Timed<UnixStream>, Answer)> {
    match &mut *lock(waiting) {
        Waiting::Over(ended) => Err((client, Answer::Ended(ended.clone()))),
        Waiting::For(clients) if clients.len() >= MAX_WAITING => {
            let why = format!("{MAX_WAITING} others wait for the job's end already");
            Err((client, Answer::refuse(why)))
        }
        Waiting::For(clients) => {
            clients.push(client.into_inner());
            Ok(())
        }
    }
}

/// Why a job could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// No job runs with this data directory.
    #[error("no job runs with the data directory {}", dir.display())]
    NotRunning {
        /// The directory.
        dir: PathBuf,
    },
    /// The socket cannot be used.
    #[error("cannot connect to {}: {error}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The job's process ended without an answer.
    #[error("the job's process ended without an answer")]
    Gone,
    /// It is there and says nothing for so long.
    #[error("the job's process (data directory {}) did not answer within {seconds} s", dir.display())]
    Late {
        /// The directory.
        dir: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// It is there and says something else.
    #[error("the job does not answer: {0}")]
    Silent(String),
}

/// Asks the job of the data directory `dir`, and waits `patience` longer than an answer usually takes.
///
/// # Errors
/// See [`Unreachable`].
pub fn ask(dir: &Path, request: Request, patience: Duration) -> Result<Answer, Unreachable> {
    let patience = patience.saturating_add(PATIENCE);
    let mut stream = Timed::new(connect(dir)?, patience);
    let silent = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Unreachable::Late {
            dir: dir.to_owned(),
            seconds: patience.as_secs(),
        },
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Unreachable::Gone,
        _ => Unreachable::Silent(error.to_string()),
    };
    stream.write_all(&request.encode()).map_err(silent)?;
    let complete = |all: &[u8]| all.last() == Some(&b'\n');
    let read = read_until(&mut stream, MAX_ANSWER, complete).map_err(silent)?;
    if read.is_empty() {
        return Err(Unreachable::Gone);
    }
    Answer::decode(&read).map_err(Unreachable::Silent)
}

/// Connects; a process that stands still and has its queue full would keep us for ever, so another thread does.
fn connect(dir: &Path) -> Result<UnixStream, Unreachable> {
    let path = dir.join(NAME);
    let (sender, receiver) = mpsc::channel();
    let at = dir.to_owned();
    std::thread::spawn(move || {
        let connected = with_short_path(&at, NAME, |path| UnixStream::connect(path));
        // Nobody waits any more.
        let _ = sender.send(connected);
    });
    let connected = receiver
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::NotADirectory => Unreachable::NotRunning {
            dir: dir.to_owned(),
        },
        _ => Unreachable::Refused { path, error },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::Requests;

    fn status_of(dir: &Path) -> String {
        match ask(dir, Request::Status, Duration::ZERO) {
            Ok(Answer::Status(status)) => status.job,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_socket_is_private_replaces_a_stale_one_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (shown, requests) = (Arc::new(Shown::new("j")), Requests::default());
        drop(UnixListener::bind(dir.path().join(NAME)).expect("a stale socket"));
        fs::create_dir(dir.path().join(NURSERY)).expect("a stale folder");
        assert!(matches!(
            ask(dir.path(), Request::Status, Duration::ZERO),
            Err(Unreachable::NotRunning { .. })
        ));
        let socket = Socket::open(dir.path(), &shown, &requests.stopper).expect("opens");
        let mode = fs::metadata(dir.path().join(NAME))
            .expect("there")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert_eq!(status_of(dir.path()), "j");
        drop(socket);
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0);
        assert!(matches!(
            ask(dir.path(), Request::Status, Duration::ZERO),
            Err(Unreachable::NotRunning { .. })
        ));
    }

    #[test]
    fn a_path_that_no_address_holds_is_reached_all_the_same() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let deep = dir.path().join("d".repeat(90)).join("e".repeat(90));
        fs::create_dir_all(&deep).expect("created");
        let (shown, requests) = (Arc::new(Shown::new("deep")), Requests::default());
        let _socket = Socket::open(&deep, &shown, &requests.stopper).expect("opens");
        assert_eq!(status_of(&deep), "deep");
    }

    #[test]
    fn stop_is_passed_on_and_answered_at_the_end_to_all_who_wait_and_to_who_comes_too_late() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (shown, requests) = (Arc::new(Shown::new("j")), Requests::default());
        let socket = Socket::open(dir.path(), &shown, &requests.stopper).expect("opens");
        let stop = Request::Stop { within_ms: 600_000 };
        let wait = Duration::from_secs(60);
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let dir = dir.path().to_owned();
                std::thread::spawn(move || ask(&dir, stop, wait))
            })
            .collect();
        for _ in 0..2 {
            let within = requests.stop.recv_timeout(wait).expect("asked");
            assert_eq!(within, Duration::from_secs(600));
        }
        // Somebody who goes away again hurts nobody.
        drop(connect(dir.path()).expect("connects"));
        let ended = Ended {
            code: 0,
            message: "stopped".into(),
        };
        tell(socket.end(&ended), &ended);
        for client in clients {
            let answer = client.join().expect("no panic").expect("an answer");
            assert!(matches!(answer, Answer::Ended(there) if there == ended));
        }
        let late = ask(dir.path(), stop, wait).expect("an answer");
        assert!(matches!(late, Answer::Ended(there) if there == ended));
    }
}
