//! Log lines on standard error: time, level, code, who, message.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use weir_operator::Level;

use crate::clock;

/// Guest log lines of one second that are printed; the rest are counted.
const GUEST_LINES_A_SECOND: u32 = 50;

static VERBOSE: AtomicBool = AtomicBool::new(false);
static JOB: OnceLock<String> = OnceLock::new();

/// Whether a line that is to be redrawn in place stands on the terminal.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Draws a line that the next one, drawn or logged, replaces.
pub fn draw(text: &str) {
    clear_line();
    // Standard error closed: nobody to tell.
    let _ = write!(std::io::stderr(), "{text}");
    let _ = std::io::stderr().flush();
    DRAWN.store(true, Ordering::Relaxed);
}

/// Takes a drawn line away, so that something else can be printed.
pub fn clear_line() {
    if DRAWN.swap(false, Ordering::Relaxed) {
        // Standard error closed: nobody to tell.
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }
}

/// Sets what every line carries, once, at start.
pub fn start(job: &str, verbose: bool) {
    // A second start (tests in one process) keeps the first name.
    let _ = JOB.set(job.to_owned());
    VERBOSE.store(verbose, Ordering::Relaxed);
}

fn line(level: &str, message: &str) {
    let now = clock::timestamp();
    let job = JOB.get().map_or("weir", String::as_str);
    clear_line();
    // Standard error closed: nobody to tell.
    let _ = writeln!(
        std::io::stderr().lock(),
        "{now:.3} {level:<5} {job}: {message}"
    );
}

/// What an operator of the job wants to read in the morning.
pub fn info(message: &str) {
    line("info", message);
}

/// What needs a look.
pub fn warn(message: &str) {
    line("warn", message);
}

/// What ended something.
pub fn error(message: &str) {
    line("error", message);
}

/// What only helps when looking closely.
pub fn debug(message: &str) {
    if VERBOSE.load(Ordering::Relaxed) {
        line("debug", message);
    }
}

static GUEST_SECOND: AtomicU64 = AtomicU64::new(0);
static GUEST_LINES: AtomicU32 = AtomicU32::new(0);
static GUEST_DROPPED: AtomicU64 = AtomicU64::new(0);

/// A guest's own log line, rate-limited: `who` is the operator and its subtask.
pub fn guest(who: &str, level: Level, message: &str) {
    if level == Level::Debug && !VERBOSE.load(Ordering::Relaxed) {
        return;
    }
    let second = (clock::wall_millis() / 1000) as u64;
    if GUEST_SECOND.swap(second, Ordering::Relaxed) != second {
        GUEST_LINES.store(0, Ordering::Relaxed);
        let dropped = GUEST_DROPPED.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            line("warn", &format!("{dropped} guest log lines left out"));
        }
    }
    if GUEST_LINES.fetch_add(1, Ordering::Relaxed) >= GUEST_LINES_A_SECOND {
        GUEST_DROPPED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let level = match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    };
    line(level, &format!("[{who}] {}", message.escape_debug()));
}
