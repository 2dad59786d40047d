//! Input without an end: the job is stopped some time, and what it has committed must be exactly what the input holds up to the
//! positions in its last manifest.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::super::trial::{Trial, running};
use super::job::{self, Input, Kind, Reference};
use crate::place::Place;

/// Splits of the source that is copied.
const COPY_SPLITS: u64 = 8;

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn entry<'a>(manifest: &'a Value, list: &str, id: &str) -> &'a Value {
    let entries = manifest[list].as_array().expect("a list");
    entries
        .iter()
        .find(|entry| entry["id"] == id)
        .unwrap_or_else(|| panic!("no `{id}` in {list}"))
}

/// How many records each split of a generator has emitted.
fn positions(manifest: &Value, source: &str) -> Vec<u64> {
    let splits = entry(manifest, "sources", source)["splits"]
        .as_array()
        .expect("a list");
    splits
        .iter()
        .map(|split| number(&split["position"]["at"]))
        .collect()
}

/// The watermark of an operator, which all its subtasks must have: each input has a single split, so its watermarks and its
/// barrier come in one order.
fn watermark(manifest: &Value, operator: &str) -> Result<i64, String> {
    let subtasks = entry(manifest, "operators", operator)["subtasks"]
        .as_array()
        .expect("a list");
    let all: Vec<_> = subtasks
        .iter()
        .map(|subtask| subtask["watermark"].as_i64().expect("a number"))
        .collect();
    match all.iter().all(|watermark| *watermark == all[0]) {
        true => Ok(all[0]),
        false => Err(format!(
            "subtasks of `{operator}` have the watermarks {all:?} at one barrier"
        )),
    }
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

impl Trial<'_> {
    pub(super) fn unbounded(&mut self, reference: &Reference, kills: u32) -> Result<(), String> {
        assert_eq!(reference.kind, Kind::Net, "files end");
        self.endless = true;
        let input = Input::unbounded(3_000);
        self.place
            .write_job(&job::text(Kind::Net, &input, &reference.folder));
        for _ in 0..kills {
            self.kill_at_random()?;
        }
        let start = self.parallelism();
        let mut process = self.place.start(&start);
        running(&mut process)?;
        process.within(Duration::from_millis(100));
        process.signal(Signal::TERM);
        let exit = process.end();
        if exit.code() != Some(0) || !exit.log.contains("stopped") {
            return Err(format!("SIGTERM did not stop it cleanly:\n{}", exit.log));
        }
        self.compare_by_position(reference)
    }

    /// Runs the job undisturbed over what the last manifest says was read, and leaves out the windows that were not over by then.
    fn compare_by_position(&mut self, reference: &Reference) -> Result<(), String> {
        let (_, manifest) = self.place.checkpoints().last_manifest();
        let [a, b] = ["a", "b"].map(|source| positions(&manifest, source).iter().sum::<u64>());
        let copied = positions(&manifest, "c");
        let length = |at: &u64| at * COPY_SPLITS;
        let c = copied.iter().map(length).max().unwrap_or_default();

        let place = Place::at(self.place.host(), self.place.path("reference"));
        let input = Input {
            records: [Some(a), Some(b), Some(c)],
            ..Input::whole()
        };
        let (mut expected, _) = job::undisturbed(Kind::Net, &place, &input, &reference.folder, 2);

        let ledger = watermark(&manifest, "ledger")?;
        let again = watermark(&manifest, "again")?;
        let both = watermark(&manifest, "both")?;
        let over = |line: &str, length: i64, watermark: i64| match json(line)["window"].as_i64() {
            Some(start) => start + length - 1 <= watermark,
            None => true,
        };
        let mut retain = |sink: &str, keep: &dyn Fn(&str) -> bool| {
            if let Some(lines) = expected.get_mut(sink) {
                lines.retain(|line| keep(line));
            }
        };
        retain("windows", &|line| over(line, 1_000, ledger));
        retain("again", &|line| over(line, 4_000, again));
        retain("pairs", &|line| {
            let second = line
                .split(' ')
                .nth(1)
                .and_then(|second| second.parse::<i64>().ok());
            second.expect("every record has a time") * 1_000 + 999 <= both
        });
        retain("copy", &|line| {
            let i = number(&json(line)["n"]);
            i / COPY_SPLITS < copied[(i % COPY_SPLITS) as usize]
        });
        for (sink, lines) in &expected {
            if lines.is_empty() {
                return Err(format!(
                    "nothing was expected of sink `{sink}`: the run was too short to show anything"
                ));
            }
            self.compare(sink, lines, &self.place.committed(sink))?;
        }
        Ok(())
    }
}
