//! SIGINT and SIGTERM: the first asks for a clean stop, the second ends the process at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

static ASKED: AtomicBool = AtomicBool::new(false);
static TOLD: OnceLock<()> = OnceLock::new();

/// From the first signal to an end at any price: storage or an output that hangs must not outlast a container runtime's 30 s.
const PATIENCE: Duration = Duration::from_secs(28);

/// Exit code of a stop without a checkpoint.
const STOPPED_WITHOUT_CHECKPOINT: i32 = 6;

/// Starts listening, once a process. The receiver gets one message at the first signal.
///
/// # Errors
/// The system refuses to install a handler.
pub fn listen() -> std::io::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if ASKED.swap(true, Ordering::SeqCst) {
                if TOLD.set(()).is_ok() {
                    crate::log::warn("stopped at once by a second signal, without a last checkpoint; the next run resumes at the last one");
                }
                std::process::exit(STOPPED_WITHOUT_CHECKPOINT);
            }
            // The run is over already: nobody listens any more, and the process ends by itself.
            let _ = sender.send(());
            std::thread::spawn(|| {
                std::thread::sleep(PATIENCE);
                crate::log::warn("stopped without a last checkpoint: something did not come to an end in time; the next run resumes at the last one");
                std::process::exit(STOPPED_WITHOUT_CHECKPOINT);
            });
        }
    })?;
    Ok(receiver)
}
