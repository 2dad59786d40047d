//! From what a job file says to a job that can run: defaults, ranges, absolute paths, and every rule between fields.
//!
//! The one place for rules. Each mistake is reported at its place and the rest is still looked at; only rules about the
//! graph as a whole wait until every node and input of it is understood, because they would blame the innocent.

mod config;
mod directories;
mod file_sink;
mod graph;
mod kafka;
mod node;
mod source;

use std::collections::HashMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::{
    CheckpointSection, DeliveryName, JobFile, OperatorEntry, RestartSection, RestartStrategy,
    SinkEntry, SourceEntry,
};
use super::forms::{DurationText, Entries, SizeText};
use super::model::{CheckpointSettings, Delivery, Job, JobName, NodeId, Place, Restart};
use super::report::Report;
use super::tree::{Node, shorten};
use super::wording::subject;
use crate::diagnostic::Diagnostic;
use crate::units::{ByteSize, format_duration};

/// Sources, operators and sinks together.
const MAX_NODES: usize = 1_000;

/// Most key groups a job can have: bounds the tables that each subtask keeps.
const MAX_MAX_PARALLELISM: u64 = 32_768;

/// Less memory than this no process gets by with.
const MIN_MEMORY: u64 = 32 << 20;

const DEFAULT_MAX_PARALLELISM: u64 = 128;

const NAME_HELP: &str = "1 to 64 of `a-z A-Z 0-9 - _`, the first a letter or digit";

/// A source, operator or sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Source,
    Operator,
    Sink,
}

impl Kind {
    fn section(self) -> &'static str {
        match self {
            Kind::Source => "sources",
            Kind::Operator => "operators",
            Kind::Sink => "sinks",
        }
    }
}

/// What the rules are checked against.
struct Check<'a> {
    report: &'a Report,
    tree: &'a Node,
    /// The job's name, as it is written.
    name: String,
    /// Whether this weir has Kafka's connectors.
    has_kafka: bool,
    /// The folder of the job file, absolute.
    dir: PathBuf,
    max_parallelism: u16,
    /// Every id of the file with its kind, that of a node with mistakes too.
    known: HashMap<String, Kind>,
}

/// Checks `raw`, read from `tree` of the absolute `file`. `None` if something was reported.
pub(super) fn check(
    raw: JobFile,
    tree: &Node,
    report: &Report,
    file: &Path,
    has_kafka: bool,
) -> Option<Job> {
    debug_assert_eq!(
        raw.version,
        super::VERSION,
        "other versions are refused before"
    );
    let JobFile {
        sources,
        operators,
        sinks,
        ..
    } = &raw;
    let sections = [
        (Kind::Source, ids(sources)),
        (Kind::Operator, ids(operators)),
        (Kind::Sink, ids(sinks)),
    ];
    let dir = file.parent().unwrap_or(file).to_owned();
    let mut check = Check {
        report,
        tree,
        name: raw.job.clone(),
        has_kafka,
        dir,
        max_parallelism: 1,
        known: HashMap::new(),
    };
    check.max_parallelism = check.max_parallelism(raw.max_parallelism);
    check.ids(sections)?;
    check.job(raw, file)
}

fn ids<T>(entries: &Entries<T>) -> Vec<String> {
    entries.0.iter().map(|(id, _)| id.clone()).collect()
}

/// What stands before `://`, if `text` is a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let mut bytes = scheme.bytes();
    let is_one = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'+' | b'.' | b'-'));
    is_one.then_some(scheme)
}

impl Check<'_> {
    /// An error at the value at `path`.
    fn error(&self, code: &'static str, path: &[&str], title: impl Into<String>) -> Diagnostic {
        self.report.error(code, self.tree.place_of(path), title)
    }

    fn push(&self, error: Diagnostic) {
        self.report.push(error);
    }

    /// Where the node's id stands.
    fn place(&self, kind: Kind, id: &str) -> Place {
        self.tree.place_of(&[kind.section(), id])
    }

    /// `path`, relative to the job file, made absolute; it need not exist.
    fn absolute(&self, path: &[&str], text: &str) -> Option<PathBuf> {
        if text.is_empty() {
            self.push(self.error("W0109", path, format!("{} is empty", subject(path))));
            return None;
        }
        // Collecting the components leaves out `.`, so that equal paths compare equal.
        Some(self.dir.join(text).components().collect())
    }

    /// The path of a directory that the job writes, made absolute. Object storage is for a later release.
    fn directory(&self, path: &[&str], text: &str) -> Option<PathBuf> {
        let Some(scheme) = scheme(text) else {
            return self.absolute(path, text);
        };
        let what = if scheme == "file" {
            "a URL"
        } else {
            "object storage"
        };
        let title = format!(
            "{}: {what} (`{}://`) is not supported yet",
            subject(path),
            shorten(scheme)
        );
        self.push(
            self.error("W0103", path, title)
                .help("name a local directory by its path, as in `out` or `/data/out`"),
        );
        None
    }

    /// A number, `default` where there is none.
    fn number(
        &self,
        path: &[&str],
        number: Option<u64>,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> u64 {
        let number = number.unwrap_or(default);
        if !range.contains(&number) {
            let must = match (*range.start(), *range.end()) {
                (start, u64::MAX) => format!("at least {start}"),
                (start, end) => format!("{start} to {end}"),
            };
            let title = format!("{} must be {must}, not {number}", subject(path));
            self.push(self.error("W0109", path, title));
        }
        number
    }

    /// A duration above zero, `default` where there is none.
    fn duration(&self, path: &[&str], text: Option<DurationText>, default: Duration) -> Duration {
        let duration = text.map_or(default, |DurationText(duration)| duration);
        if duration.is_zero() {
            let title = format!("{} must be more than zero", subject(path));
            self.push(self.error("W0109", path, title));
        }
        duration
    }

    /// A duration for a message, and whether it is a default.
    fn shown(&self, path: &[&str], duration: Duration) -> String {
        let default = if self.tree.has(path) {
            ""
        } else {
            " (default)"
        };
        format!("{}{default}", format_duration(duration))
    }

    fn max_parallelism(&self, number: Option<u64>) -> u16 {
        let range = 1..=MAX_MAX_PARALLELISM;
        let number = self.number(&["max_parallelism"], number, range, DEFAULT_MAX_PARALLELISM);
        number.min(MAX_MAX_PARALLELISM) as u16
    }

    /// A parallelism, the job's or a node's own.
    fn parallelism(&self, path: &[&str], number: Option<u64>) -> Option<u16> {
        let (number, max) = (number?, self.max_parallelism);
        let error = if number == 0 {
            self.error("W0117", path, format!("{} is 0", subject(path)))
                .note(format!("it must be 1 to {max} (`max_parallelism`)"))
        } else if number > u64::from(max) {
            let is_default = self.tree.child("max_parallelism").is_none();
            let default = if is_default { " (default)" } else { "" };
            let title = format!(
                "{} is {number}, above `max_parallelism` {max}{default}",
                subject(path)
            );
            self.error("W0117", path, title)
                .help("`max_parallelism` is fixed for the life of a job; lower the parallelism unless the job is new")
        } else {
            return Some(number as u16);
        };
        self.push(error);
        None
    }

    /// Reports that a field belongs to something else.
    fn misplaced(&self, path: &[&str], needs: impl Display) {
        self.push(self.error("W0120", path, format!("{} {needs}", subject(path))));
    }

    /// Checks the ids' alphabet, that none is used twice, and that there are sources and sinks, and not too many nodes.
    fn ids(&mut self, sections: [(Kind, Vec<String>); 3]) -> Option<()> {
        let nodes: usize = sections.iter().map(|(_, ids)| ids.len()).sum();
        if nodes > MAX_NODES {
            let title = format!("{nodes} sources, operators and sinks; at most {MAX_NODES}");
            self.push(self.error("W0123", &[], title));
            return None;
        }
        for (kind, ids) in sections {
            if ids.is_empty() && kind != Kind::Operator {
                let section = kind.section();
                let title = format!("`{section}` is empty: a job needs at least one");
                self.push(self.error("W0104", &[section], title));
            }
            for id in ids {
                let path = [kind.section(), id.as_str()];
                if NodeId::new(id.as_str()).is_none() {
                    let title = format!("`{}` is not an id", shorten(&id));
                    let place = self.place(kind, &id);
                    self.push(self.report.error("W0109", place, title).note(NAME_HELP));
                }
                if let Some(first) = self.known.get(&id) {
                    let at = self.place(*first, &id);
                    let title = format!("id `{id}` is used twice");
                    let first = subject(&[first.section(), &id]);
                    self.push(
                        self.report
                            .error("W0111", self.tree.place_of(&path), title)
                            .note(format!(
                                "the first one is {first} at {}:{}",
                                at.line, at.column
                            )),
                    );
                } else {
                    self.known.insert(id, kind);
                }
            }
        }
        Some(())
    }

    fn job(&self, raw: JobFile, file: &Path) -> Option<Job> {
        let name = JobName::new(raw.job.as_str());
        if name.is_none() {
            let title = format!("`{}` is not a job's name", shorten(&raw.job));
            self.push(
                self.error("W0109", &["job"], title)
                    .note("1 to 64 of `a-z A-Z 0-9 - _ .`, the first a letter or digit"),
            );
        }
        let parallelism = self.parallelism(&["parallelism"], raw.parallelism);
        let memory = self.memory(raw.memory);
        let checkpoint = raw.checkpoint.map(|section| self.checkpoint(section));
        let restart = raw
            .restart
            .map_or_else(Restart::default, |section| self.restart(section));

        let interval = checkpoint.clone().unwrap_or_default().interval;
        let metrics = raw
            .metrics
            .and_then(|section| self.address(&["metrics", "listen"], &section.listen));

        let Entries(sources) = raw.sources;
        let Entries(operators) = raw.operators;
        let Entries(sinks) = raw.sinks;
        let nodes = sources.len() + operators.len() + sinks.len();
        let mut paths = 0;
        let sources: Vec<_> = sources
            .into_iter()
            .filter_map(|(id, raw): (String, SourceEntry)| self.source(&id, raw, &mut paths))
            .collect();
        let operators: Vec<_> = operators
            .into_iter()
            .filter_map(|(id, raw): (String, OperatorEntry)| self.operator(&id, raw))
            .collect();
        let sinks: Vec<_> = sinks
            .into_iter()
            .filter_map(|(id, raw): (String, SinkEntry)| self.sink(&id, raw, interval))
            .collect();
        let complete = nodes == sources.len() + operators.len() + sinks.len();

        let job = Job {
            name: name?,
            file: file.to_owned(),
            dir: self.dir.clone(),
            delivery: raw.delivery.map(|name| match name {
                DeliveryName::AtMostOnce => Delivery::AtMostOnce,
                DeliveryName::AtLeastOnce => Delivery::AtLeastOnce,
                DeliveryName::ExactlyOnce => Delivery::ExactlyOnce,
            }),
            parallelism,
            max_parallelism: self.max_parallelism,
            memory,
            checkpoint,
            restart,
            metrics,
            sources,
            operators,
            sinks,
        };
        self.delivery(&job);
        self.directories(&job);
        let exactly_once = self.may_be_exactly_once(&job);
        self.topic_uses(&job, exactly_once);
        self.transactions(&job, exactly_once);
        self.dead_letters(&job);
        self.letters_have_a_topic(&job);
        if self.references(&job) && complete {
            self.unused(&job);
            self.exchanges(&job);
            self.cycles(&job);
        }
        self.report.is_empty().then_some(job)
    }

    /// An IP address with a port. Names are left to whoever can look them up: they may mean several addresses, or change.
    fn address(&self, path: &[&str], text: &str) -> Option<SocketAddr> {
        let address = text.parse().ok();
        if address.is_none() {
            let title = format!("{} is no address: `{}`", subject(path), shorten(text));
            self.push(self.error("W0109", path, title).note(
                "it must be an IP address and a port, as in `127.0.0.1:9090`, `0.0.0.0:9090` or `[::1]:9090`",
            ));
        }
        address
    }

    fn memory(&self, raw: Option<SizeText>) -> Option<u64> {
        let SizeText(bytes) = raw?;
        if bytes < MIN_MEMORY {
            let title = format!("`memory` is {}", ByteSize(bytes));
            let note = format!("it must be {} or more", ByteSize(MIN_MEMORY));
            self.push(self.error("W0109", &["memory"], title).note(note));
        }
        Some(bytes)
    }

    fn checkpoint(&self, raw: CheckpointSection) -> CheckpointSettings {
        let default = CheckpointSettings::default();
        let path = |field| ["checkpoint", field];
        let settings = CheckpointSettings {
            dir: raw.dir.and_then(|dir| self.directory(&path("dir"), &dir)),
            interval: self.duration(&path("interval"), raw.interval, default.interval),
            timeout: self.duration(&path("timeout"), raw.timeout, default.timeout),
            fail_after: self.duration(&path("fail_after"), raw.fail_after, default.fail_after),
            retain: self.number(&path("retain"), raw.retain, 1..=1_000, 3) as u32,
            reserve: raw.reserve.map(|SizeText(bytes)| bytes),
        };
        // Otherwise one slow but good checkpoint would fail the job.
        let CheckpointSettings {
            interval,
            timeout,
            fail_after,
            ..
        } = &settings;
        if interval.saturating_add(*timeout) > *fail_after {
            let shown = |field, value: &Duration| self.shown(&path(field), *value);
            let error = self
                .error(
                    "W0118",
                    &["checkpoint"],
                    "the job would fail before a checkpoint times out",
                )
                .note(format!(
                    "`interval` {} + `timeout` {} is more than `fail_after` {}",
                    shown("interval", interval),
                    shown("timeout", timeout),
                    shown("fail_after", fail_after),
                ));
            let least = format_duration(interval.saturating_add(*timeout));
            self.push(error.help(format!("set `fail_after` to at least {least}")));
        }
        settings
    }

    fn restart(&self, raw: RestartSection) -> Restart {
        let path = |field| ["restart", field];
        let (strategy, fields): (_, &[&str]) = match raw.strategy {
            RestartStrategy::None => ("none", &[]),
            RestartStrategy::Fixed => ("fixed", &["delay", "give_up_after"]),
            RestartStrategy::Exponential => ("exponential", &["first", "max", "give_up_after"]),
            RestartStrategy::FailureRate => ("failure-rate", &["failures", "within", "delay"]),
        };
        for (field, given) in [
            ("delay", raw.delay.is_some()),
            ("first", raw.first.is_some()),
            ("max", raw.max.is_some()),
            ("give_up_after", raw.give_up_after.is_some()),
            ("failures", raw.failures.is_some()),
            ("within", raw.within.is_some()),
        ] {
            if given && !fields.contains(&field) {
                self.misplaced(
                    &path(field),
                    format!("does not belong to `strategy: {strategy}`"),
                );
            }
        }
        let delay = raw
            .delay
            .map_or(Duration::from_secs(1), |DurationText(delay)| delay);
        let give_up_after =
            |given| self.number(&path("give_up_after"), given, 1..=1_000_000, 10) as u32;
        match raw.strategy {
            RestartStrategy::None => Restart::None,
            RestartStrategy::Fixed => Restart::Fixed {
                delay,
                give_up_after: give_up_after(raw.give_up_after),
            },
            RestartStrategy::Exponential => {
                let first = self.duration(&path("first"), raw.first, Duration::from_secs(1));
                let max = self.duration(&path("max"), raw.max, Duration::from_secs(120).max(first));
                if first > max {
                    let (first, max) = (format_duration(first), format_duration(max));
                    let title = format!("`restart.first` {first} is more than `restart.max` {max}");
                    self.push(self.error("W0118", &path("first"), title));
                }
                Restart::Exponential {
                    first,
                    max,
                    give_up_after: give_up_after(raw.give_up_after),
                }
            }
            RestartStrategy::FailureRate => {
                for (field, given) in [
                    ("failures", raw.failures.is_some()),
                    ("within", raw.within.is_some()),
                ] {
                    if !given {
                        let title = format!("missing field `{field}` in `restart`");
                        let error = self.error("W0104", &["restart"], title);
                        self.push(
                            error.note("`strategy: failure-rate` needs `failures` and `within`"),
                        );
                    }
                }
                let failures = self.number(&path("failures"), raw.failures, 1..=1_000_000, 1);
                let within = self.duration(&path("within"), raw.within, Duration::from_secs(1));
                Restart::FailureRate {
                    failures: failures as u32,
                    within,
                    delay,
                }
            }
        }
    }
}
