//! What a run says at its end.

use std::fmt::Write;
use std::time::Duration;

use super::Report;
use crate::diagnostic::ExitCode;
use crate::job::model::{Job, SinkConnector};
use crate::metrics::{Counters, Meters};
use crate::progress::grouped;
use crate::stages::Costs;

/// What an attempt counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records that sources emitted.
    pub read: u64,
    /// Records that sinks wrote.
    pub written: u64,
    /// Bytes of their values, line ends included.
    pub written_bytes: u64,
    /// Records at or below the watermark of the first operator they reached.
    pub late: u64,
    /// Input left out by policy because it could not be decoded.
    pub skipped: u64,
    /// Input that went to a dead-letter sink.
    pub dead: u64,
    /// Records left out by policy because they had no key.
    pub null_keys: u64,
    /// Processing-time timers pending at the end of input.
    pub timers_dropped: u64,
}

impl Totals {
    /// As counted so far.
    pub fn of(meters: &Meters) -> Totals {
        let sum = |count: fn(&Counters) -> u64| meters.counters().map(count).sum();
        Totals {
            read: sum(Counters::read),
            written: sum(Counters::written),
            written_bytes: sum(Counters::written_bytes),
            late: sum(Counters::late),
            skipped: sum(Counters::skipped),
            dead: sum(Counters::dead),
            null_keys: sum(Counters::null_keys),
            timers_dropped: sum(Counters::timers_dropped),
        }
    }
}

/// How an attempt ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All input is processed.
    Finished,
    /// Stopped when asked to, after a last checkpoint.
    Stopped,
    /// Stopped when asked to, without one.
    StoppedWithoutCheckpoint,
}

/// The report of an attempt that ended the job.
pub(super) fn report(
    job: &Job,
    ending: Ending,
    totals: Totals,
    (running, costs): (Duration, Costs),
    checkpoint: Option<u64>,
    resumed: bool,
) -> Report {
    let (word, code) = match ending {
        Ending::Finished => ("finished", ExitCode::Done),
        Ending::Stopped => ("stopped", ExitCode::Done),
        Ending::StoppedWithoutCheckpoint => (
            "stopped without a checkpoint",
            ExitCode::StoppedWithoutCheckpoint,
        ),
    };
    let since = if resumed {
        ", counting from where it resumed"
    } else {
        ""
    };
    let mut text = format!(
        "job {} {word} after {:.1} s{since}\n",
        job.name,
        running.as_secs_f64()
    );
    let _ = writeln!(
        text,
        "  read {}, written {} ({} bytes), late {}, skipped {}, dead letters {}",
        grouped(totals.read),
        grouped(totals.written),
        grouped(totals.written_bytes),
        grouped(totals.late),
        grouped(totals.skipped),
        grouped(totals.dead)
    );
    if totals.null_keys > 0 {
        let _ = writeln!(
            text,
            "  without a key and left out: {}",
            grouped(totals.null_keys)
        );
    }
    if totals.timers_dropped > 0 {
        let dropped = grouped(totals.timers_dropped);
        let _ = writeln!(
            text,
            "  processing-time timers still pending at the end of input, dropped: {dropped}"
        );
    }
    if let Some(n) = checkpoint.filter(|_| ending != Ending::StoppedWithoutCheckpoint) {
        let _ = writeln!(text, "  checkpoint {n} holds everything up to here");
    }
    text.push_str(&places(job));
    Report {
        code,
        summary: text,
        totals,
        running,
        costs,
    }
}

fn places(job: &Job) -> String {
    let mut text = String::new();
    for sink in &job.sinks {
        match &sink.connector {
            SinkConnector::File { dir, .. } => {
                let shown = dir.strip_prefix(&job.dir).unwrap_or(dir);
                let _ = writeln!(text, "  {}: {}/part-*", sink.id, shown.display());
            }
            SinkConnector::Kafka(kafka) => {
                let names = kafka.topic.names().join(", ");
                let _ = writeln!(text, "  {}: topic {names}", sink.id);
            }
            SinkConnector::Stdout | SinkConnector::Blackhole => {}
        }
    }
    text
}

/// The report of a run that found nothing left to do.
pub(super) fn finished_already(job: &Job, n: u64) -> Report {
    let summary = format!(
        "job {} has finished already, at checkpoint {n}: nothing to do\n{}  `--fresh` starts over\n",
        job.name,
        places(job)
    );
    Report {
        code: ExitCode::Done,
        summary,
        totals: Totals::default(),
        running: Duration::ZERO,
        costs: Costs::default(),
    }
}

/// The report of a run that was stopped while it waited for its next attempt.
pub(super) fn stopped_between_attempts() -> Report {
    Report {
        code: ExitCode::StoppedWithoutCheckpoint,
        summary: "stopped without a last checkpoint, the job having failed before; the next run resumes at the last one\n".to_owned(),
        totals: Totals::default(),
        running: Duration::ZERO,
        costs: Costs::default(),
    }
}
