//! What the person on call sees and says: the control socket with `weir status` and `weir stop`, `/metrics` and the probes, the service
//! manager's watchdog, the report on SIGUSR1.
//!
//! ```text
//!  run loop ──writes──► Board ◄──reads── status ◄── socket (`weir status`, `weir stop`)
//!  tasks ────write────► Meters ◄─reads──┘   ▲ ◄──── http (`/metrics`, `/livez`, `/readyz`)
//!                                           └────── monitor, once a second (rates, watchdog, report)
//! ```
//!
//! Nothing here is waited for by the run: what it writes are atomics and a few words under a lock, and whoever reads does so on a thread
//! of its own.

pub mod board;
mod bottleneck;
mod disk;
mod exposition;
mod history;
mod http;
mod monitor;
mod notify;
mod protocol;
mod serve;
mod socket;
pub mod status;

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

pub use board::Board;
pub(crate) use monitor::doing;
pub use protocol::{Answer, Ended, Request};
pub use socket::{NAME, Unreachable, ask};
pub use status::Status;

use crate::diagnostic::{Diagnostic, ExitCode};
use crate::log;
use crate::signals::Stopper;
use disk::Disks;
use history::History;
use http::Http;
use monitor::Monitor;
use notify::Notify;
use socket::Socket;

/// Everything that can be shown of a run.
#[derive(Debug)]
struct Shown {
    board: Arc<Board>,
    history: History,
    disks: Arc<Disks>,
}

impl Shown {
    #[cfg(test)]
    fn new(job: &str) -> Shown {
        Shown {
            board: Arc::new(Board::new(job)),
            history: History::default(),
            disks: Arc::default(),
        }
    }

    fn status(&self) -> Status {
        status::look(&self.board, &self.history, &self.disks)
    }

    /// Remembers the counters as they are.
    fn note(&self) {
        if let Some(meters) = self.board.facts().meters {
            self.history.note(&meters);
        }
    }
}

/// Where a run is shown, and what it is asked for.
#[derive(Debug)]
pub struct Place<'a> {
    /// The job's data directory, if its lock is held: then a control socket is made there.
    pub data_dir: Option<&'a Path>,
    /// Where checkpoints go, if they are taken.
    pub checkpoint_dir: Option<PathBuf>,
    /// Where metrics and probes are served, if they are.
    pub metrics: Option<SocketAddr>,
}

/// A run on display. Dropping it takes everything down again.
pub struct Control {
    board: Arc<Board>,
    notify: Arc<Notify>,
    socket: Option<Socket>,
    _http: Option<Http>,
    _monitor: Monitor,
}

impl Control {
    /// Puts a run of `job` on display at `place`. A stop asked for there goes to `stopper`; a message on `report` asks for a report.
    ///
    /// # Errors
    /// The address of the metrics cannot be listened at, or the system refuses a thread. A control socket that cannot be made is warned
    /// about and done without: the job is worth more than talk about it.
    pub fn open(
        job: &str,
        place: Place<'_>,
        stopper: &Stopper,
        report: mpsc::Receiver<()>,
    ) -> Result<Control, (Box<Diagnostic>, ExitCode)> {
        let internal = |error: io::Error| {
            let title = format!("cannot start a thread: {error}");
            (
                Box::new(Diagnostic::error("W0301", title)),
                ExitCode::Internal,
            )
        };
        let mut dirs = Vec::new();
        dirs.extend(place.data_dir.map(|dir| ("data", dir.to_owned())));
        dirs.extend(place.checkpoint_dir.map(|dir| ("checkpoints", dir)));
        let board = Arc::new(Board::new(job));
        let shown = Arc::new(Shown {
            board: board.clone(),
            history: History::default(),
            disks: Disks::watch(dirs).map_err(internal)?,
        });
        let http = match place.metrics {
            None => None,
            Some(address) => Some(listen(address, &shown)?),
        };
        let socket = place.data_dir.and_then(|dir| {
            let opened = Socket::open(dir, &shown, stopper);
            opened.inspect_err(|error| warn_of_socket(dir, error)).ok()
        });
        let notify = Arc::new(Notify::from_environment());
        let monitor = Monitor::start(shown, report, notify.clone()).map_err(internal)?;
        Ok(Control {
            board,
            notify,
            socket,
            _http: http,
            _monitor: monitor,
        })
    }

    /// Where the run says how it stands.
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// The run is over: takes everything down. Whoever waits for the end is told by [`Farewell::say`], when the job may be run again.
    pub fn end(self, code: ExitCode, message: &str) -> Farewell {
        self.board.stage(board::Stage::Ended);
        // A job that had nothing left to do was never ready, and did not fail.
        self.notify.say(if code == ExitCode::Done {
            "READY=1\nSTOPPING=1"
        } else {
            "STOPPING=1"
        });
        let ended = Ended {
            code: code.code(),
            message: message.to_owned(),
        };
        let clients = self.socket.as_ref().map(|socket| socket.end(&ended));
        Farewell {
            clients: clients.unwrap_or_default(),
            ended,
        }
    }
}

/// Clients that wait for the end of a run, and how it was.
pub struct Farewell {
    clients: Vec<UnixStream>,
    ended: Ended,
}

impl Farewell {
    /// Tells them.
    pub fn say(self) {
        socket::tell(self.clients, &self.ended);
    }
}

fn listen(address: SocketAddr, shown: &Arc<Shown>) -> Result<Http, (Box<Diagnostic>, ExitCode)> {
    let http = Http::listen(address, shown).map_err(|error| {
        let title = format!("cannot serve metrics at {address}: {error}");
        let problem = Diagnostic::error("W0306", title)
            .help("name another address with `metrics:` in the job file or `--metrics`; port 0 takes any that is free");
        // Whoever has it may let go of it.
        let code = if error.kind() == io::ErrorKind::AddrInUse {
            ExitCode::DependencyUnavailable
        } else {
            ExitCode::StartRefused
        };
        (Box::new(problem), code)
    })?;
    log::info(&format!("metrics at http://{}/metrics", http.address));
    Ok(http)
}

fn warn_of_socket(dir: &Path, error: &io::Error) {
    let path = dir.join(NAME);
    let title = format!(
        "no control socket, so `weir status` and `weir stop` do not reach this run: {}: {error}",
        path.display()
    );
    let line = log::Line::new(log::Level::Warn, title);
    log::write(line.code("W0305"));
}
