//! Log lines on standard error: time, level, code, who, message; as text, or as a JSON object a line.
//!
//! Whatever comes from outside (a guest's message, a file's name, an error of the system) can hold any character: in a text line control
//! characters are escaped and every line after the first is indented, so that nothing can pass for a line of its own. Lines never carry
//! values of records, and at most 64 bytes of a key. Warnings and guests' lines that repeat are collapsed (`repeats.rs`); guests' lines
//! are limited an operator (`limit.rs`).

mod limit;
mod line;
mod repeats;

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::clock;
use crate::diagnostic::{Diagnostic, Severity};
use limit::Limits;
pub use line::{Level, Line};
use repeats::{Repeated, Repeats};

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people: `2026-11-29T23:54:36.828Z warn  night: …`.
    #[default]
    Text,
    /// For machines: a JSON object a line.
    Json,
}

/// What every line carries, set once.
struct Settings {
    job: String,
    verbose: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static JSON: AtomicBool = AtomicBool::new(false);
static ATTEMPT: AtomicU64 = AtomicU64::new(0);
static REPLAYING: AtomicBool = AtomicBool::new(false);

/// What is held back, and for how long.
struct Held {
    repeats: Repeats,
    limits: Limits,
}

static HELD: Mutex<Held> = Mutex::new(Held {
    repeats: Repeats::new(),
    limits: Limits::new(),
});

/// Whether a line that is to be redrawn in place stands on the terminal.
static DRAWN: AtomicBool = AtomicBool::new(false);

/// Draws a line that the next one, drawn or logged, replaces.
pub fn draw(text: &str) {
    clear_line();
    // Standard error closed: nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
    let _ = std::io::stderr().flush();
    DRAWN.store(true, Ordering::Relaxed);
}

/// Takes a drawn line away, so that something else can be printed.
pub fn clear_line() {
    if DRAWN.swap(false, Ordering::Relaxed) {
        // Standard error closed: nobody to tell.
        let _ = std::io::stderr().write_all(b"\r\x1b[2K");
    }
}

/// Sets how lines look; the first thing that a run does, so that not even a refusal is in another form.
pub fn format_is(format: Format) {
    JSON.store(format == Format::Json, Ordering::Relaxed);
    if format == Format::Json {
        std::panic::set_hook(Box::new(|panic| {
            error(&format!("internal error: {panic}"));
        }));
    }
}

/// Sets what every line carries, once, at start.
pub fn start(job: &str, verbose: bool) {
    // A second start (tests in one process) keeps the first settings.
    let _ = SETTINGS.set(Settings {
        job: job.to_owned(),
        verbose,
    });
}

/// How lines look.
pub fn format() -> Format {
    if JSON.load(Ordering::Relaxed) {
        Format::Json
    } else {
        Format::Text
    }
}

/// Every line from now on is of this attempt. `replaying` says whether it goes on from a checkpoint: what it does until its first own
/// checkpoint may have been done, and logged, before.
pub fn attempt(number: u64, replaying: bool) {
    ATTEMPT.store(number, Ordering::Relaxed);
    REPLAYING.store(replaying, Ordering::Relaxed);
}

/// The attempt has committed a checkpoint: what is logged now is new.
pub fn caught_up() {
    REPLAYING.store(false, Ordering::Relaxed);
}

fn verbose() -> bool {
    SETTINGS.get().is_some_and(|set| set.verbose)
}

fn print(line: &Line, repeated: Option<Repeated>) {
    let job = SETTINGS.get().map_or("weir", |set| &set.job);
    let context = line::Context {
        at: clock::timestamp(),
        job,
        attempt: Some(ATTEMPT.load(Ordering::Relaxed)).filter(|attempt| *attempt > 0),
        replay: line.guest && REPLAYING.load(Ordering::Relaxed),
        repeated,
    };
    let text = match format() {
        Format::Text => line.to_text(&context),
        Format::Json => line.to_json(&context),
    };
    clear_line();
    // One write, so that lines of several threads do not mix. Standard error closed: nobody to tell.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn held<T>(change: impl FnOnce(&mut Held) -> T) -> T {
    change(&mut HELD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Logs a line, unless it is one too many or not asked for.
pub fn write(line: Line) {
    if line.level == Level::Debug && !verbose() {
        return;
    }
    if !line.guest && line.level < Level::Warn {
        return print(&line, None);
    }
    let now = clock::now();
    let (over, shown) = held(|held| {
        let mut over = held.repeats.over(now);
        let fresh = held.repeats.is_new(now, &line, &mut over);
        let shown = fresh && (!line.guest || held.limits.allow(now, &line));
        (over, shown)
    });
    for (line, times) in over {
        print(&line, Some(times));
    }
    if shown {
        print(&line, None);
    }
}

/// Says what was held back and has been for long enough; to be called about once a second.
pub fn tick() {
    let now = clock::now();
    let (over, dropped) = held(|held| (held.repeats.over(now), held.limits.dropped(now)));
    say_held(over, dropped);
}

/// Says all that was held back: the end of the process.
pub fn finish() {
    let now = clock::now();
    let (over, dropped) = held(|held| (held.repeats.all(now), held.limits.all()));
    say_held(over, dropped);
}

fn say_held(over: Vec<(Line, Repeated)>, dropped: Vec<(String, u64)>) {
    for (line, times) in over {
        print(&line, Some(times));
    }
    for (operator, lines) in dropped {
        let message = format!("{lines} log lines of operator `{operator}` left out");
        print(&Line::new(Level::Warn, message).operator(&operator), None);
    }
}

/// What an operator of the job wants to read in the morning.
pub fn info(message: &str) {
    write(Line::new(Level::Info, message));
}

/// What needs a look.
pub fn warn(message: &str) {
    write(Line::new(Level::Warn, message));
}

/// What ended something.
pub fn error(message: &str) {
    write(Line::new(Level::Error, message));
}

/// What only helps when looking closely.
pub fn debug(message: &str) {
    write(Line::new(Level::Debug, message));
}

/// A diagnostic that the job goes on after.
pub fn warn_of(problem: &Diagnostic) {
    write(line_of(Level::Warn, problem));
}

/// A diagnostic that ends the process, on its own way to a person: never held back, and with `--log-format json` a line like any other.
pub fn fatal(problem: &Diagnostic) {
    let level = match problem.severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warn,
    };
    print(&line_of(level, problem), None);
}

fn line_of(level: Level, problem: &Diagnostic) -> Line {
    let whole = problem.to_string();
    match format() {
        Format::Text => Line::new(level, whole),
        Format::Json => {
            let prefix = whole.find("]: ").map_or(0, |at| at + 3);
            Line::new(level, &whole[prefix..]).code(problem.code)
        }
    }
}

/// A guest's own log line, limited an operator.
pub fn guest(operator: &str, subtask: u16, level: weir_operator::Level, message: &str) {
    let level = match level {
        weir_operator::Level::Debug => Level::Debug,
        weir_operator::Level::Info => Level::Info,
        weir_operator::Level::Warn => Level::Warn,
        weir_operator::Level::Error => Level::Error,
    };
    if level == Level::Debug && !verbose() {
        return;
    }
    let line = Line::new(level, message).operator(operator);
    write(line.subtask(subtask).of_guest());
}
