//! What a keyed count is without a host: one thread, the same generator, a hash map.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use weir::batch::Origin;
use weir::decode::dead_letter::Letter;
use weir::headers::Header;
use weir::source::{self, Emit, Progress};

use crate::{Outcome, child};

struct Count {
    counts: HashMap<Vec<u8>, u64>,
    bytes: usize,
}

impl Emit for Count {
    fn record(&mut self, _: u32, key: Option<&[u8]>, value: Option<&[u8]>, _: i64, _: Origin) {
        let key = key.unwrap_or_default();
        let count = match self.counts.get_mut(key) {
            Some(count) => count,
            None => self.counts.entry(key.to_vec()).or_insert(0),
        };
        *count += 1;
        self.bytes += value.map_or(0, <[u8]>::len) + count.to_le_bytes().len();
    }
    fn record_with_headers(
        &mut self,
        split: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        _: &mut dyn Iterator<Item = Header<'_>>,
        time: i64,
        origin: Origin,
    ) {
        self.record(split, key, value, time, origin);
    }
    fn skipped(&mut self, _: u32) {}
    fn dead_letter(&mut self, _: u32, _: &Letter<'_>, _: Origin) {}
    fn opened(&mut self, _: u32) {}
    fn done(&mut self, _: u32) {}
    fn full(&self) -> bool {
        false
    }
}

/// Counts the job's source in this process and prints how long it took.
pub(crate) fn run(path: &Path) -> Outcome {
    let job = child::load(path)?;
    let splits = source::discover(&job.sources[0])?;
    let subtask = source::Subtask {
        number: 0,
        of: 1,
        first_split: 0,
        all: &[],
        read_ahead: 0,
    };
    let mut reader = source::open(&job.sources[0], splits, subtask)?;
    let mut count = Count {
        counts: HashMap::new(),
        bytes: 0,
    };
    let began = Instant::now();
    while reader.read(&mut count)? != Progress::Ended {}
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{} keys, {} bytes", count.counts.len(), count.bytes);
    println!("{}", json!({"seconds": seconds}));
    Ok(())
}
