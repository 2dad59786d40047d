//! What a guest may use up, and the accounting of its memory.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// What one instance may use up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory, all memories together. 512 MiB unless set.
    pub memory_bytes: usize,
    /// Time a call may take, as [`Engine::tick`](crate::Engine::tick) counts it. 30 s unless set.
    pub call_time: Duration,
    /// Bytes of keys, values and headers that a call may emit, and apart from that the bytes it may
    /// write to state, timers and rejects; each row, header, cell and timer counts for 16 bytes more.
    /// What output rows inherit from their origins counts. 64 MiB unless set.
    pub output_bytes: usize,
    /// Bytes of a single key, value, item, name, namespace or header's contents. 64 MiB unless set.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory_bytes: 512 << 20,
            call_time: Duration::from_secs(30),
            output_bytes: 64 << 20,
            value_bytes: 64 << 20,
        }
    }
}

/// What a row, header, cell or timer counts for in [`Limits::output_bytes`] beside its bytes: without it,
/// empty rows were free.
pub(crate) const ROW_BYTES: u64 = 16;

/// Elements a table may have; each takes 8 to 16 bytes of the host's memory. Large Rust and Go
/// programs have some 10,000.
const TABLE_ELEMENTS: usize = 1 << 20;

/// Core instances, memories and tables an operator may have. Components of interpreted languages
/// have about ten.
const PARTS: usize = 100;

impl Limits {
    /// Bytes that a guest may hand over in one import, for wasmtime to copy. Twice what the exact
    /// checks let through at the most, since a row's offsets, index and times, and a header's
    /// offsets, come to less than twice [`ROW_BYTES`].
    pub(crate) fn import_bytes(&self) -> usize {
        self.output_bytes
            .max(self.value_bytes)
            .saturating_mul(2)
            .saturating_add(1 << 16)
    }
}

/// Counts an instance's memory and refuses growth beyond the limit.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: usize,
    used: usize,
    refused: Option<usize>,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Memory {
            limit,
            used: 0,
            refused: None,
        }
    }

    /// Bytes of all linear memories.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The size that was refused since this was last asked.
    pub(crate) fn take_refused(&mut self) -> Option<usize> {
        self.refused.take()
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        // Memory that the operating system then fails to supply stays counted: wasmtime reports
        // that failure in the same way as others that were never counted, and a guest could make
        // use of a wrong subtraction.
        let asked = self.used.saturating_add(desired.saturating_sub(current));
        if asked > self.limit {
            self.refused = Some(asked);
            return Ok(false);
        }
        self.used = asked;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS)
    }

    fn instances(&self) -> usize {
        PARTS
    }

    fn memories(&self) -> usize {
        PARTS
    }

    fn tables(&self) -> usize {
        PARTS
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::ResourceLimiter;

    use super::Memory;

    #[test]
    fn memories_are_counted_together_and_refusals_are_not() {
        let mut memory = Memory::new(100);
        assert!(memory.memory_growing(0, 60, None).unwrap());
        assert!(memory.memory_growing(0, 30, Some(30)).unwrap());
        assert!(!memory.memory_growing(30, 31, Some(30)).unwrap());
        assert_eq!(memory.take_refused(), None);
        assert!(!memory.memory_growing(60, 80, None).unwrap());
        assert_eq!(memory.take_refused(), Some(110));
        assert!(memory.memory_growing(60, 70, None).unwrap());
        assert_eq!((memory.used(), memory.take_refused()), (100, None));
    }
}
