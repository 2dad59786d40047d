//! Rules about the graph as a whole: who reads whom, circles, exchanges, what can be promised.

use std::collections::{HashMap, HashSet};

use super::{Check, Kind};
use crate::job::model::{
    Delivery, ErrorPolicy, Exchange, Input, Job, KafkaTopic, NodeId, SinkConnector, SourceConnector,
};
use crate::job::wording::subject;

/// A node that reads: its kind, id and inputs.
fn readers(job: &Job) -> impl Iterator<Item = (Kind, &NodeId, &[Input])> {
    let operators = job
        .operators
        .iter()
        .map(|it| (Kind::Operator, &it.id, it.inputs.as_slice()));
    let sinks = job
        .sinks
        .iter()
        .map(|it| (Kind::Sink, &it.id, it.inputs.as_slice()));
    operators.chain(sinks)
}

impl Check<'_> {
    fn error_at_input(
        &self,
        code: &'static str,
        input: &Input,
        title: String,
    ) -> crate::diagnostic::Diagnostic {
        self.report.error(code, input.place, title)
    }

    /// Checks that each input names something that has an output. Whether all do.
    pub(super) fn references(&self, job: &Job) -> bool {
        let mut all = true;
        for (kind, id, inputs) in readers(job) {
            let reader = subject(&[kind.section(), id.as_str()]);
            for input in inputs {
                let from = input.from.as_str();
                let error = match (self.known.get(from), &input.output) {
                    (Some(Kind::Operator), _) | (Some(Kind::Source), None) => continue,
                    (None, _) => {
                        self.unknown(input.place, &reader, from);
                        all = false;
                        continue;
                    }
                    (Some(Kind::Sink), _) => {
                        let title =
                            format!("{reader} reads sink `{from}`, and a sink has no output");
                        self.error_at_input("W0112", input, title)
                            .help(format!("read what feeds `{from}` instead"))
                    }
                    (Some(Kind::Source), Some(output)) => {
                        let title = format!("{reader} reads output `{output}` of source `{from}`");
                        self.error_at_input("W0112", input, title)
                            .note(format!("a source has one output: write `{from}`"))
                    }
                };
                self.push(error);
                all = false;
            }
        }
        all
    }

    /// Refuses what does nothing: sources and operators that nobody reads, sinks that nobody feeds.
    pub(super) fn unused(&self, job: &Job) {
        let read: HashSet<&NodeId> = readers(job)
            .flat_map(|(_, _, inputs)| inputs)
            .map(|input| &input.from)
            .collect();
        let sources = job
            .sources
            .iter()
            .map(|it| (Kind::Source, &it.id, it.place));
        let operators = job
            .operators
            .iter()
            .map(|it| (Kind::Operator, &it.id, it.place));
        for (kind, id, place) in sources
            .chain(operators)
            .filter(|(_, id, _)| !read.contains(id))
        {
            let title = format!("nothing reads {}", subject(&[kind.section(), id.as_str()]));
            self.push(
                self.report
                    .error("W0114", place, title)
                    .help("remove it, or give it a sink; `blackhole: {}` drops what it gets"),
            );
        }
        let sources = job.sources.iter().map(|source| &source.on_error);
        let operators = job.operators.iter().map(|operator| &operator.on_error);
        let sinks = job.sinks.iter().map(|sink| &sink.on_error);
        let policies = sources.chain(operators).chain(sinks);
        let dead_letters: HashSet<&NodeId> = policies
            .filter_map(|policy| match policy {
                ErrorPolicy::DeadLetter(sink) => Some(sink),
                ErrorPolicy::Fail | ErrorPolicy::Skip => None,
            })
            .collect();
        for sink in &job.sinks {
            if sink.inputs.is_empty() && !dead_letters.contains(&sink.id) {
                let title = format!("nothing feeds sink `{}`", sink.id);
                self.push(self.report.error("W0114", sink.place, title).help(
                    "give it an `input:`, or make it the `dead_letter` of a source, operator or Kafka sink",
                ));
            }
        }
    }

    /// Refuses operators that feed each other in a circle; each circle is printed once, in the direction of the records.
    pub(super) fn cycles(&self, job: &Job) {
        let upstream: HashMap<&NodeId, Vec<&NodeId>> = job
            .operators
            .iter()
            .map(|it| (&it.id, it.inputs.iter().map(|input| &input.from).collect()))
            .collect();
        // What is left after taking away, again and again, operators that depend on nothing left.
        let mut left: HashSet<&NodeId> = upstream.keys().copied().collect();
        loop {
            let free: Vec<&NodeId> = left
                .iter()
                .filter(|id| upstream[*id].iter().all(|from| !left.contains(from)))
                .copied()
                .collect();
            if free.is_empty() {
                break;
            }
            free.iter().for_each(|id| {
                left.remove(id);
            });
        }
        // From each of those some way upstream stays among them, and so comes back to itself.
        let mut seen: HashSet<&NodeId> = HashSet::new();
        for operator in job.operators.iter().filter(|it| left.contains(&it.id)) {
            let mut way: Vec<&NodeId> = Vec::new();
            let mut id = &operator.id;
            while seen.insert(id) {
                way.push(id);
                id = upstream[id]
                    .iter()
                    .find(|from| left.contains(*from))
                    .expect("what is left has an upstream that is left");
            }
            if let Some(start) = way.iter().position(|on_way| *on_way == id) {
                self.cycle(job, &way[start..]);
            }
        }
    }

    /// `upstream` is the circle, each fed by the next and the last by the first.
    fn cycle(&self, job: &Job, upstream: &[&NodeId]) {
        let first = job
            .operators
            .iter()
            .find(|it| upstream.contains(&&it.id))
            .expect("the circle consists of operators");
        let mut circle: Vec<&str> = upstream.iter().rev().map(|id| id.as_str()).collect();
        let start = circle
            .iter()
            .position(|id| *id == first.id.as_str())
            .unwrap_or(0);
        circle.rotate_left(start);
        circle.push(first.id.as_str());
        self.push(
            self.report
                .error(
                    "W0113",
                    first.place,
                    format!("operators in a circle: {}", circle.join(" -> ")),
                )
                .help("records would never come to an end; let one of them read something else"),
        );
    }

    /// Checks the exchanges that were asked for by name.
    pub(super) fn exchanges(&self, job: &Job) {
        // None where it is decided at start.
        let mut parallelism: HashMap<&NodeId, Option<u16>> = HashMap::new();
        for it in &job.sources {
            let one = matches!(it.connector, SourceConnector::Stdin).then_some(1);
            parallelism.insert(&it.id, one.or(it.parallelism).or(job.parallelism));
        }
        for it in &job.operators {
            parallelism.insert(&it.id, it.parallelism.or(job.parallelism));
        }
        for it in &job.sinks {
            let one = matches!(it.connector, SinkConnector::Stdout).then_some(1);
            parallelism.insert(&it.id, one.or(it.parallelism).or(job.parallelism));
        }
        for (kind, id, inputs) in readers(job) {
            for input in inputs {
                let from = self.known[input.from.as_str()];
                let upstream = subject(&[from.section(), input.from.as_str()]);
                let reader = subject(&[kind.section(), id.as_str()]);
                match input.exchange {
                    Some(Exchange::Forward) => {
                        if let (Some(up), Some(down)) = (parallelism[&input.from], parallelism[id])
                            && up != down
                        {
                            let title = format!("`exchange: forward` from {upstream} to {reader}");
                            self.push(
                                self.error_at_input("W0122", input, title)
                                    .note(format!(
                                        "it needs the same parallelism on both sides: {up} and {down} here"
                                    ))
                                    .help("use `rebalance`, or give both the same `parallelism`"),
                            );
                        }
                    }
                    Some(Exchange::ByKey) => {
                        let keyless = job.sources.iter().any(|source| {
                            source.id == input.from
                                && source.key.is_none()
                                && !matches!(
                                    source.connector,
                                    SourceConnector::Generator(_) | SourceConnector::Kafka(_)
                                )
                        });
                        if keyless {
                            let title =
                                format!("`exchange: by-key` from {upstream}, which gives no keys");
                            self.push(
                                self.error_at_input("W0122", input, title).help(
                                    "say which field is the key: `key: /FIELD` in the source",
                                ),
                            );
                        }
                    }
                    Some(Exchange::Rebalance) | None => {}
                }
            }
        }
    }

    /// Refuses dead letters of a sink that takes those of another sink, or its own: they might never come to an end.
    pub(super) fn dead_letters(&self, job: &Job) {
        let target = |policy: &ErrorPolicy| match policy {
            ErrorPolicy::DeadLetter(sink) => Some(sink.clone()),
            ErrorPolicy::Fail | ErrorPolicy::Skip => None,
        };
        for sink in &job.sinks {
            let Some(to) = target(&sink.on_error) else {
                continue;
            };
            let from = job
                .sinks
                .iter()
                .find(|other| target(&other.on_error).as_ref() == Some(&sink.id));
            let title = match from {
                _ if to == sink.id => format!("dead letters of sink `{}` go to itself", sink.id),
                Some(from) => format!(
                    "dead letters of sink `{}` go on to `{to}`, and it takes those of sink `{}`",
                    sink.id, from.id
                ),
                None => continue,
            };
            let path = ["sinks", sink.id.as_str(), "on_error", "dead_letter"];
            self.push(
                self.error("W0120", &path, title)
                    .help("a sink that takes dead letters of sinks has `on_error: fail` or `skip`"),
            );
        }
    }

    /// Refuses dead letters for a sink whose records name their topic: what could not be decoded names none.
    pub(super) fn letters_have_a_topic(&self, job: &Job) {
        let sources = job.sources.iter();
        let sources = sources.map(|it| (Kind::Source, &it.id, &it.on_error));
        let operators = job.operators.iter();
        let operators = operators.map(|it| (Kind::Operator, &it.id, &it.on_error));
        let sinks = job.sinks.iter();
        let sinks = sinks.map(|it| (Kind::Sink, &it.id, &it.on_error));
        for (kind, id, policy) in sources.chain(operators).chain(sinks) {
            let ErrorPolicy::DeadLetter(to) = policy else {
                continue;
            };
            let by_field = job.sinks.iter().any(|sink| {
                sink.id == *to
                    && matches!(&sink.connector, SinkConnector::Kafka(kafka)
                        if matches!(kafka.topic, KafkaTopic::Field { .. }))
            });
            if by_field {
                let path = [kind.section(), id.as_str(), "on_error", "dead_letter"];
                let title = format!(
                    "dead letters of {} go to sink `{to}`, whose records name their topic",
                    subject(&[kind.section(), id.as_str()])
                );
                self.push(self.error("W0120", &path, title).help(
                    "a dead letter may be nothing that has fields: make a sink with `topic: NAME` for them",
                ));
            }
        }
    }

    /// Whether the sources and sinks of the job, and what it asks for, leave exactly once possible.
    pub(super) fn may_be_exactly_once(&self, job: &Job) -> bool {
        let asked = matches!(job.delivery, None | Some(Delivery::ExactlyOnce));
        let mut sources = job.sources.iter();
        let mut sinks = job.sinks.iter();
        asked
            && sources.all(|source| source.connector != SourceConnector::Stdin)
            && sinks.all(|sink| sink.connector != SinkConnector::Stdout)
    }

    /// Refuses a delivery that a source or sink cannot give.
    pub(super) fn delivery(&self, job: &Job) {
        let wanted = match job.delivery {
            None | Some(Delivery::AtMostOnce) => return,
            Some(Delivery::AtLeastOnce) => "at-least-once",
            Some(Delivery::ExactlyOnce) => "exactly-once",
        };
        for source in &job.sources {
            if source.connector == SourceConnector::Stdin {
                let id = source.id.as_str();
                let title = format!("source `{id}` cannot give `delivery: {wanted}`");
                self.push(
                    self.error("W0119", &["sources", id, "stdin"], title)
                        .note("standard input cannot be read again after a failure")
                        .help("read a file, or leave `delivery` out to get what is possible"),
                );
            }
        }
        for sink in job
            .sinks
            .iter()
            .filter(|it| it.connector == SinkConnector::Stdout)
        {
            if job.delivery == Some(Delivery::ExactlyOnce) {
                let id = sink.id.as_str();
                let title = format!("sink `{id}` cannot give `delivery: {wanted}`");
                self.push(
                    self.error("W0119", &["sinks", id, "stdout"], title)
                        .note("what went to standard output cannot be taken back after a failure")
                        .help("write files, or leave `delivery` out to get what is possible"),
                );
            }
        }
    }
}
