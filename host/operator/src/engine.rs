//! The engine: compiles components and counts the time that guests' deadlines are made of.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::{Config, OptLevel, WasmBacktraceDetails};

use crate::cache::CompileCache;
use crate::component::Component;
use crate::load_error::LoadError;

/// How often the embedder calls [`Engine::tick`].
pub const TICK: Duration = Duration::from_millis(10);

/// Frames kept of a trapped guest's stack.
const BACKTRACE_FRAMES: NonZeroUsize = NonZeroUsize::new(32).expect("32 is not 0");

/// Why an engine could not be made: a fault of the machine or its build, not of any operator.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the WebAssembly engine: {0}")]
pub struct Error(String);

/// Compiles and runs components. One for a process is enough; clones share everything.
#[derive(Clone)]
pub struct Engine {
    wasmtime: wasmtime::Engine,
    clock: Clock,
    cache: Option<Arc<CompileCache>>,
}

/// Ticks since the engine was made: the clock of deadlines. wasmtime's epoch advances with it but
/// cannot be read, and imports have to check the deadline themselves, as an epoch interrupts only
/// compiled code.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn ticks(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The ticks after which at least `time` has passed: the tick under way may be almost over.
    pub(crate) fn ticks_in(time: Duration) -> u64 {
        u64::try_from(time.as_nanos().div_ceil(TICK.as_nanos()))
            .unwrap_or(u64::MAX / 2)
            .min(u64::MAX / 2)
            + 1
    }
}

impl Engine {
    /// An engine for this machine, which compiles whatever it loads.
    pub fn new() -> Result<Engine, Error> {
        let mut config = Config::new();
        config
            // With support for concurrent guests a call costs 0.9 µs more.
            .concurrency_support(false)
            .cranelift_opt_level(OptLevel::Speed)
            // The same input gives the same state on every machine.
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true)
            .epoch_interruption(true)
            .wasm_backtrace_max_frames(Some(BACKTRACE_FRAMES))
            // Whatever the environment variable says.
            .wasm_backtrace_details(WasmBacktraceDetails::Disable);
        // Memory reservation and guard pages stay at their defaults: without them bounds are
        // checked in code, and a record costs 88 ns instead of 54.
        let wasmtime =
            wasmtime::Engine::new(&config).map_err(|error| Error(format!("{error:#}")))?;
        Ok(Engine {
            wasmtime,
            clock: Clock::default(),
            cache: None,
        })
    }

    /// An engine that keeps compiled code in a directory, and takes it from there the next time. A
    /// cache that cannot be used fails no load; [`Component::cache_use`] says why it was not.
    pub fn with_cache(cache: CompileCache) -> Result<Engine, Error> {
        Ok(Engine {
            cache: Some(Arc::new(cache)),
            ..Engine::new()?
        })
    }

    /// Lets time pass for guests. The embedder calls this every [`TICK`], from any thread; a guest
    /// whose call has run longer than its [`Limits`](crate::Limits) allow is then stopped. Without
    /// ticks there are no deadlines.
    pub fn tick(&self) {
        self.clock.0.fetch_add(1, Ordering::Relaxed);
        self.wasmtime.increment_epoch();
    }

    /// Loads an operator: a component, or a core module that carries component type information
    /// (what `cargo build --target wasm32-unknown-unknown` makes of a crate with `wit-bindgen`).
    /// Checks it against the contract and compiles it, which takes from milliseconds for a small
    /// Rust operator to seconds for one that carries an interpreter, unless its code is cached.
    ///
    /// `origin` is what messages call it: the file's name.
    pub fn load(&self, bytes: &[u8], origin: &str) -> Result<Component, LoadError> {
        Component::load(self, bytes, origin)
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    pub(crate) fn cache(&self) -> Option<&CompileCache> {
        self.cache.as_deref()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Clock, TICK};

    #[test]
    fn a_deadline_is_never_short() {
        assert_eq!(Clock::ticks_in(Duration::ZERO), 1);
        assert_eq!(Clock::ticks_in(TICK), 2);
        assert_eq!(Clock::ticks_in(TICK + Duration::from_nanos(1)), 3);
        assert_eq!(Clock::ticks_in(Duration::MAX), u64::MAX / 2 + 1);
    }
}
