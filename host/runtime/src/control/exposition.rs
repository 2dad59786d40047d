//! Metrics in Prometheus' text format, version 0.0.4.
//!
//! Labels are the job, the id of a source, operator or sink, and its subtask, never anything of a record. A chain's time and inbox go by
//! its first node. docs/operating.md says what each metric means and what to alert on.

use std::fmt::Write;

use super::status::{Node, STATES, Status, Task};

/// A metric under construction.
struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    job: &'a str,
}

/// Text under construction.
struct Page<'a> {
    text: String,
    job: &'a str,
}

impl Page<'_> {
    /// Begins a metric of a kind: `gauge`, `counter` or `summary`.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        // A job's name, an id and a state need no escapes: their alphabets have no quote, backslash or newline.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family {
            text: &mut self.text,
            name,
            job: self.job,
        }
    }

    fn gauge(&mut self, name: &'static str, help: &str, value: f64) {
        self.family(name, "gauge", help).of_job("", value);
    }

    fn counter(&mut self, name: &'static str, help: &str, value: u64) {
        self.family(name, "counter", help).of_job("", value as f64);
    }

    /// A metric with a value for each subtask that has one.
    fn nodes(
        &mut self,
        (name, kind, help): (&'static str, &str, &str),
        status: &Status,
        value: impl Fn(&Node) -> Option<f64>,
    ) {
        let mut family = self.family(name, kind, help);
        for task in &status.tasks {
            for node in &task.nodes {
                if let Some(value) = value(node) {
                    family.of_node(task, node, "", value);
                }
            }
        }
    }
}

impl Family<'_> {
    fn sample(&mut self, suffix: &str, labels: &str, value: f64) {
        let _ = writeln!(
            self.text,
            "{}{suffix}{{job=\"{}\"{labels}}} {value}",
            self.name, self.job
        );
    }

    fn of_job(&mut self, labels: &str, value: f64) {
        self.sample("", labels, value);
    }

    fn of_node(&mut self, task: &Task, node: &Node, suffix: &str, value: f64) {
        let labels = format!(",operator=\"{}\",subtask=\"{}\"", node.id, task.subtask);
        self.sample(suffix, &labels, value);
    }

    /// By the first node of its chain.
    fn of_task(&mut self, task: &Task, labels: &str, value: f64) {
        if let Some(head) = task.nodes.first() {
            let labels = format!(
                ",operator=\"{}\",subtask=\"{}\"{labels}",
                head.id, task.subtask
            );
            self.sample("", &labels, value);
        }
    }
}

/// The whole page.
pub(super) fn render(status: &Status) -> String {
    let mut page = Page {
        text: String::new(),
        job: &status.job,
    };
    job(&mut page, status);
    checkpoints(&mut page, status);
    tasks(&mut page, status);
    records(&mut page, status);
    operators(&mut page, status);
    sources(&mut page, status);
    system(&mut page, status);
    page.text
}

fn job(page: &mut Page<'_>, status: &Status) {
    page.family("weir_build_info", "gauge", "Always 1; version of Weir.")
        .of_job(&format!(",version=\"{}\"", status.weir), 1.0);
    let mut states = page.family(
        "weir_job_state",
        "gauge",
        "1 for the state that the job is in.",
    );
    for state in STATES {
        let is = if status.state == state { 1.0 } else { 0.0 };
        states.of_job(&format!(",state=\"{state}\""), is);
    }
    page.gauge(
        "weir_job_uptime_seconds",
        "Time since the process began to run the job.",
        status.uptime_seconds,
    );
    page.gauge(
        "weir_job_attempt",
        "Attempt in the life of the job; 0 without checkpoints.",
        status.attempt as f64,
    );
    page.gauge(
        "weir_job_paused",
        "1 while sources pause because there is too little space.",
        f64::from(u8::from(status.paused.is_some())),
    );
    page.gauge(
        "weir_job_heartbeat_age_seconds",
        "Time since the coordinator last came round.",
        status.heartbeat_seconds,
    );
    page.counter(
        "weir_job_restarts_total",
        "Restarts of the job in this process.",
        status.restarts.total,
    );
    page.gauge(
        "weir_job_restarts_in_a_row",
        "Restarts since the job was last in good health.",
        f64::from(status.restarts.in_a_row),
    );
}

fn checkpoints(page: &mut Page<'_>, status: &Status) {
    let Some(checkpoint) = &status.checkpoint else {
        return;
    };
    page.gauge(
        "weir_checkpoint_age_seconds",
        "Age of the last committed checkpoint; time since the start before the first.",
        checkpoint.age_seconds,
    );
    page.gauge(
        "weir_checkpoint_last_number",
        "Number of the last committed checkpoint; 0 before the first.",
        checkpoint.last.unwrap_or(0) as f64,
    );
    page.gauge(
        "weir_checkpoint_failures_in_a_row",
        "Checkpoints that failed since the last committed one.",
        f64::from(checkpoint.failed_in_a_row),
    );
    let mut total = page.family(
        "weir_checkpoints_total",
        "counter",
        "Checkpoints of this process.",
    );
    total.of_job(",result=\"committed\"", checkpoint.committed as f64);
    total.of_job(",result=\"failed\"", checkpoint.failed as f64);
    if let Some(seconds) = checkpoint.took_seconds {
        page.gauge(
            "weir_checkpoint_duration_seconds",
            "From the barrier of the last checkpoint until its output was visible.",
            seconds,
        );
    }
    if let Some(seconds) = checkpoint.commit_seconds {
        page.gauge(
            "weir_checkpoint_commit_seconds",
            "Of that, what the commit took: a file, or a transaction of Kafka.",
            seconds,
        );
    }
    if let Some(bytes) = checkpoint.state_bytes {
        page.gauge(
            "weir_checkpoint_state_bytes",
            "State that the last checkpoint wrote.",
            bytes as f64,
        );
    }
}

fn tasks(page: &mut Page<'_>, status: &Status) {
    let of = |task: &Task| {
        [
            ("busy", task.busy, task.busy_seconds),
            ("idle", task.idle, task.idle_seconds),
            (
                "backpressured",
                task.backpressured,
                task.backpressured_seconds,
            ),
        ]
    };
    let mut ratio = page.family(
        "weir_subtask_ratio",
        "gauge",
        "Share of the last ten seconds that the subtask's thread was busy, without input, or without room downstream.",
    );
    for task in &status.tasks {
        for (state, ratio_of, _) in of(task) {
            ratio.of_task(task, &format!(",state=\"{state}\""), ratio_of);
        }
    }
    let mut seconds = page.family(
        "weir_subtask_seconds_total",
        "counter",
        "Time of the subtask's thread by what it did.",
    );
    for task in &status.tasks {
        for (state, _, seconds_of) in of(task) {
            seconds.of_task(task, &format!(",state=\"{state}\""), seconds_of);
        }
    }
    let mut queued = page.family(
        "weir_channel_bytes",
        "gauge",
        "Bytes that wait in the subtask's inbox.",
    );
    for task in status.tasks.iter().filter(|task| task.channels > 0) {
        queued.of_task(task, "", task.queued_bytes as f64);
    }
}

fn records(page: &mut Page<'_>, status: &Status) {
    type Count = (&'static str, &'static str, fn(&Node) -> u64);
    let counts: [Count; 8] = [
        (
            "weir_records_in_total",
            "Records that came in; for a source, that it took up.",
            |node| node.records_in,
        ),
        (
            "weir_records_out_total",
            "Records that went out; for a sink, that it wrote.",
            |node| node.records_out,
        ),
        (
            "weir_bytes_in_total",
            "Bytes of keys, values and headers that came in.",
            |node| node.bytes_in,
        ),
        (
            "weir_bytes_out_total",
            "Bytes of keys, values and headers that went out; for a sink, that it wrote.",
            |node| node.bytes_out,
        ),
        (
            "weir_late_records_total",
            "Records at or behind the watermark of the first operator that they reached.",
            |node| node.late,
        ),
        (
            "weir_skipped_records_total",
            "Input and records left out by `on_error: skip`.",
            |node| node.skipped,
        ),
        (
            "weir_dead_letters_total",
            "Input and records sent to a dead-letter sink.",
            |node| node.dead_letters,
        ),
        (
            "weir_null_keys_total",
            "Records left out by `null_key: skip`.",
            |node| node.null_keys,
        ),
    ];
    for (name, help, count) in counts {
        page.nodes((name, "counter", help), status, |node| {
            Some(count(node) as f64)
        });
    }
    page.nodes(
        (
            "weir_watermark_lag_seconds",
            "gauge",
            "How far the watermark is behind the wall clock; absent without one and at the end of input.",
        ),
        status,
        |node| node.watermark_lag_seconds,
    );
}

fn operators(page: &mut Page<'_>, status: &Status) {
    let mut calls = page.family(
        "weir_operator_call_seconds",
        "summary",
        "Time in calls of the operator, a batch of records or timers each.",
    );
    for task in &status.tasks {
        for node in &task.nodes {
            if let Some(operator) = &node.operator {
                calls.of_node(task, node, "_sum", operator.call_seconds);
                calls.of_node(task, node, "_count", operator.calls as f64);
            }
        }
    }
    type Gauge = (
        &'static str,
        &'static str,
        fn(&super::status::Operator) -> u64,
    );
    let gauges: [Gauge; 5] = [
        (
            "weir_guest_memory_bytes",
            "Memory of the operator's instance.",
            |operator| operator.guest_bytes,
        ),
        (
            "weir_guest_memory_limit_bytes",
            "Memory that the operator's instance may have.",
            |operator| operator.guest_limit_bytes,
        ),
        (
            "weir_state_bytes",
            "Keys, names and values that the operator holds.",
            |operator| operator.state_bytes,
        ),
        (
            "weir_state_entries",
            "Values, items and entries that the operator holds.",
            |operator| operator.state_entries,
        ),
        ("weir_timers", "Timers that are set.", |operator| {
            operator.timers
        }),
    ];
    for (name, help, gauge) in gauges {
        page.nodes((name, "gauge", help), status, |node| {
            node.operator
                .as_ref()
                .map(|operator| gauge(operator) as f64)
        });
    }
}

fn sources(page: &mut Page<'_>, status: &Status) {
    for (unit, name, help) in [
        (
            "bytes",
            "weir_source_lag_bytes",
            "Bytes of files that are not read yet.",
        ),
        (
            "records",
            "weir_source_lag_records",
            "Records that are not read yet, where their number is known.",
        ),
    ] {
        page.nodes((name, "gauge", help), status, |node| {
            let source = node.source.as_ref().filter(|source| source.unit == unit);
            let left = source.map(|source| source.of.saturating_sub(source.read));
            let behind = node.lag_records.filter(|_| unit == "records");
            left.or(behind).map(|lag| lag as f64)
        });
    }
    page.nodes(
        (
            "weir_source_files_left",
            "gauge",
            "Files that are not read to their end yet.",
        ),
        status,
        |node| {
            let (done, all) = node.source.as_ref()?.files?;
            Some(all.saturating_sub(done) as f64)
        },
    );
}

fn system(page: &mut Page<'_>, status: &Status) {
    if let Some(bytes) = status.resident_bytes {
        page.gauge(
            "weir_process_resident_bytes",
            "Memory of the process.",
            bytes as f64,
        );
    }
    let mut free = page.family(
        "weir_disk_free_bytes",
        "gauge",
        "Room on the file system of the data directory and of checkpoint storage.",
    );
    for disk in &status.disks {
        free.of_job(
            &format!(",directory=\"{}\"", disk.what),
            disk.free_bytes as f64,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shown;
    use super::super::status::{Operator, Source};
    use super::*;

    fn status() -> Status {
        let mut status = Shown::new("flight-delays").status();
        let node = |id: &str, kind: &str| Node {
            id: id.to_owned(),
            kind: kind.to_owned(),
            records_in: 10,
            records_out: 9,
            bytes_in: 100,
            bytes_out: 90,
            in_rate: 1.5,
            out_rate: 1.5,
            late: 1,
            skipped: 0,
            dead_letters: 1,
            null_keys: 0,
            watermark_millis: Some(0),
            watermark_lag_seconds: Some(2.5),
            operator: None,
            source: None,
            lag_records: None,
        };
        let task = |name: &str, nodes: Vec<Node>| Task {
            name: name.to_owned(),
            subtask: 1,
            doing: "working".to_owned(),
            doing_seconds: None,
            waits_for: None,
            busy: 0.5,
            idle: 0.25,
            backpressured: 0.25,
            busy_seconds: 2.0,
            idle_seconds: 1.0,
            backpressured_seconds: 1.0,
            queued_bytes: 77,
            channels: nodes.len() - 1,
            channels_aligned: 0,
            passed: 3,
            nodes,
        };
        let mut source = node("flights", "source");
        source.source = Some(Source {
            unit: "bytes".to_owned(),
            read: 30,
            of: 100,
            files: Some((1, 3)),
        });
        source.lag_records = Some(12);
        let mut operator = node("daily", "operator");
        operator.operator = Some(Operator {
            calls: 4,
            call_seconds: 0.125,
            guest_bytes: 1_114_112,
            guest_limit_bytes: 536_870_912,
            state_bytes: 1_000,
            state_entries: 10,
            timers: 2,
        });
        status.tasks = vec![
            task("flights[1]", vec![source]),
            task("daily+out[1]", vec![operator, node("out", "sink")]),
        ];
        status
    }

    #[test]
    fn every_line_is_one_of_the_format_and_every_sample_has_its_type_before_it() {
        let text = render(&status());
        assert!(text.ends_with('\n'));
        let mut typed = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("name and kind");
                assert!(["gauge", "counter", "summary"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                typed = name.to_owned();
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').expect("series and value");
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
                let (name, labels) = series.split_once('{').expect("labels");
                assert!(name.starts_with(&typed), "{line} after {typed}");
                assert!(labels.starts_with("job=\"flight-delays\"") && labels.ends_with('}'));
            }
        }
    }

    #[test]
    fn what_an_alert_is_made_of_is_there() {
        let text = render(&status());
        for line in [
            "weir_job_state{job=\"flight-delays\",state=\"starting\"} 1",
            "weir_job_state{job=\"flight-delays\",state=\"running\"} 0",
            "weir_subtask_ratio{job=\"flight-delays\",operator=\"daily\",subtask=\"1\",state=\"busy\"} 0.5",
            "weir_channel_bytes{job=\"flight-delays\",operator=\"daily\",subtask=\"1\"} 77",
            "weir_dead_letters_total{job=\"flight-delays\",operator=\"daily\",subtask=\"1\"} 1",
            "weir_operator_call_seconds_sum{job=\"flight-delays\",operator=\"daily\",subtask=\"1\"} 0.125",
            "weir_guest_memory_limit_bytes{job=\"flight-delays\",operator=\"daily\",subtask=\"1\"} 536870912",
            "weir_source_lag_bytes{job=\"flight-delays\",operator=\"flights\",subtask=\"1\"} 70",
            "weir_source_lag_records{job=\"flight-delays\",operator=\"flights\",subtask=\"1\"} 12",
            "weir_source_files_left{job=\"flight-delays\",operator=\"flights\",subtask=\"1\"} 2",
            "weir_watermark_lag_seconds{job=\"flight-delays\",operator=\"out\",subtask=\"1\"} 2.5",
        ] {
            assert!(text.contains(&format!("{line}\n")), "no {line} in\n{text}");
        }
        assert!(!text.contains("weir_channel_bytes{job=\"flight-delays\",operator=\"flights\""));
        assert!(!text.contains("weir_checkpoint_"), "it takes none");
    }
}
