//! Rates: what the counters said some seconds ago, beside what they say now.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::{Counters, Kind, Meters, Spent};

/// The time that rates are over, unless the attempt is younger.
const WINDOW: Duration = Duration::from_secs(10);

/// What one task had spent and counted at some time.
#[derive(Clone, Debug, Default)]
struct Sample {
    spent: Spent,
    /// Records in and out, by node.
    records: Vec<(u64, u64)>,
}

/// One look at all tasks of an attempt.
#[derive(Debug)]
struct Look {
    meters: Arc<Meters>,
    samples: Vec<Sample>,
}

/// The looks of the last seconds, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<VecDeque<Look>>);

/// What a task did in the window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskRates {
    /// Share of the time at work.
    pub(super) busy: f64,
    /// Share of the time without input.
    pub(super) idle: f64,
    /// Share of the time without room.
    pub(super) backpressured: f64,
    /// Records in and out a second, by node.
    pub(super) nodes: Vec<(f64, f64)>,
}

/// What all tasks did in the window.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// By task.
    pub(super) tasks: Vec<TaskRates>,
}

fn records(kind: Kind, counters: &Counters) -> (u64, u64) {
    match kind {
        Kind::Source => (counters.read(), counters.records_out()),
        Kind::Operator => (counters.records_in(), counters.records_out()),
        Kind::Sink => (counters.records_in(), counters.written()),
    }
}

fn samples(meters: &Meters) -> Vec<Sample> {
    let tasks = meters.tasks.iter();
    tasks
        .map(|task| Sample {
            spent: task.waits.look(),
            records: task
                .nodes
                .iter()
                .map(|node| records(node.kind, &node.counters))
                .collect(),
        })
        .collect()
}

fn total(spent: &Spent) -> Duration {
    spent.busy + spent.idle + spent.backpressured
}

fn rates(before: &Sample, now: &Sample) -> TaskRates {
    let seconds = total(&now.spent)
        .saturating_sub(total(&before.spent))
        .as_secs_f64();
    let share = |of: fn(&Spent) -> Duration| {
        let part = of(&now.spent).saturating_sub(of(&before.spent));
        if seconds > 0.0 {
            (part.as_secs_f64() / seconds).min(1.0)
        } else {
            0.0
        }
    };
    let rate = |before: u64, now: u64| {
        if seconds > 0.0 {
            now.saturating_sub(before) as f64 / seconds
        } else {
            0.0
        }
    };
    let none = (0, 0);
    TaskRates {
        busy: share(|spent| spent.busy),
        idle: share(|spent| spent.idle),
        backpressured: share(|spent| spent.backpressured),
        nodes: now
            .records
            .iter()
            .enumerate()
            .map(|(node, now)| {
                let before = before.records.get(node).unwrap_or(&none);
                (rate(before.0, now.0), rate(before.1, now.1))
            })
            .collect(),
    }
}

impl History {
    /// Takes a look; looks at an earlier attempt are forgotten.
    pub(super) fn note(&self, meters: &Arc<Meters>) {
        let look = Look {
            meters: meters.clone(),
            samples: samples(meters),
        };
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|look| Arc::ptr_eq(&look.meters, meters));
        looks.push_back(look);
        // The first one that is old enough is what the rates begin at.
        let age = |look: &Look| match (look.samples.first(), looks.back()) {
            (Some(then), Some(now)) => now.samples.first().map_or(Duration::ZERO, |now| {
                total(&now.spent).saturating_sub(total(&then.spent))
            }),
            _ => Duration::ZERO,
        };
        let outdated = looks
            .iter()
            .skip(1)
            .take_while(|look| age(look) >= WINDOW)
            .count();
        looks.drain(..outdated);
    }

    /// Rates up to now; since the attempt began if it is younger than the window.
    pub(super) fn rates(&self, meters: &Arc<Meters>) -> Rates {
        let now = samples(meters);
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = looks
            .front()
            .filter(|look| looks.len() > 1 && Arc::ptr_eq(&look.meters, meters));
        let none = Sample::default();
        let tasks = now.iter().enumerate().map(|(task, now)| {
            let before = before.and_then(|look| look.samples.get(task));
            rates(before.unwrap_or(&none), now)
        });
        Rates {
            tasks: tasks.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(busy: u64, idle: u64, backpressured: u64, records: u64) -> Sample {
        Sample {
            spent: Spent {
                busy: Duration::from_secs(busy),
                idle: Duration::from_secs(idle),
                backpressured: Duration::from_secs(backpressured),
                waiting: None,
            },
            records: vec![(records, records / 2)],
        }
    }

    #[test]
    fn shares_add_up_and_rates_are_of_the_time_between() {
        let between = rates(&sample(10, 0, 0, 1_000), &sample(16, 1, 3, 3_000));
        assert_eq!(
            (between.busy, between.idle, between.backpressured),
            (0.6, 0.1, 0.3)
        );
        assert_eq!(between.nodes, [(200.0, 100.0)]);
    }

    #[test]
    fn no_time_at_all_is_no_rate_and_nothing_divided_by_zero() {
        let same = sample(1, 1, 1, 7);
        let between = rates(&same, &same);
        assert_eq!(
            (between.busy, between.nodes.as_slice()),
            (0.0, &[(0.0, 0.0)][..])
        );
        let since_the_start = rates(&Sample::default(), &same);
        assert_eq!(since_the_start.nodes, [(7.0 / 3.0, 1.0)]);
    }
}
