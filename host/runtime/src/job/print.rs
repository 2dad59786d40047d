//! A checked job written out again: defaults, variables and paths filled in, secrets left out.
//!
//! What comes out is a job file, and reading it gives the same job (but for secrets).

pub(super) mod kafka;

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;

use super::model::{
    Compression, CsvOutput, Delivery, ErrorPolicy, Exchange, Format, Header, Input, Job,
    KeySelector, Limits, NullKey, Operator, Restart, Sink, SinkCompression, SinkConnector,
    SinkFormat, Source, SourceConnector, TimeFormat,
};
use crate::units::{ByteSize, format_duration};

/// Stands for a value that must not be shown.
const REDACTED: &str = "<redacted>";

/// Words that, in the name of a configuration field, say that its value must not be shown.
const SECRET_WORDS: [&str; 8] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "privatekey",
];

/// A value of the printed file. Unlike JSON's, its fields keep their order.
enum Out {
    /// Written as it is.
    Plain(String),
    /// Written in quotes.
    Text(String),
    List(Vec<Out>),
    Map(Vec<(String, Out)>),
}

impl From<u64> for Out {
    fn from(number: u64) -> Out {
        Out::Plain(number.to_string())
    }
}

impl From<&str> for Out {
    fn from(text: &str) -> Out {
        Out::Text(text.to_owned())
    }
}

impl From<Duration> for Out {
    fn from(duration: Duration) -> Out {
        Out::Plain(format_duration(duration))
    }
}

/// A mapping under construction.
#[derive(Default)]
struct Map(Vec<(String, Out)>);

impl Map {
    fn with(mut self, key: &str, value: impl Into<Out>) -> Map {
        self.0.push((key.to_owned(), value.into()));
        self
    }

    fn maybe(self, key: &str, value: Option<impl Into<Out>>) -> Map {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }
}

impl From<Map> for Out {
    fn from(Map(fields): Map) -> Out {
        Out::Map(fields)
    }
}

fn word(word: &str) -> Out {
    Out::Plain(word.to_owned())
}

/// `job` as a job file: YAML, ending in a newline.
pub fn print_resolved(job: &Job) -> String {
    let delivery = job.delivery.map(|delivery| {
        word(match delivery {
            Delivery::AtMostOnce => "at-most-once",
            Delivery::AtLeastOnce => "at-least-once",
            Delivery::ExactlyOnce => "exactly-once",
        })
    });
    let checkpoint = job.checkpoint.as_ref().map(|settings| {
        Map::default()
            .maybe("dir", settings.dir.as_ref().map(|dir| path(dir)))
            .with("interval", settings.interval)
            .with("timeout", settings.timeout)
            .with("fail_after", settings.fail_after)
            .with("retain", u64::from(settings.retain))
            .maybe(
                "reserve",
                settings
                    .reserve
                    .map(|bytes| word(&ByteSize(bytes).to_string())),
            )
    });
    let entries = |entries: Vec<(String, Out)>| Out::Map(entries);
    let file = Map::default()
        .with("version", super::VERSION)
        .with("job", job.name.as_str())
        .maybe("delivery", delivery)
        .maybe("parallelism", job.parallelism.map(u64::from))
        .with("max_parallelism", u64::from(job.max_parallelism))
        .maybe(
            "memory",
            job.memory.map(|bytes| word(&ByteSize(bytes).to_string())),
        )
        .maybe("checkpoint", checkpoint)
        .with("restart", restart(&job.restart))
        .maybe(
            "metrics",
            job.metrics
                .map(|address| Map::default().with("listen", address.to_string().as_str())),
        )
        .with(
            "sources",
            entries(
                job.sources
                    .iter()
                    .map(|it| (it.id.to_string(), source(it)))
                    .collect(),
            ),
        )
        .with(
            "operators",
            entries(
                job.operators
                    .iter()
                    .map(|it| (it.id.to_string(), operator(it)))
                    .collect(),
            ),
        )
        .with(
            "sinks",
            entries(
                job.sinks
                    .iter()
                    .map(|it| (it.id.to_string(), sink(it, job)))
                    .collect(),
            ),
        );
    let mut text = String::new();
    write_fields(&mut text, &file.0, 0);
    text
}

fn path(path: &std::path::Path) -> Out {
    Out::Text(path.to_string_lossy().into_owned())
}

fn restart(restart: &Restart) -> Out {
    let strategy = |name| Map::default().with("strategy", word(name));
    match restart {
        Restart::None => strategy("none"),
        Restart::Fixed {
            delay,
            give_up_after,
        } => strategy("fixed")
            .with("delay", *delay)
            .with("give_up_after", u64::from(*give_up_after)),
        Restart::Exponential {
            first,
            max,
            give_up_after,
        } => strategy("exponential")
            .with("first", *first)
            .with("max", *max)
            .with("give_up_after", u64::from(*give_up_after)),
        Restart::FailureRate {
            failures,
            within,
            delay,
        } => strategy("failure-rate")
            .with("failures", u64::from(*failures))
            .with("within", *within)
            .with("delay", *delay),
    }
    .into()
}

fn character(byte: u8) -> Out {
    Out::Text(char::from(byte).to_string())
}

fn quote_character(quote: Option<u8>) -> Out {
    quote.map_or_else(|| word("none"), character)
}

fn texts(texts: &[String]) -> Out {
    Out::List(texts.iter().map(|text| Out::from(text.as_str())).collect())
}

fn csv_output(output: &CsvOutput) -> Map {
    Map::default()
        .with("columns", texts(&output.columns))
        .with("delimiter", character(output.delimiter))
        .with("quote", quote_character(output.quote))
        .with("null", output.null.as_str())
        .with("header", word(if output.header { "true" } else { "false" }))
        .with(
            "missing",
            word(if output.missing_is_null {
                "empty"
            } else {
                "fail"
            }),
        )
}

fn format(map: Map, format: &Format) -> Map {
    match format {
        Format::Raw => map.with("format", word("raw")),
        Format::Text => map.with("format", word("string")),
        Format::Json => map.with("format", word("json")),
        Format::Csv {
            delimiter,
            quote,
            null,
            header,
        } => {
            let csv = Map::default()
                .with("delimiter", character(*delimiter))
                .with("quote", quote_character(*quote))
                .maybe("null", null.as_deref());
            let csv = match header {
                Header::First => csv,
                Header::Numbered => csv.with("header", word("false")),
                Header::Names(names) => csv.with("header", texts(names)),
            };
            map.with("format", word("csv")).with("csv", csv)
        }
    }
}

fn key(key: &KeySelector) -> Out {
    match key {
        KeySelector::Pointer(pointer) => Out::from(pointer.as_str()),
        KeySelector::Pointers(pointers) => texts(pointers),
    }
}

fn source(source: &Source) -> Out {
    let (connector, settings) = match &source.connector {
        SourceConnector::File {
            paths,
            compression,
            watch,
        } => {
            let paths = paths.iter().map(|path| Out::from(path.as_str())).collect();
            let map = Map::default().with("paths", Out::List(paths)).with(
                "compression",
                word(match compression {
                    Compression::Auto => "auto",
                    Compression::Plain => "none",
                    Compression::Gzip => "gzip",
                    Compression::Zstd => "zstd",
                }),
            );
            let map = map.maybe(
                "watch",
                watch.map(|every| Map::default().with("every", every)),
            );
            ("file", format(map, &source.format))
        }
        SourceConnector::Stdin => ("stdin", format(Map::default(), &source.format)),
        SourceConnector::Kafka(it) => ("kafka", format(kafka::source(it), &source.format)),
        SourceConnector::Generator(it) => {
            let start = jiff::Timestamp::from_millisecond(it.start)
                .map_or_else(|_| it.start.to_string(), |time| time.to_string());
            let map = Map::default()
                .with(
                    "records",
                    it.records.map_or_else(|| word("unbounded"), Out::from),
                )
                .with("keys", it.keys)
                .with("value_bytes", it.value_bytes as u64)
                .with("splits", u64::from(it.splits))
                .with("start", start.as_str())
                .with("step", Duration::from_micros(it.step_micros))
                .with("disorder", Duration::from_millis(it.disorder));
            ("generator", map)
        }
    };
    let key = source.key.as_ref().map(key);
    let event_time = source.event_time.as_ref().map(|it| {
        let format = match it.format {
            TimeFormat::Rfc3339 => "rfc3339",
            TimeFormat::Seconds => "seconds",
            TimeFormat::Millis => "millis",
            TimeFormat::Micros => "micros",
            TimeFormat::Nanos => "nanos",
        };
        let stamped = !it.field.is_empty();
        Map::default()
            .maybe("field", stamped.then_some(it.field.as_str()))
            .maybe("format", stamped.then(|| word(format)))
            .with("out_of_order", it.out_of_order)
            .with("idle", it.idle)
    });
    Map::default()
        .with(connector, settings)
        .maybe("key", key)
        .maybe("event_time", event_time)
        .with("on_error", error_policy(&source.on_error))
        .maybe("rate", source.rate)
        .maybe("parallelism", source.parallelism.map(u64::from))
        .into()
}

fn limits(limits: &Limits) -> Option<Out> {
    let size = |bytes: Option<u64>| bytes.map(|bytes| word(&ByteSize(bytes).to_string()));
    (*limits != Limits::default()).then(|| {
        Map::default()
            .maybe("memory", size(limits.memory))
            .maybe("call_time", limits.call_time)
            .maybe("output", size(limits.output))
            .maybe("value", size(limits.value))
            .into()
    })
}

fn error_policy(policy: &ErrorPolicy) -> Out {
    match policy {
        ErrorPolicy::Fail => word("fail"),
        ErrorPolicy::Skip => word("skip"),
        ErrorPolicy::DeadLetter(sink) => Map::default().with("dead_letter", sink.as_str()).into(),
    }
}

fn operator(operator: &Operator) -> Out {
    let component = Map::default()
        .with("file", path(&operator.component))
        .maybe("sha256", operator.sha256.as_deref());
    let map = Map::default().with("component", component);
    let (unnamed, named): (Vec<_>, Vec<_>) = operator
        .inputs
        .iter()
        .partition(|input| input.port.is_none());
    let map = if named.is_empty() {
        map.with("input", inputs(unnamed))
    } else {
        let mut ports: Vec<(String, Vec<&Input>)> = Vec::new();
        for input in named {
            let port = input.port.clone().unwrap_or_default();
            match ports.iter_mut().find(|(name, _)| *name == port) {
                Some((_, inputs)) => inputs.push(input),
                None => ports.push((port, vec![input])),
            }
        }
        let ports = ports
            .into_iter()
            .map(|(port, each)| (port, inputs(each)))
            .collect();
        map.with("inputs", Out::Map(ports))
    };
    // The model holds what the file's `config:` was parsed to, so it is JSON.
    let config: Value = serde_json::from_str(&operator.config).unwrap_or_default();
    let null_key = match operator.null_key {
        NullKey::Fail => "fail",
        NullKey::Skip => "skip",
    };
    map.with("config", json(&config))
        .with("null_key", word(null_key))
        .with("on_error", error_policy(&operator.on_error))
        .maybe("limits", limits(&operator.limits))
        .maybe("parallelism", operator.parallelism.map(u64::from))
        .into()
}

fn inputs(inputs: Vec<&Input>) -> Out {
    Out::List(
        inputs
            .into_iter()
            .map(|input| {
                let from = match &input.output {
                    Some(output) => format!("{}.{output}", input.from),
                    None => input.from.to_string(),
                };
                let exchange = input.exchange.map(|exchange| {
                    word(match exchange {
                        Exchange::Forward => "forward",
                        Exchange::ByKey => "by-key",
                        Exchange::Rebalance => "rebalance",
                    })
                });
                Map::default()
                    .with("from", from.as_str())
                    .maybe("exchange", exchange)
                    .into()
            })
            .collect(),
    )
}

fn sink(sink: &Sink, job: &Job) -> Out {
    let all: Vec<_> = sink.inputs.iter().collect();
    let map = Map::default().maybe("input", (!all.is_empty()).then(|| inputs(all)));
    let map = match &sink.connector {
        SinkConnector::File {
            dir,
            format,
            roll,
            compression,
        } => {
            let compressed = |method, level: &u8| {
                Map::default()
                    .with("method", word(method))
                    .with("level", u64::from(*level))
                    .into()
            };
            let compression: Out = match compression {
                SinkCompression::None => word("none"),
                SinkCompression::Gzip { level } => compressed("gzip", level),
                SinkCompression::Zstd { level } => compressed("zstd", level),
            };
            let (format, csv) = match format {
                SinkFormat::Raw => ("raw", None),
                SinkFormat::Json => ("json", None),
                SinkFormat::Csv(output) => ("csv", Some(csv_output(output))),
            };
            map.with(
                "file",
                Map::default()
                    .with("dir", path(dir))
                    .with("format", word(format))
                    .maybe("csv", csv)
                    .with(
                        "roll",
                        Map::default()
                            .with("size", word(&ByteSize(roll.size).to_string()))
                            .with("age", roll.age),
                    )
                    .with("compression", compression),
            )
        }
        SinkConnector::Stdout => map.with("stdout", Map::default()),
        SinkConnector::Blackhole => map.with("blackhole", Map::default()),
        SinkConnector::Kafka(it) => {
            let exactly_once = matches!(job.delivery, None | Some(Delivery::ExactlyOnce));
            let settings = job.checkpoint.clone().unwrap_or_default();
            map.with("kafka", kafka::sink(it, exactly_once.then_some(&settings)))
                .with("on_error", error_policy(&sink.on_error))
        }
    };
    map.maybe("parallelism", sink.parallelism.map(u64::from))
        .into()
}

pub(super) fn is_secret(key: &str) -> bool {
    let key: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// A value of `config:`.
fn json(value: &Value) -> Out {
    match value {
        Value::String(text) => Out::from(text.as_str()),
        Value::Array(items) => Out::List(items.iter().map(json).collect()),
        Value::Object(fields) => Out::Map(
            fields
                .iter()
                .map(|(key, value)| {
                    let shown = if is_secret(key) {
                        REDACTED.into()
                    } else {
                        json(value)
                    };
                    (key.clone(), shown)
                })
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => Out::Plain(value.to_string()),
    }
}

/// `text` so that YAML reads it back: a JSON string is one of YAML too.
fn quoted(text: &str) -> String {
    Value::from(text.replace('$', "$$")).to_string()
}

fn write_key(out: &mut String, key: &str, indent: usize) {
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    // Keys hold no variables, so a dollar sign stays as it is.
    let key = if is_plain {
        key.to_owned()
    } else {
        Value::from(key).to_string()
    };
    let _ = write!(out, "{:indent$}{key}:", "");
}

fn write_fields(out: &mut String, fields: &[(String, Out)], indent: usize) {
    for (key, value) in fields {
        write_key(out, key, indent);
        match value {
            Out::Map(inner) if !inner.is_empty() => {
                out.push('\n');
                write_fields(out, inner, indent + 2);
            }
            value => {
                out.push(' ');
                write_flow(out, value);
                out.push('\n');
            }
        }
    }
}

/// On one line.
fn write_flow(out: &mut String, value: &Out) {
    match value {
        Out::Plain(text) => out.push_str(text),
        Out::Text(text) => out.push_str(&quoted(text)),
        Out::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_flow(out, item);
            }
            out.push(']');
        }
        Out::Map(fields) => {
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_key(out, key, 0);
                out.push(' ');
                write_flow(out, value);
            }
            out.push('}');
        }
    }
}
