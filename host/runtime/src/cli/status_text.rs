//! `weir status` for people.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::checkpoint::coordinator::human;
use crate::control::doing;
use crate::control::status::{Node, Status, Task};
use crate::progress::grouped;

/// Tasks that a checkpoint waits for and that are named.
const NAMED: usize = 5;

/// The whole text.
pub(super) fn render(status: &Status) -> String {
    let mut text = String::new();
    job(&mut text, status);
    checkpoint(&mut text, status);
    totals(&mut text, status);
    sources(&mut text, status);
    text.push('\n');
    tasks(&mut text, status);
    odd(&mut text, status);
    match &status.bottleneck {
        Some(bottleneck) => {
            let _ = writeln!(
                text,
                "\nbottleneck: {}: {}",
                bottleneck.task, bottleneck.why
            );
        }
        None if status.is_running() => {
            text.push_str("\nbottleneck: none; every subtask has time left\n")
        }
        None => {}
    }
    text
}

fn time(seconds: f64) -> String {
    let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    match duration.as_secs() / 3_600 {
        0..48 => human(duration),
        hours => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

/// A size in three digits or so.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

fn job(text: &mut String, status: &Status) {
    let _ = write!(text, "job {}: {}", status.job, status.state);
    if let Some(seconds) = status.restarts.next_in_seconds {
        let _ = write!(text, ", next attempt in {}", time(seconds));
    }
    let _ = write!(
        text,
        "; up {}, pid {}",
        time(status.uptime_seconds),
        status.pid
    );
    if status.attempt > 0 {
        let _ = write!(text, ", attempt {}", status.attempt);
    }
    if let Some(lineage) = &status.lineage {
        let _ = write!(text, ", lineage {lineage}");
    }
    text.push('\n');
    if let Some(why) = &status.paused {
        let _ = writeln!(text, "  paused: {why}");
    }
    if let Some(error) = &status.restarts.last_error {
        let ago = status.restarts.last_error_seconds.unwrap_or_default();
        let _ = writeln!(
            text,
            "  restarts {} in this process, {} in a row; the last one {} ago: {error}",
            status.restarts.total,
            status.restarts.in_a_row,
            time(ago)
        );
    }
}

fn checkpoint(text: &mut String, status: &Status) {
    let Some(checkpoint) = &status.checkpoint else {
        text.push_str("  takes no checkpoints\n");
        return;
    };
    match checkpoint.last {
        None => text.push_str("  no checkpoint yet"),
        Some(n) => {
            let _ = write!(
                text,
                "  checkpoint {n}, {} ago",
                time(checkpoint.age_seconds)
            );
            if let (Some(took), Some(bytes)) = (checkpoint.took_seconds, checkpoint.state_bytes) {
                let _ = write!(text, ", took {}, state {}", time(took), size(bytes));
            }
        }
    }
    text.push('\n');
    if checkpoint.failed_in_a_row > 0 {
        let why = checkpoint.last_failure.as_deref().unwrap_or("unknown");
        let _ = writeln!(
            text,
            "  {} checkpoints failed since, the last one: {why}",
            checkpoint.failed_in_a_row
        );
    }
    if let Some(flight) = &checkpoint.in_flight {
        let _ = write!(text, "  checkpoint {} {}", flight.n, flight.doing);
        let named = &flight.waits_for[..flight.waits_for.len().min(NAMED)];
        if !named.is_empty() {
            let _ = write!(text, ": {}", named.join(", "));
        }
        if flight.waits_for.len() > NAMED {
            let _ = write!(text, " and {} more", flight.waits_for.len() - NAMED);
        }
        text.push('\n');
    }
}

fn totals(text: &mut String, status: &Status) {
    let nodes = || status.tasks.iter().flat_map(|task| &task.nodes);
    let of = |kind: &str, count: fn(&Node) -> u64| -> String {
        grouped(
            nodes()
                .filter(|node| kind.is_empty() || node.kind == kind)
                .map(count)
                .sum(),
        )
    };
    let rate: f64 = nodes()
        .filter(|node| node.kind == "source")
        .map(|node| node.in_rate)
        .sum();
    let _ = writeln!(
        text,
        "  read {} ({}/s), written {}; late {}, skipped {}, dead letters {}",
        of("source", |node| node.records_in),
        grouped(rate as u64),
        of("sink", |node| node.records_out),
        of("", |node| node.late),
        of("", |node| node.skipped),
        of("", |node| node.dead_letters),
    );
    let operators = || nodes().filter_map(|node| node.operator.as_ref());
    let guests: u64 = operators().map(|operator| operator.guest_bytes).sum();
    let state: u64 = operators().map(|operator| operator.state_bytes).sum();
    if let Some(resident) = status.resident_bytes {
        let _ = writeln!(
            text,
            "  memory {}, of which guests {}, state about {}",
            size(resident),
            size(guests),
            size(state)
        );
    }
    for disk in &status.disks {
        let _ = writeln!(
            text,
            "  {} free for {} in {}",
            size(disk.free_bytes),
            disk.what,
            disk.dir
        );
    }
}

fn sources(text: &mut String, status: &Status) {
    let mut seen: Vec<&str> = Vec::new();
    let nodes = || {
        let nodes = status.tasks.iter().flat_map(|task| &task.nodes);
        nodes.filter_map(|node| Some((node.id.as_str(), node.source.as_ref()?)))
    };
    for (id, first) in nodes() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        let (mut read, mut of, mut done, mut files) = (0, 0, 0, 0);
        for (_, source) in nodes().filter(|(other, _)| *other == id) {
            read += source.read;
            of += source.of;
            let (d, f) = source.files.unwrap_or_default();
            done += d;
            files += f;
        }
        let share = if of > 0 {
            100.0 * read as f64 / of as f64
        } else {
            100.0
        };
        let _ = write!(text, "  source {id}: {share:.0} % read");
        let left = of.saturating_sub(read);
        let _ = if first.unit == "bytes" {
            writeln!(text, ", {done} of {files} files, {} left", size(left))
        } else {
            writeln!(text, ", {} records left", grouped(left))
        };
    }
    let mut behind: BTreeMap<&str, u64> = BTreeMap::new();
    for node in status.tasks.iter().flat_map(|task| &task.nodes) {
        if let Some(lag) = node.lag_records.filter(|_| node.source.is_none()) {
            *behind.entry(&node.id).or_default() += lag;
        }
    }
    for (id, lag) in behind {
        let _ = writeln!(text, "  source {id}: {} records behind", grouped(lag));
    }
}

fn tasks(text: &mut String, status: &Status) {
    let mut rows = vec![
        [
            "subtask", "in/s", "out/s", "busy", "idle", "held up", "behind", "queued", "now",
        ]
        .map(str::to_owned),
    ];
    rows.extend(status.tasks.iter().map(row));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..9).map(width).collect();
    for row in &rows {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row[1..8].iter().zip(&widths[1..8]) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{line}  {}", row[8]);
    }
}

/// Subtasks that met something out of the ordinary, a line each.
fn odd(text: &mut String, status: &Status) {
    for task in &status.tasks {
        for node in &task.nodes {
            let counts = [
                ("late", node.late),
                ("skipped", node.skipped),
                ("dead letters", node.dead_letters),
                ("without a key", node.null_keys),
            ];
            let some = counts.iter().filter(|(_, count)| *count > 0);
            let some: Vec<_> = some
                .map(|(what, count)| format!("{what} {}", grouped(*count)))
                .collect();
            if !some.is_empty() {
                let _ = writeln!(text, "{}[{}]: {}", node.id, task.subtask, some.join(", "));
            }
        }
    }
}

fn row(task: &Task) -> [String; 9] {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let first = task.nodes.first();
    let (mut written, mut sinks) = (0.0, 0);
    for sink in task.nodes.iter().filter(|node| node.kind == "sink") {
        written += sink.out_rate;
        sinks += 1;
    }
    let out = match task.nodes.last() {
        Some(last) if sinks == 0 => last.out_rate,
        _ => written,
    };
    let lag = task
        .nodes
        .iter()
        .find_map(|node| node.watermark_lag_seconds);
    let mut now = doing(task);
    if let Some(seconds) = task.doing_seconds.filter(|seconds| *seconds >= 1.0) {
        let _ = write!(now, " for {}", time(seconds));
    }
    [
        task.name.clone(),
        grouped(first.map_or(0.0, |node| node.in_rate) as u64),
        grouped(out as u64),
        percent(task.busy),
        percent(task.idle),
        percent(task.backpressured),
        lag.map_or("-".to_owned(), time),
        if task.channels > 0 {
            size(task.queued_bytes)
        } else {
            "-".to_owned()
        },
        now,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        let sizes = [0, 1023, 1024, 1_500_000, 200 << 20, 3 << 40, u64::MAX].map(size);
        assert_eq!(
            sizes,
            [
                "0 B",
                "1023 B",
                "1.0 KiB",
                "1.4 MiB",
                "200 MiB",
                "3.0 TiB",
                "16777216 TiB"
            ]
        );
        let times = [0.25, 72.0, -1.0, 172_799.0, 180_000.0].map(time);
        assert_eq!(times, ["250 ms", "1m12s", "0 ms", "47h59m", "2d02h"]);
        assert!(!time(f64::MAX).is_empty());
    }
}
