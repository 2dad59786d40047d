//! What a job is asked for from outside while it runs: by signals, and by verbs over the control socket.
//!
//! SIGINT and SIGTERM ask for a clean stop, another one a second or more later ends the process at once. SIGUSR1 asks for a report of
//! what every subtask does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::{clock, log};

/// From a signal to giving up on a last checkpoint. Container runtimes kill after 30 s.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(25);

/// From giving up to an end at any price: storage or an output that hangs must not outlast a container runtime's 30 s.
const PATIENCE: Duration = Duration::from_secs(3);

/// Signals so soon after the first one are the same request: `timeout` and shells signal a process and then its group.
const SAME: Duration = Duration::from_secs(1);

/// How long saying goodbye may take at a second signal.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Exit code of a stop without a checkpoint.
const STOPPED_WITHOUT_CHECKPOINT: i32 = 6;

/// Asks for a clean stop.
#[derive(Clone, Debug)]
pub struct Stopper {
    requests: mpsc::Sender<Duration>,
    asked: Arc<AtomicBool>,
}

impl Stopper {
    /// Asks the job to take a last checkpoint and end, and to end without one when it did not come about `within` this. Of several
    /// requests the most impatient one counts.
    pub fn stop(&self, within: Duration) {
        self.asked.store(true, Ordering::Relaxed);
        // The run is over already: nobody listens any more, and the process ends by itself.
        let _ = self.requests.send(within);
        let patience = within.saturating_add(PATIENCE);
        let hangs = move || {
            std::thread::sleep(patience);
            log::warn(
                "stopped without a last checkpoint: something did not come to an end in time; the next run resumes at the last one",
            );
            end_at_once()
        };
        // Without a thread the run still keeps to its own time.
        drop(
            std::thread::Builder::new()
                .name("patience".into())
                .spawn(hangs),
        );
    }
}

/// Requests to a run.
#[derive(Debug)]
pub struct Requests {
    /// Each asks for a stop within a time; see [`Stopper::stop`].
    pub stop: mpsc::Receiver<Duration>,
    /// Asks for one.
    pub stopper: Stopper,
    /// Whether one was asked for: for whoever waits where nobody can take a request.
    pub asked: Arc<AtomicBool>,
    /// Each asks for a report in the log.
    pub report: mpsc::Receiver<()>,
    /// Asks for one; kept so that the channel stays open where no signals are listened for.
    reporter: mpsc::Sender<()>,
}

impl Default for Requests {
    fn default() -> Self {
        let ((requests, stop), (reporter, report)) = (mpsc::channel(), mpsc::channel());
        let asked = Arc::new(AtomicBool::new(false));
        Requests {
            stop,
            stopper: Stopper {
                requests,
                asked: asked.clone(),
            },
            asked,
            report,
            reporter,
        }
    }
}

fn end_at_once() -> ! {
    log::finish();
    std::process::exit(STOPPED_WITHOUT_CHECKPOINT)
}

/// Starts listening for signals, once a process.
///
/// # Errors
/// The system refuses to install a handler.
pub fn listen() -> std::io::Result<Requests> {
    let requests = Requests::default();
    let (stopper, reporter) = (requests.stopper.clone(), requests.reporter.clone());
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    let listener = std::thread::Builder::new().name("signals".into());
    listener.spawn(move || {
        let mut asked: Option<Instant> = None;
        for signal in signals.forever() {
            let now = clock::now();
            match asked {
                _ if signal == SIGUSR1 => {
                    // The run is over already.
                    let _ = reporter.send(());
                }
                None => {
                    asked = Some(now);
                    stopper.stop(STOP_TIMEOUT);
                }
                Some(first) if now.saturating_duration_since(first) < SAME => {}
                Some(_) => {
                    // A log that nobody reads any more must not keep it.
                    drop(std::thread::Builder::new().spawn(|| {
                        std::thread::sleep(AT_ONCE);
                        std::process::exit(STOPPED_WITHOUT_CHECKPOINT)
                    }));
                    log::warn("stopped at once by a second signal, without a last checkpoint; the next run resumes at the last one");
                    end_at_once();
                }
            }
        }
    })?;
    Ok(requests)
}
