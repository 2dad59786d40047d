//! The only place that reads a clock. Everything else takes time as an argument or asks here.

mod processing;

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use processing::{ProcessingClock, Reading, TOLERANCE};

/// The wall clock in milliseconds since the epoch. Operators go by [`ProcessingClock`].
pub fn wall_millis() -> i64 {
    let wall = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)
        }
    };
    #[cfg(feature = "fault-points")]
    let wall = wall.saturating_add(shift());
    wall
}

/// What tests add to the wall clock: milliseconds, in the file that `WEIR_CLOCK_SHIFT` names.
#[cfg(feature = "fault-points")]
fn shift() -> i64 {
    static FILE: OnceLock<Option<std::ffi::OsString>> = OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("WEIR_CLOCK_SHIFT"));
    let text = file
        .as_ref()
        .and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The monotonic clock: intervals, timeouts and backoffs go by it.
pub fn now() -> Instant {
    Instant::now()
}

/// Processor time that the calling thread has used; zero where the kernel does not tell.
pub fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// The monotonic clock in nanoseconds since its first reading by this process, and never 0: for what is kept in an atomic.
pub fn nanos() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let now = now();
    let since = now.saturating_duration_since(*FIRST.get_or_init(|| now));
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// The wall clock as log lines write it.
pub fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
