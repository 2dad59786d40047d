//! Scripts that are played in several ways, all of which must come to the same.

use std::collections::BTreeMap;

use crate::fault::Result;
use crate::operator::Operator;

use super::{Emitted, Harness, NewRecord, Snapshot};

/// A script of steps for an operator.
#[derive(Clone, Debug)]
pub struct Scenario {
    config: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Records(Vec<NewRecord>),
    Watermark(i64),
    ProcessingTime(i64),
    Finish,
}

/// How a scenario is played.
#[derive(Clone, Copy, Debug)]
struct Way {
    batch: usize,
    /// A new operator over the same state before each step.
    replace: bool,
    /// A new harness out of a snapshot before each step.
    restore: bool,
}

/// What must be equal: for each output and key the rows in their order, and all that is kept.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    outputs: BTreeMap<String, BTreeMap<Option<Vec<u8>>, Vec<Emitted>>>,
    kept: Snapshot,
    rejected: Vec<(NewRecord, String)>,
}

impl Scenario {
    /// An empty script for an operator with this configuration, which is JSON text.
    pub fn new(config: &str) -> Scenario {
        Scenario {
            config: config.to_owned(),
            steps: Vec::new(),
        }
    }

    /// Feeds records.
    pub fn records(mut self, records: impl IntoIterator<Item = NewRecord>) -> Scenario {
        self.steps
            .push(Step::Records(records.into_iter().collect()));
        self
    }

    /// Advances the watermark.
    pub fn watermark(mut self, millis: i64) -> Scenario {
        self.steps.push(Step::Watermark(millis));
        self
    }

    /// Advances the clock.
    pub fn processing_time(mut self, millis: i64) -> Scenario {
        self.steps.push(Step::ProcessingTime(millis));
        self
    }

    /// Ends the input.
    pub fn finish(mut self) -> Scenario {
        self.steps.push(Step::Finish);
        self
    }

    /// Plays the script with batches as large as they come, and then in every other way: with batches of
    /// one and of two, with the operator replaced before each step, and restored from a snapshot before
    /// each step. Returns the first run, to look at what it emitted and kept.
    ///
    /// Rows of different keys may come in different orders, since a host may interleave keys as it
    /// likes; those of one key may not, and rows without a key are compared as a whole.
    ///
    /// # Errors
    ///
    /// The operator's fault in the first run.
    ///
    /// # Panics
    ///
    /// Another way of playing gives other results: the operator depends on how records are batched, or
    /// remembers something outside of state.
    pub fn check<O: Operator>(&self) -> Result<Harness<O>> {
        let plain = Way {
            batch: usize::MAX,
            replace: false,
            restore: false,
        };
        let (harness, expected) = self.play::<O>(plain)?;
        for way in [
            Way { batch: 1, ..plain },
            Way { batch: 2, ..plain },
            Way {
                replace: true,
                ..plain
            },
            Way {
                batch: 1,
                replace: true,
                ..plain
            },
            Way {
                restore: true,
                ..plain
            },
        ] {
            match self.play::<O>(way) {
                Ok((_, found)) => assert!(
                    found == expected,
                    "results depend on how the operator is called\n{plain:?}: {expected:#?}\n{way:?}: {found:#?}"
                ),
                Err(fault) => panic!(
                    "fails only if called in this way: {way:?}: {}",
                    fault.message()
                ),
            }
        }
        Ok(harness)
    }

    fn play<O: Operator>(&self, way: Way) -> Result<(Harness<O>, Outcome)> {
        let mut harness = Harness::<O>::open(&self.config)?.batch_size(way.batch);
        let mut outputs: BTreeMap<String, Vec<Emitted>> = BTreeMap::new();
        let mut rejected = Vec::new();
        for step in &self.steps {
            if way.replace {
                harness.replace()?;
            }
            if way.restore {
                collect(&harness, &mut outputs, &mut rejected);
                harness = Harness::restore(&self.config, harness.snapshot())?.batch_size(way.batch);
            }
            match step {
                // Between batches, too, the host may open another instance.
                Step::Records(records) if way.replace => {
                    for records in records.chunks(way.batch) {
                        harness.replace()?;
                        harness.process(records.iter().cloned())?;
                    }
                }
                Step::Records(records) => harness.process(records.iter().cloned())?,
                Step::Watermark(millis) => harness.advance_watermark(*millis)?,
                Step::ProcessingTime(millis) => harness.advance_processing_time(*millis)?,
                Step::Finish => harness.finish()?,
            }
        }
        collect(&harness, &mut outputs, &mut rejected);
        let outputs = outputs
            .into_iter()
            .map(|(name, rows)| (name, by_key(rows)))
            .collect();
        let kept = harness.snapshot();
        Ok((
            harness,
            Outcome {
                outputs,
                kept,
                rejected,
            },
        ))
    }
}

fn collect<O: Operator>(
    harness: &Harness<O>,
    outputs: &mut BTreeMap<String, Vec<Emitted>>,
    rejected: &mut Vec<(NewRecord, String)>,
) {
    for name in harness.outputs() {
        let rows = harness.emitted(&name);
        outputs.entry(name).or_default().extend(rows);
    }
    rejected.extend(
        harness
            .rejected()
            .iter()
            .map(|(record, fault)| (record.clone(), fault.message.clone())),
    );
}

fn by_key(rows: Vec<Emitted>) -> BTreeMap<Option<Vec<u8>>, Vec<Emitted>> {
    let mut keys: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in rows {
        keys.entry(row.key.clone()).or_default().push(row);
    }
    if let Some(keyless) = keys.get_mut(&None) {
        keyless.sort();
    }
    keys
}
