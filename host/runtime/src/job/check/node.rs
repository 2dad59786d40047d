//! Operators, sinks, and what feeds them.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Check, Kind};
use crate::job::file::{
    Component, Edge, ErrorPolicyEntry, ErrorPolicyName, ExchangeName, Input as RawInput,
    LimitsSection, NullKeyName, OperatorEntry, PinnedComponent, SinkEntry,
};
use crate::job::forms::{OneOrMany, SizeText};
use crate::job::model::{
    ErrorPolicy, Exchange, Input, Limits, NodeId, NullKey, Operator, Place, Sink, SinkConnector,
};
use crate::job::suggest::nearest;
use crate::job::tree::shorten;
use crate::job::wording::{list, subject};
use crate::units::ByteSize;

/// What a component's memory can be limited to. Addresses in it have 32 bits.
const MEMORY_LIMIT: RangeInclusive<u64> = 1 << 20..=4 << 30;

/// What a call's output and a value can be limited to: what fits one host call.
const CALL_LIMIT: RangeInclusive<u64> = 1..=64 << 20;

impl Check<'_> {
    /// Checks that one connector is there, and reports otherwise.
    pub(super) fn one_connector(&self, kind: Kind, id: &str, given: [(&str, bool); 4]) -> bool {
        let path = [kind.section(), id];
        let all = given.map(|(name, _)| name);
        let mut there = given
            .iter()
            .filter(|(_, there)| *there)
            .map(|(name, _)| *name);
        let error = match (there.next(), there.next()) {
            (Some(_), None) => return true,
            (None, _) => self
                .error(
                    "W0121",
                    &path,
                    format!("{} has no connector", subject(&path)),
                )
                .note(format!("it needs one of {}", list(all))),
            (Some(first), Some(second)) => {
                let title = format!(
                    "{} has two connectors: {}",
                    subject(&path),
                    list([first, second])
                );
                self.error("W0121", &[kind.section(), id, second], title)
                    .help(format!(
                        "make a {} of its own for each",
                        kind.section().trim_end_matches('s')
                    ))
            }
        };
        self.push(error);
        false
    }

    pub(super) fn operator(&self, id: &str, raw: OperatorEntry) -> Option<Operator> {
        let path = |field| ["operators", id, field];
        let (file, file_path, sha256) = match raw.component {
            Component::Path(file) => (file, vec!["operators", id, "component"], None),
            Component::Pinned(PinnedComponent { file, sha256 }) => {
                (file, vec!["operators", id, "component", "file"], sha256)
            }
        };
        let component = self.absolute(&file_path, &file);
        let sha256 = sha256.map(|hash| hash.to_ascii_lowercase());
        if let Some(hash) = &sha256
            && !(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            let path = ["operators", id, "component", "sha256"];
            let title = format!("{} is not a SHA-256", subject(&path));
            self.push(
                self.error("W0109", &path, title)
                    .note("it is 64 hexadecimal digits"),
            );
        }
        let inputs = match (raw.input, raw.inputs) {
            (Some(_), Some(_)) => {
                self.misplaced(&path("inputs"), "and `input` exclude each other");
                None
            }
            (None, None) => {
                let title = format!("missing field `input` in operator `{id}`");
                self.push(
                    self.error("W0104", &["operators", id], title)
                        .help("name what feeds it: `input: ID`, or `inputs: {NAME: ID, …}` by the component's inputs"),
                );
                None
            }
            (Some(input), None) => self.inputs(&path("input"), None, input),
            (None, Some(ports)) => {
                if ports.0.is_empty() {
                    self.misplaced(&path("inputs"), "is empty");
                }
                let inputs: Vec<_> = ports
                    .0
                    .into_iter()
                    .map(|(port, input)| {
                        let path = ["operators", id, "inputs", &port];
                        if NodeId::new(port.as_str()).is_none() {
                            let title = format!("`{}` is not the name of an input", shorten(&port));
                            self.push(self.error("W0109", &path, title).note(super::NAME_HELP));
                        }
                        self.inputs(&path, Some(&port), input)
                    })
                    .collect();
                inputs
                    .into_iter()
                    .collect::<Option<Vec<_>>>()
                    .map(|inputs| inputs.concat())
            }
        };
        Some(Operator {
            id: NodeId::new(id)?,
            place: self.place(Kind::Operator, id),
            component: component?,
            sha256,
            inputs: inputs?,
            config: raw.config.unwrap_or_default().to_string(),
            config_places: super::config::places(self.tree, id),
            parallelism: self.parallelism(&path("parallelism"), raw.parallelism),
            null_key: match raw.null_key {
                None | Some(NullKeyName::Fail) => NullKey::Fail,
                Some(NullKeyName::Skip) => NullKey::Skip,
            },
            limits: self.limits(id, raw.limits),
            on_error: self.error_policy(Kind::Operator, id, raw.on_error)?,
        })
    }

    pub(super) fn sink(&self, id: &str, raw: SinkEntry, interval: Duration) -> Option<Sink> {
        let path = |field| ["sinks", id, field];
        let given = [
            ("file", raw.file.is_some()),
            ("kafka", raw.kafka.is_some()),
            ("stdout", raw.stdout.is_some()),
            ("blackhole", raw.blackhole.is_some()),
        ];
        let one = self.one_connector(Kind::Sink, id, given);
        if raw.on_error.is_some() && raw.kafka.is_none() {
            self.misplaced(
                &path("on_error"),
                "is for `kafka` only: what another sink cannot write fails the job",
            );
        }
        let connector = match (raw.file, raw.kafka, raw.stdout, raw.blackhole) {
            (Some(file), ..) => self.file_sink(id, file, interval),
            (_, Some(kafka), ..) => self.kafka_sink(id, kafka),
            (_, _, Some(_), _) => Some(SinkConnector::Stdout),
            (.., Some(_)) => Some(SinkConnector::Blackhole),
            (None, None, None, None) => None,
        };
        let parallelism = self.parallelism(&path("parallelism"), raw.parallelism);
        if let (Some(SinkConnector::Stdout), Some(2..)) = (&connector, parallelism) {
            let title =
                format!("sink `{id}` writes to standard output: its parallelism is always 1");
            self.push(self.error("W0117", &path("parallelism"), title));
        }
        let inputs = match raw.input {
            Some(input) => self.inputs(&path("input"), None, input),
            None => Some(Vec::new()),
        };
        let on_error = self.error_policy(Kind::Sink, id, raw.on_error);
        let connector = connector?;
        one.then_some(Sink {
            id: NodeId::new(id)?,
            place: self.place(Kind::Sink, id),
            inputs: inputs?,
            connector,
            on_error: on_error?,
            parallelism,
        })
    }

    /// The inputs at `path`. `None` if one was reported.
    fn inputs(
        &self,
        path: &[&str],
        port: Option<&str>,
        raw: OneOrMany<RawInput>,
    ) -> Option<Vec<Input>> {
        let (raw, is_list) = raw.into_list();
        if raw.is_empty() {
            self.misplaced(path, "is empty");
            return None;
        }
        let mut seen = HashSet::new();
        let inputs: Vec<_> = raw
            .into_iter()
            .enumerate()
            .map(|(index, raw)| {
                let index = index.to_string();
                let mut path = path.to_vec();
                if is_list {
                    path.push(&index);
                }
                let input = self.input(&path, port, raw)?;
                if !seen.insert((input.from.clone(), input.output.clone())) {
                    let title = "is the same input again: its records would count twice";
                    self.misplaced(&path, title);
                }
                Some(input)
            })
            .collect();
        inputs.into_iter().collect()
    }

    fn input(&self, path: &[&str], port: Option<&str>, raw: RawInput) -> Option<Input> {
        let (path, Edge { from, exchange }) = match raw {
            RawInput::From(from) => (
                path.to_vec(),
                Edge {
                    from,
                    exchange: None,
                },
            ),
            RawInput::Edge(edge) => ([path, &["from"]].concat(), edge),
        };
        let (id, output) = match from.split_once('.') {
            Some((id, output)) => (id, Some(output)),
            None => (from.as_str(), None),
        };
        if let Some(output) = output
            && NodeId::new(output).is_none()
        {
            let title = format!("`{}` does not name an output", shorten(&from));
            self.push(
                self.error("W0109", &path, title)
                    .note("it is written `operator.output`"),
            );
            return None;
        }
        let Some(from) = NodeId::new(id) else {
            self.unknown(self.tree.place_of(&path), &subject(&path[..2]), id);
            return None;
        };
        Some(Input {
            port: port.map(str::to_owned),
            from,
            output: output.map(str::to_owned),
            exchange: exchange.map(|name| match name {
                ExchangeName::Forward => Exchange::Forward,
                ExchangeName::ByKey => Exchange::ByKey,
                ExchangeName::Rebalance => Exchange::Rebalance,
            }),
            place: self.tree.place_of(&path),
        })
    }

    fn limits(&self, id: &str, raw: Option<LimitsSection>) -> Limits {
        let Some(raw) = raw else {
            return Limits::default();
        };
        let size = |field, given: Option<SizeText>, range: RangeInclusive<u64>| {
            let path = ["operators", id, "limits", field];
            given.map(|SizeText(bytes)| {
                if !range.contains(&bytes) {
                    let title = format!("{} is {}", subject(&path), ByteSize(bytes));
                    let (least, most) = (ByteSize(*range.start()), ByteSize(*range.end()));
                    let note = format!("it must be {least} to {most}");
                    self.push(self.error("W0109", &path, title).note(note));
                }
                bytes
            })
        };
        let path = ["operators", id, "limits", "call_time"];
        Limits {
            memory: size("memory", raw.memory, MEMORY_LIMIT),
            call_time: raw
                .call_time
                .map(|time| self.duration(&path, Some(time), Duration::ZERO)),
            output: size("output", raw.output, CALL_LIMIT),
            value: size("value", raw.value, CALL_LIMIT),
        }
    }

    /// What happens to what node `id` cannot process.
    pub(super) fn error_policy(
        &self,
        kind: Kind,
        id: &str,
        raw: Option<ErrorPolicyEntry>,
    ) -> Option<ErrorPolicy> {
        Some(match raw {
            None | Some(ErrorPolicyEntry::Policy(ErrorPolicyName::Fail)) => ErrorPolicy::Fail,
            Some(ErrorPolicyEntry::Policy(ErrorPolicyName::Skip)) => ErrorPolicy::Skip,
            Some(ErrorPolicyEntry::DeadLetter(section)) => {
                ErrorPolicy::DeadLetter(self.dead_letter(kind, id, &section.dead_letter)?)
            }
        })
    }

    /// The sink that the node's dead letters go to.
    fn dead_letter(&self, kind: Kind, id: &str, sink: &str) -> Option<NodeId> {
        let path = [kind.section(), id, "on_error", "dead_letter"];
        let node = subject(&path[..2]);
        let error = match self.known.get(sink) {
            Some(Kind::Sink) => return NodeId::new(sink),
            Some(kind) => {
                let what = subject(&[kind.section(), sink]);
                let title = format!("dead letters of {node} go to {what}, which is not a sink");
                self.error("W0115", &path, title)
            }
            None => {
                let name = shorten(sink);
                let title = format!("dead letters of {node} go to `{name}`, which does not exist");
                self.error("W0115", &path, title)
            }
        };
        let sinks: Vec<_> = self.ids_of(|kind| kind == Kind::Sink);
        self.push(match nearest(sink, sinks.iter().copied()) {
            Some(meant) => error.note(format!("did you mean `{meant}`?")),
            None => error.help(format!("name one of the sinks: {}", list(sinks))),
        });
        None
    }

    /// Reports that no source or operator is called `id`.
    pub(super) fn unknown(&self, place: Place, reader: &str, id: &str) {
        let title = format!("{reader} reads `{}`, which does not exist", shorten(id));
        let readable = self.ids_of(|kind| kind != Kind::Sink);
        let error = self.report.error("W0112", place, title);
        self.push(match nearest(id, readable.iter().copied()) {
            Some(meant) => error.note(format!("did you mean `{meant}`?")),
            None => error.note(format!("there are {}", list(readable))),
        });
    }

    /// The ids of some kinds in the order of the file, at most ten, for messages.
    fn ids_of(&self, wanted: fn(Kind) -> bool) -> Vec<&str> {
        let ids = self.known.iter().filter(|(_, kind)| wanted(**kind));
        let mut ids: Vec<_> = ids
            .map(|(id, kind)| (self.place(*kind, id), id.as_str()))
            .collect();
        ids.sort_by_key(|(place, _)| (place.line, place.column));
        ids.into_iter().map(|(_, id)| id).collect()
    }
}
