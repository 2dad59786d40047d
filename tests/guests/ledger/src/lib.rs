//! Every kind of state and timer at once, with output in which each loss and doubling shows.
//!
//! What it emits is a function of each key's records in their order, and of nothing else, so two
//! undisturbed runs write the same lines, and a run that was killed must write them too. This holds
//! as long as no record is late. The processing-time timer fires when it happens to: it works on state
//! of its own that nothing else reads.
//!
//! A record counts with its *amount*, the sum of its value's bytes, and its *name*, the value's last
//! byte; so any input will do. Outputs are JSON lines:
//!
//! * `ledger`, a line a record: its number within the key and the sum of the amounts so far (value
//!   state), its number within the name (entries), every eighth time the sum of the last eight amounts
//!   (items, read and cleared), and every sixteenth the counts of all names (a scan);
//! * `windows`, a line a key and window of event time: what fell into it (value state by namespace).

use serde::{Deserialize, Serialize};
use weir_sdk::{
    Codec, Context, Entries, Fault, Firing, Items, KeptOutput, Operator, Range, Record, Result,
    Setup, Timer, Value,
};

/// Every so many records the items are read and cleared.
const ITEMS: u64 = 8;
/// Every so many records the entries are scanned.
const SCAN: u64 = 16;

/// The job file's `config`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The windows' length in event time.
    window_millis: i64,
    /// How long after a record, at most, its processing-time timer fires.
    pulse_millis: i64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            window_millis: 1_000,
            pulse_millis: 500,
        }
    }
}

/// How many records, and the sum of their amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of records.
    pub records: u64,
    /// Sum of their amounts.
    pub sum: u64,
}

impl Tally {
    fn add(self, amount: u64) -> Tally {
        Tally {
            records: self.records + 1,
            sum: self.sum + amount,
        }
    }
}

impl Codec for Tally {
    const ENCODING: &'static str = "records-and-sum-u64-le";

    fn encode(&self, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&self.sum.to_le_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Tally> {
        match bytes.split_at_checked(8) {
            Some((records, sum)) => Ok(Tally {
                records: Codec::decode(records)?,
                sum: Codec::decode(sum)?,
            }),
            None => Err(Fault::new("a tally is two numbers")),
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    n: u64,
    sum: u64,
    name: u64,
    of_name: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<(u64, u64)>>,
}

#[derive(Serialize)]
struct Window<'a> {
    key: &'a str,
    window: i64,
    records: u64,
    sum: u64,
}

/// The operator.
#[derive(Debug)]
pub struct Ledger {
    config: Config,
    total: Value<Tally>,
    names: Entries<u64, u64>,
    amounts: Items<u64>,
    windows: Value<Tally>,
    pulses: Value<u64>,
    window_over: Timer,
    pulse: Timer,
    ledger: KeptOutput,
    window_lines: KeptOutput,
}

impl Operator for Ledger {
    type Config = Config;

    fn new(setup: &mut Setup, config: Config) -> Result<Ledger> {
        if config.window_millis <= 0 || config.pulse_millis <= 0 {
            return Err(Fault::new(
                "window_millis and pulse_millis must be positive",
            ));
        }
        setup.keyed_input("records");
        Ok(Ledger {
            config,
            total: setup.value("total"),
            names: setup.entries("names"),
            amounts: setup.items("amounts"),
            windows: setup.value("windows"),
            pulses: setup.value("pulses"),
            window_over: setup.event_timer("window-over"),
            pulse: setup.processing_timer("pulse"),
            ledger: setup.kept_output("ledger"),
            window_lines: setup.kept_output("windows"),
        })
    }

    fn prefetch(&self, record: Record<'_>, reads: &mut weir_sdk::Prefetch<'_>) {
        reads.entry(self.names, name(record));
        if let Some(start) = self.window(record) {
            reads.value_at(self.windows, &start.to_be_bytes());
        }
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let amount: u64 = record
            .value()
            .unwrap_or_default()
            .iter()
            .map(|&byte| u64::from(byte))
            .sum();
        let name = name(record);

        let total = self.total.get(cx)?.unwrap_or_default().add(amount);
        self.total.set(cx, &total)?;
        let of_name = self.names.get(cx, name)?.unwrap_or(0) + 1;
        self.names.set(cx, name, &of_name)?;

        self.amounts.push(cx, &amount)?;
        let last = if total.records % ITEMS == 0 {
            let last = self.amounts.read(cx)?.iter().sum();
            self.amounts.clear(cx)?;
            Some(last)
        } else {
            None
        };
        let names = if total.records % SCAN == 0 {
            Some(self.names.scan(cx, Range::all())?)
        } else {
            None
        };

        if let Some(start) = self.window(record) {
            let window = self.windows.at(&start.to_be_bytes()).get(cx)?;
            if window.is_none() {
                let end = start.saturating_add(self.config.window_millis - 1);
                self.window_over.set_at(cx, &start.to_be_bytes(), end)?;
            }
            self.windows
                .at(&start.to_be_bytes())
                .set(cx, &window.unwrap_or_default().add(amount))?;
        }
        let pulse = cx.processing_time().div_euclid(self.config.pulse_millis) + 1;
        self.pulse.set(cx, pulse * self.config.pulse_millis)?;

        let key = record.key_text()?;
        let Tally { records: n, sum } = total;
        self.ledger.emit(cx).json(&Line {
            key,
            n,
            sum,
            name,
            of_name,
            last,
            names,
        })
    }

    fn on_timer(&mut self, firing: Firing<'_>, cx: &mut Context) -> Result {
        if firing.timer() == self.pulse {
            let pulses = self.pulses.get(cx)?.unwrap_or(0) + 1;
            return self.pulses.set(cx, &pulses);
        }
        let state = self.windows.at(firing.namespace());
        let Some(tally) = state.get(cx)? else {
            return Err(Fault::new("a window without a tally is over"));
        };
        state.clear(cx)?;
        let start = firing.namespace().try_into().map(i64::from_be_bytes)?;
        let Tally { records, sum } = tally;
        self.window_lines.emit(cx).json(&Window {
            key: firing.key_text()?,
            window: start,
            records,
            sum,
        })
    }
}

impl Ledger {
    /// The start of the record's window; a record without a time is in none.
    fn window(&self, record: Record<'_>) -> Option<i64> {
        let length = self.config.window_millis;
        record.time().map(|time| time.div_euclid(length) * length)
    }
}

fn name(record: Record<'_>) -> u64 {
    record
        .value()
        .and_then(|value| value.last())
        .map_or(256, |&byte| u64::from(byte))
}

weir_sdk::export!(Ledger);

#[cfg(test)]
mod tests {
    use super::{Ledger, Tally};
    use weir_sdk::test::{Harness, Scenario, record};

    #[test]
    fn the_output_shows_every_record_and_window() -> weir_sdk::Result {
        let mut harness = Harness::<Ledger>::open("null")?;
        harness.process([
            record("a").key("k").time(10),
            record("b").key("k").time(1_500),
        ])?;
        harness.process([record("a").key("k").time(999), record("").key("other")])?;
        assert_eq!(
            harness.texts("ledger"),
            [
                r#"{"key":"k","n":1,"sum":97,"name":97,"of_name":1}"#,
                r#"{"key":"k","n":2,"sum":195,"name":98,"of_name":1}"#,
                r#"{"key":"k","n":3,"sum":292,"name":97,"of_name":2}"#,
                r#"{"key":"other","n":1,"sum":0,"name":256,"of_name":1}"#,
            ]
        );
        harness.advance_watermark(998)?;
        assert!(harness.emitted("windows").is_empty());
        harness.advance_watermark(999)?;
        assert_eq!(
            harness.texts("windows"),
            [r#"{"key":"k","window":0,"records":2,"sum":194}"#]
        );
        harness.finish()?;
        assert_eq!(
            harness.texts("windows")[1..],
            [r#"{"key":"k","window":1000,"records":1,"sum":98}"#]
        );
        assert_eq!(
            harness.value_at::<Tally>("windows", "k", 0_i64.to_be_bytes()),
            None
        );
        Ok(())
    }

    #[test]
    fn items_and_entries_show_at_their_turn() -> weir_sdk::Result {
        let mut harness = Harness::<Ledger>::open("null")?;
        harness.process((0..16).map(|n| record([b'a' + n % 2]).key("k")))?;
        let lines = harness.texts("ledger");
        assert!(
            lines[7].ends_with(r#""of_name":4,"last":780}"#),
            "{}",
            lines[7]
        );
        assert!(
            lines[15].ends_with(r#""of_name":8,"last":780,"names":[[97,8],[98,8]]}"#),
            "{}",
            lines[15]
        );
        assert_eq!(lines.iter().filter(|line| line.contains("last")).count(), 2);
        assert!(harness.items::<u64>("amounts", "k", "").is_empty());
        Ok(())
    }

    #[test]
    fn pulses_follow_the_clock_and_show_in_state_alone() -> weir_sdk::Result {
        let mut harness = Harness::<Ledger>::open(r#"{"pulse_millis":500}"#)?;
        harness.process([record("a").key("k"), record("b").key("k")])?;
        harness.advance_processing_time(499)?;
        assert_eq!(harness.value::<u64>("pulses", "k"), None);
        harness.advance_processing_time(500)?;
        assert_eq!(harness.value::<u64>("pulses", "k"), Some(1));
        harness.process([record("c").key("k")])?;
        harness.finish()?;
        assert_eq!(harness.dropped_timers(), 1);
        assert_eq!(harness.emitted("ledger").len(), 3);
        assert!(harness.emitted("windows").is_empty());
        Ok(())
    }

    #[test]
    fn results_depend_on_records_alone() -> weir_sdk::Result {
        let records = |from: i64| {
            (from..from + 60).map(|n| {
                record([b'a' + (n * 7 % 11) as u8])
                    .key(format!("key-{}", n * 13 % 5))
                    .time(n * 97 % 4_000)
            })
        };
        let harness = Scenario::new("null")
            .records(records(0))
            .watermark(-1)
            .processing_time(700)
            .records(records(60))
            .watermark(2_000)
            .processing_time(1_400)
            .finish()
            .check::<Ledger>()?;
        assert_eq!(harness.emitted("ledger").len(), 120);
        assert_eq!(harness.emitted("windows").len(), 20);
        Ok(())
    }
}
