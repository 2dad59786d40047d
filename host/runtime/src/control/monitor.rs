//! The thread that looks at a run once a second: remembers counters for rates, tells the service manager, says what the log held back,
//! and reports on request.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Shown;
use super::board::Stage;
use super::notify::Notify;
use super::status::{Status, Task};
use crate::{clock, log};

/// How often it looks.
const TICK: Duration = Duration::from_secs(1);

/// The thread, until it is dropped.
pub(super) struct Monitor {
    /// Closing it ends the thread.
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts it. Each message on `report` asks for a report in the log.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn start(
        shown: Arc<Shown>,
        report: mpsc::Receiver<()>,
        notify: Arc<Notify>,
    ) -> std::io::Result<Monitor> {
        let (end, ended) = mpsc::channel();
        let mut service = Service::new(notify);
        let tick = service.tick();
        let thread = std::thread::Builder::new()
            .name("monitor".into())
            .spawn(move || {
                while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                    shown.note();
                    service.look(&shown);
                    log::tick();
                    // Asked several times in a tick: one report answers them.
                    if report.try_iter().count() > 0 {
                        for line in lines(&shown.status()) {
                            log::info(&line);
                        }
                    }
                }
            })?;
        Ok(Monitor {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It cannot panic; and if it did, it is over.
            let _ = thread.join();
        }
    }
}

/// What the service manager was told.
struct Service {
    notify: Arc<Notify>,
    ready: bool,
    stopping: bool,
    status: String,
    fed: Instant,
}

impl Service {
    fn new(notify: Arc<Notify>) -> Service {
        Service {
            notify,
            ready: false,
            stopping: false,
            status: String::new(),
            fed: clock::now(),
        }
    }

    /// The service manager may want to hear from us more often than we look.
    fn tick(&self) -> Duration {
        let watchdog = self.notify.watchdog.map(|watchdog| watchdog / 4);
        watchdog.map_or(TICK, |watchdog| {
            watchdog.clamp(Duration::from_millis(1), TICK)
        })
    }

    fn look(&mut self, shown: &Shown) {
        let facts = shown.board.facts();
        if !self.ready && shown.board.ready().is_ok() {
            self.ready = true;
            self.notify.say("READY=1");
        }
        if !self.stopping && facts.stage == Stage::Stopping {
            self.stopping = true;
            self.notify.say("STOPPING=1");
        }
        let checkpoint = facts.committed.map_or(String::new(), |committed| {
            format!(", checkpoint {}", committed.n)
        });
        let status = format!("STATUS={}{checkpoint}", facts.state());
        if status != self.status {
            self.notify.say(&status);
            self.status = status;
        }
        if let Some(watchdog) = self.notify.watchdog
            && self.fed.elapsed() >= watchdog / 4
            && shown.board.alive().is_ok()
        {
            self.fed = clock::now();
            self.notify.say("WATCHDOG=1");
        }
    }
}

/// What every task does, a line each, after one about the job.
fn lines(status: &Status) -> Vec<String> {
    let mut first = format!("report: {}", status.state);
    if let Some(checkpoint) = &status.checkpoint {
        match &checkpoint.in_flight {
            Some(flight) => {
                let _ = write!(first, "; checkpoint {} {}", flight.n, flight.doing);
                if !flight.waits_for.is_empty() {
                    let _ = write!(first, ": {}", flight.waits_for.join(", "));
                }
            }
            None => first.push_str("; no checkpoint is being taken"),
        }
    }
    if let Some(bottleneck) = &status.bottleneck {
        let _ = write!(
            first,
            "; bottleneck: {}, {}",
            bottleneck.task, bottleneck.why
        );
    }
    let tasks = status.tasks.iter().map(task);
    std::iter::once(first).chain(tasks).collect()
}

fn task(task: &Task) -> String {
    let mut line = format!("report: {} {}", task.name, doing(task));
    if let Some(seconds) = task.doing_seconds {
        let _ = write!(line, " for {seconds:.1} s");
    }
    let _ = write!(
        line,
        "; {} bytes queued; passed barrier {}",
        task.queued_bytes, task.passed
    );
    for node in &task.nodes {
        let _ = write!(
            line,
            "; {}: {} in, {} out",
            node.id, node.records_in, node.records_out
        );
    }
    line
}

/// What a task does, in words that follow its name.
pub(crate) fn doing(task: &Task) -> String {
    match task.doing.as_str() {
        "starting" => "loads its state".to_owned(),
        "ended" => "has ended".to_owned(),
        "calling" => "is in a call".to_owned(),
        // A source has no channels.
        "waits-for-input" if task.channels == 0 => "waits for input, or its rate".to_owned(),
        "waits-for-input" => "waits for input".to_owned(),
        "waits-for-room" => match &task.waits_for {
            Some(other) => format!("waits for room at {other}"),
            None => "waits for room downstream".to_owned(),
        },
        "waits-for-destination" => "waits for what it writes to".to_owned(),
        "aligning" => format!(
            "waits for a barrier ({} of {} channels have delivered it)",
            task.channels_aligned, task.channels
        ),
        _ => "works".to_owned(),
    }
}
