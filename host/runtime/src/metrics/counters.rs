//! Counters and gauges of one node's subtask.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::batch::NO_TIME;
use crate::clock;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident, $add:ident;)*) => {
        /// What one subtask of a source, operator or sink counted since its attempt began, and how it stands now.
        #[derive(Debug)]
        pub struct Counters {
            $($field: AtomicU64,)*
            call_nanos: AtomicU64,
            /// When the call in progress began, on [`clock::nanos`]; 0 for none.
            calling_since: AtomicU64,
            watermark: AtomicI64,
            guest_memory: AtomicU64,
            state_bytes: AtomicU64,
            state_entries: AtomicU64,
            timers: AtomicU64,
        }

        impl Default for Counters {
            fn default() -> Self {
                Counters {
                    $($field: AtomicU64::new(0),)*
                    call_nanos: AtomicU64::new(0),
                    calling_since: AtomicU64::new(0),
                    watermark: AtomicI64::new(NO_TIME),
                    guest_memory: AtomicU64::new(0),
                    state_bytes: AtomicU64::new(0),
                    state_entries: AtomicU64::new(0),
                    timers: AtomicU64::new(0),
                }
            }
        }

        impl Counters {
            $(
                $(#[$doc])*
                pub fn $field(&self) -> u64 { self.$field.load(Ordering::Relaxed) }
                /// Adds to it.
                pub fn $add(&self, n: u64) {
                    if n > 0 { self.$field.fetch_add(n, Ordering::Relaxed); }
                }
            )*
        }
    };
}

counters! {
    /// Records that a source took up, those left out by policy included.
    read, add_read;
    /// Records that came in.
    records_in, add_records_in;
    /// Records that went out, dead letters aside.
    records_out, add_records_out;
    /// Bytes of keys, values and headers that came in.
    bytes_in, add_bytes_in;
    /// Bytes of keys, values and headers that went out.
    bytes_out, add_bytes_out;
    /// Records that a sink wrote.
    written, add_written;
    /// Bytes of their values, line ends included.
    written_bytes, add_written_bytes;
    /// Records that reached the first operator at or below its watermark.
    late, add_late;
    /// Input that could not be decoded, or records that an operator failed on, left out by policy.
    skipped, add_skipped;
    /// Input that could not be decoded, or records that an operator failed on, sent to a dead-letter sink.
    dead, add_dead;
    /// Records without a key that a keyed input left out by policy.
    null_keys, add_null_keys;
    /// Processing-time timers that were pending at the end of input.
    timers_dropped, add_timers_dropped;
    /// Calls of an operator: batches of records and of timers.
    calls, add_calls;
}

impl Counters {
    /// Time spent in calls: in the guest, and around it in finding keys and applying effects.
    pub fn call_time(&self) -> Duration {
        Duration::from_nanos(self.call_nanos.load(Ordering::Relaxed))
    }

    /// How long the call in progress has taken, if there is one.
    pub fn in_call_for(&self) -> Option<Duration> {
        let since = self.calling_since.load(Ordering::Relaxed);
        (since > 0).then(|| Duration::from_nanos(clock::nanos().saturating_sub(since)))
    }

    /// Runs `call`, a call of the operator, and notes how long it takes. It is not counted yet.
    pub fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let began = clock::nanos();
        self.calling_since.store(began, Ordering::Relaxed);
        let result = call();
        let took = clock::nanos().saturating_sub(began);
        self.calling_since.store(0, Ordering::Relaxed);
        self.call_nanos.fetch_add(took, Ordering::Relaxed);
        result
    }

    /// The node's watermark, [`NO_TIME`] before the first.
    pub fn watermark(&self) -> i64 {
        self.watermark.load(Ordering::Relaxed)
    }

    /// The watermark is now this.
    pub fn set_watermark(&self, watermark: i64) {
        self.watermark.store(watermark, Ordering::Relaxed);
    }

    /// Bytes of memory that the guest has.
    pub fn guest_memory(&self) -> u64 {
        self.guest_memory.load(Ordering::Relaxed)
    }

    /// What the operator holds, applied calls only.
    pub fn state(&self) -> weir_state::Stats {
        weir_state::Stats {
            entries: self.state_entries.load(Ordering::Relaxed),
            timers: self.timers.load(Ordering::Relaxed),
            bytes: self.state_bytes.load(Ordering::Relaxed),
        }
    }

    /// What the guest has and the operator holds after a call.
    pub fn set_held(&self, guest_memory: usize, state: weir_state::Stats) {
        self.guest_memory
            .store(guest_memory as u64, Ordering::Relaxed);
        self.state_entries.store(state.entries, Ordering::Relaxed);
        self.timers.store(state.timers, Ordering::Relaxed);
        self.state_bytes.store(state.bytes, Ordering::Relaxed);
    }
}
