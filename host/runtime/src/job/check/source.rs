//! Sources.

use glob::Pattern;

use super::{Check, Kind};
use crate::batch::MAX_RECORD_BYTES;
use crate::job::file::{
    CompressionName, CsvSection, EventTimeSection, FileSource, FormatName, GeneratorSource,
    HeaderEntry, SourceEntry, TimeFormatName, WatchEntry,
};
use crate::job::forms::{Count, DurationText, OneOrMany};
use crate::job::model::{
    Compression, EventTime, Format, Generator, Header, KeySelector, NodeId, Source,
    SourceConnector, TimeFormat,
};
use crate::job::tree::shorten;
use crate::job::wording::subject;
use crate::units::format_duration;
use std::collections::HashSet;
use std::time::Duration;

/// Paths and patterns over all sources; a pattern stands for any number of files.
const MAX_PATHS: usize = 1_000;

/// Pointers in one key.
const MAX_KEY_POINTERS: usize = 16;

/// Splits of a generator: no more can be read at once.
const MAX_SPLITS: u64 = 32_768;

const DEFAULT_IDLE: Duration = Duration::from_secs(30);

const DEFAULT_WATCH: Duration = Duration::from_secs(1);

/// Where the timestamps of a source's records come from.
#[derive(Clone, Copy, PartialEq)]
enum Stamps {
    /// The source makes them.
    Own,
    /// Records have them; a field may be named all the same.
    Records,
    /// Only from a field.
    Field,
}

impl Check<'_> {
    /// `paths` counts those of all sources.
    pub(super) fn source(&self, id: &str, raw: SourceEntry, paths: &mut usize) -> Option<Source> {
        let path = |field| ["sources", id, field];
        let (file, kafka, stdin, generator) = (raw.file, raw.kafka, raw.stdin, raw.generator);
        let given = [
            ("file", file.is_some()),
            ("kafka", kafka.is_some()),
            ("stdin", stdin.is_some()),
            ("generator", generator.is_some()),
        ];
        let one = self.one_connector(Kind::Source, id, given);
        let stamps = match (&kafka, &generator) {
            (Some(_), _) => Stamps::Records,
            (None, Some(_)) => Stamps::Own,
            (None, None) => Stamps::Field,
        };

        let connector = match (file, kafka, stdin, generator) {
            (Some(file), ..) => self.file_source(id, file, paths),
            (_, Some(kafka), ..) => self.kafka_source(id, kafka),
            (_, _, Some(stdin), _) => {
                let format = self.format(&["sources", id, "stdin"], stdin.format, stdin.csv);
                format.map(|format| (SourceConnector::Stdin, format))
            }
            (.., Some(generator)) => {
                let generator = self.generator(id, generator);
                generator.map(|it| (SourceConnector::Generator(it), Format::Json))
            }
            (None, None, None, None) => None,
        };
        let format = connector.as_ref().map(|(_, format)| format);
        if matches!(format, Some(Format::Raw | Format::Text)) {
            let time = raw.event_time.as_ref();
            let by_field = match stamps {
                Stamps::Records => time.is_some_and(|time| time.field.is_some()),
                Stamps::Own | Stamps::Field => time.is_some(),
            };
            let needs = match stamps {
                Stamps::Records => "needs `format: json`",
                Stamps::Own | Stamps::Field => "needs `format: json` or `format: csv`, not raw",
            };
            if raw.key.is_some() {
                self.misplaced(&path("key"), needs);
            }
            if by_field {
                self.misplaced(&path("event_time"), needs);
            }
        }
        if stamps == Stamps::Own && raw.key.is_some() {
            self.misplaced(
                &path("key"),
                "is not for a generator, which makes its own keys (`generator.keys`)",
            );
        }
        let is_stdin = matches!(connector, Some((SourceConnector::Stdin, _)));
        let parallelism = self.parallelism(&path("parallelism"), raw.parallelism);
        if let (true, Some(2..)) = (is_stdin, parallelism) {
            let title = format!("source `{id}` reads standard input: its parallelism is always 1");
            self.push(self.error("W0117", &path("parallelism"), title));
        }
        let key = raw.key.map(|key| self.key(&path("key"), key));
        let mut event_time = raw
            .event_time
            .map(|section| self.event_time(id, stamps, section));
        if let (Some((SourceConnector::Generator(made), _)), None) = (&connector, &event_time) {
            // What it makes has times in any case, and it is known how far out of order.
            event_time = Some(EventTime {
                field: String::new(),
                format: TimeFormat::Millis,
                out_of_order: Duration::from_millis(made.disorder),
                idle: DEFAULT_IDLE,
            });
        }
        let rate = raw
            .rate
            .map(|rate| self.number(&path("rate"), Some(rate), 1..=u64::MAX, 1));
        let on_error = self.error_policy(Kind::Source, id, raw.on_error)?;
        let (connector, format) = connector?;
        one.then_some(Source {
            id: NodeId::new(id)?,
            place: self.place(Kind::Source, id),
            connector,
            format,
            key,
            event_time,
            on_error,
            rate,
            parallelism,
        })
    }

    fn file_source(
        &self,
        id: &str,
        raw: FileSource,
        paths: &mut usize,
    ) -> Option<(SourceConnector, Format)> {
        let path = ["sources", id, "file", "paths"];
        *paths += raw.paths.len();
        if *paths > MAX_PATHS {
            let title = format!("more than {MAX_PATHS} paths in the sources of one job");
            self.push(
                self.error("W0123", &path, title)
                    .help("use a pattern, like `data/*.csv`"),
            );
            return None;
        }
        if raw.paths.is_empty() {
            self.push(self.error("W0109", &path, format!("{} is empty", subject(&path))));
        }
        let absolute: Vec<_> = raw
            .paths
            .iter()
            .enumerate()
            .filter_map(|(index, text)| self.pattern(id, index, text))
            .collect();
        let compression = match raw.compression {
            None | Some(CompressionName::Auto) => Compression::Auto,
            Some(CompressionName::None) => Compression::Plain,
            Some(CompressionName::Gzip) => Compression::Gzip,
            Some(CompressionName::Zstd) => Compression::Zstd,
        };
        let every = ["sources", id, "file", "watch", "every"];
        let watch = match raw.watch {
            None | Some(WatchEntry::Switch(false)) => None,
            Some(WatchEntry::Switch(true)) => Some(DEFAULT_WATCH),
            Some(WatchEntry::On(section)) => {
                Some(self.duration(&every, section.every, DEFAULT_WATCH))
            }
        };
        let format = self.format(&["sources", id, "file"], raw.format, raw.csv)?;
        let all = !raw.paths.is_empty() && absolute.len() == raw.paths.len();
        all.then_some((
            SourceConnector::File {
                paths: absolute,
                compression,
                watch,
            },
            format,
        ))
    }

    /// An absolute pattern. What the job's own folder is called must not be taken for a pattern.
    fn pattern(&self, id: &str, index: usize, text: &str) -> Option<String> {
        let index = index.to_string();
        let path = ["sources", id, "file", "paths", &index];
        self.absolute(&path, text)?;
        if let Err(error) = Pattern::new(text) {
            let title = format!("{}: `{}` is not a pattern", subject(&path), shorten(text));
            self.push(
                self.error("W0109", &path, title)
                    .note(format!("{} at character {}", error.msg, error.pos + 1))
                    .help("in a name, write `[*]`, `[?]` and `[[]` for the characters themselves"),
            );
            return None;
        }
        // One spelling: files are known by their paths.
        let parts = text.split('/').filter(|part| !matches!(*part, "" | "."));
        let plain = parts.collect::<Vec<_>>().join("/");
        if text.starts_with('/') {
            return Some(format!("/{plain}"));
        }
        let Some(dir) = self.dir.to_str() else {
            let title = format!("the folder `{}` is not named in UTF-8", self.dir.display());
            self.push(
                self.error("W0109", &path, title)
                    .help("give an absolute path"),
            );
            return None;
        };
        Some(format!(
            "{}/{plain}",
            Pattern::escape(dir).trim_end_matches('/')
        ))
    }

    /// The format of the connector at `path`.
    fn format(
        &self,
        path: &[&str],
        name: Option<FormatName>,
        csv: Option<CsvSection>,
    ) -> Option<Format> {
        let section = [path, &["csv"]].concat();
        let format = match name {
            None | Some(FormatName::Raw) => Format::Raw,
            Some(FormatName::Json) => Format::Json,
            Some(FormatName::Csv) => {
                let default = CsvSection {
                    delimiter: None,
                    quote: None,
                    null: None,
                    header: None,
                };
                let CsvSection {
                    delimiter,
                    quote,
                    null,
                    header,
                } = csv.unwrap_or(default);
                let (delimiter, quote) = self.delimiter_and_quote(&section, delimiter, quote)?;
                let header = match header {
                    None | Some(HeaderEntry::Switch(true)) => Header::First,
                    Some(HeaderEntry::Switch(false)) => Header::Numbered,
                    Some(HeaderEntry::Names(names)) => {
                        let path = [&section[..], &["header"]].concat();
                        self.column_names(&path, &names)?;
                        Header::Names(names)
                    }
                };
                return Some(Format::Csv {
                    delimiter,
                    quote,
                    null,
                    header,
                });
            }
        };
        if csv.is_some() {
            self.misplaced(&section, "needs `format: csv`");
            return None;
        }
        Some(format)
    }

    /// The two characters of the CSV section at `section`.
    pub(super) fn delimiter_and_quote(
        &self,
        section: &[&str],
        delimiter: Option<String>,
        quote: Option<String>,
    ) -> Option<(u8, Option<u8>)> {
        let delimiter = self.character(section, "delimiter", delimiter, b',')?;
        if quote.as_deref() == Some("none") {
            return Some((delimiter, None));
        }
        let quote = self.character(section, "quote", quote, b'"')?;
        if delimiter == quote {
            self.misplaced(section, "has the same character as `delimiter` and `quote`");
            return None;
        }
        Some((delimiter, Some(quote)))
    }

    /// Checks names of columns. `None` if they were reported.
    pub(super) fn column_names(&self, path: &[&str], names: &[String]) -> Option<()> {
        let mut seen = HashSet::new();
        let wrong = names.iter().find_map(|name| match name.as_str() {
            "" => Some("has an empty name".to_owned()),
            name if !seen.insert(name) => Some(format!("has `{}` twice", shorten(name))),
            _ => None,
        });
        let wrong = wrong.or_else(|| names.is_empty().then(|| "is empty".to_owned()));
        match wrong {
            None => Some(()),
            Some(wrong) => {
                let title = format!("{} {wrong}", subject(path));
                self.push(self.error("W0109", path, title));
                None
            }
        }
    }

    fn character(
        &self,
        section: &[&str],
        field: &str,
        text: Option<String>,
        default: u8,
    ) -> Option<u8> {
        let Some(text) = text else {
            return Some(default);
        };
        match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Some(*byte),
            _ => {
                let path = [section, &[field]].concat();
                let title = format!("{} must be one ASCII character", subject(&path));
                self.push(self.error("W0109", &path, title).help("a tab is `\"\\t\"`"));
                None
            }
        }
    }

    fn generator(&self, id: &str, raw: GeneratorSource) -> Option<Generator> {
        let path = |field| ["sources", id, "generator", field];
        let start = match raw.start {
            None => Some(1_577_836_800_000), // 2020-01-01T00:00:00Z
            Some(text) => self.time(&path("start"), &text),
        };
        let time = |field, text: Option<DurationText>, default| {
            text.map_or(Duration::from_millis(default), |DurationText(duration)| {
                let whole = duration.as_micros().is_multiple_of(1_000);
                if field == "disorder" && !whole {
                    let title = format!(
                        "{} must be whole milliseconds, not {}",
                        subject(&path(field)),
                        format_duration(duration)
                    );
                    self.push(self.error("W0109", &path(field), title));
                }
                duration
            })
        };
        let number =
            |field, given, range, default| self.number(&path(field), given, range, default);
        Some(Generator {
            records: match raw.records {
                Count::Bounded(records) => Some(records),
                Count::Unbounded => None,
            },
            keys: number("keys", raw.keys, 1..=u64::MAX, 1_000),
            value_bytes: number(
                "value_bytes",
                raw.value_bytes,
                16..=MAX_RECORD_BYTES as u64,
                100,
            ) as usize,
            splits: number("splits", raw.splits, 1..=MAX_SPLITS, 8) as u32,
            start: start?,
            step_micros: time("step", raw.step, 1).as_micros() as u64,
            disorder: time("disorder", raw.disorder, 0).as_millis() as u64,
        })
    }

    /// A time in milliseconds since the epoch.
    pub(super) fn time(&self, path: &[&str], text: &str) -> Option<i64> {
        let time = text.parse::<jiff::Timestamp>();
        if time.is_err() {
            let title = format!("{}: `{}` is not a time", subject(path), shorten(text));
            self.push(
                self.error("W0109", path, title)
                    .help("write it like 2020-01-01T00:00:00Z"),
            );
        }
        time.ok().map(jiff::Timestamp::as_millisecond)
    }

    /// What makes keys.
    pub(super) fn key(&self, path: &[&str], raw: OneOrMany<String>) -> KeySelector {
        let (pointers, is_list) = raw.into_list();
        if !(1..=MAX_KEY_POINTERS).contains(&pointers.len()) {
            let title = format!(
                "{} must be 1 to {MAX_KEY_POINTERS} pointers, not {}",
                subject(path),
                pointers.len()
            );
            self.push(self.error("W0109", path, title));
        }
        for (index, pointer) in pointers.iter().enumerate() {
            let index = index.to_string();
            let mut path = path.to_vec();
            if is_list {
                path.push(&index);
            }
            self.pointer(&path, pointer);
        }
        match <[String; 1]>::try_from(pointers) {
            Ok([pointer]) if !is_list => KeySelector::Pointer(pointer),
            Ok(pointers) => KeySelector::Pointers(pointers.into()),
            Err(pointers) => KeySelector::Pointers(pointers),
        }
    }

    /// Checks a JSON pointer, RFC 6901. The empty one, the whole value, is neither a key nor a time.
    pub(super) fn pointer(&self, path: &[&str], pointer: &str) {
        let escapes_are_good = pointer
            .split('~')
            .skip(1)
            .all(|after| after.starts_with(['0', '1']));
        if pointer.starts_with('/') && escapes_are_good {
            return;
        }
        let title = format!(
            "{}: `{}` is not a JSON pointer",
            subject(path),
            shorten(pointer)
        );
        let error = self.error("W0109", path, title);
        self.push(match pointer.strip_prefix('/') {
            Some(_) => error.help("in a pointer, `~0` stands for `~` and `~1` for `/`"),
            None if pointer.is_empty() => error.help("name a field: `/name`"),
            None => error.help(format!("it begins with a slash: `/{}`", shorten(pointer))),
        });
    }

    fn event_time(&self, id: &str, stamps: Stamps, raw: EventTimeSection) -> EventTime {
        let path = |field| ["sources", id, "event_time", field];
        let (by_field, has_format) = (raw.field.is_some(), raw.format.is_some());
        let needed = stamps == Stamps::Field || (stamps == Stamps::Records && by_field);
        for (field, given) in [("field", by_field), ("format", has_format)] {
            if stamps == Stamps::Own && given {
                self.misplaced(
                    &path(field),
                    "is not for a generator, which stamps its records itself",
                );
            } else if stamps == Stamps::Records && has_format && !by_field && given {
                self.misplaced(
                    &path(field),
                    "needs `field`: without it the timestamps of Kafka's records are meant",
                );
            } else if needed && !given {
                let section = path("");
                let title = format!("missing field `{field}` in {}", subject(&section[..3]));
                self.push(self.error("W0104", &section[..3], title));
            }
        }
        if let Some(field) = &raw.field {
            self.pointer(&path("field"), field);
        }
        EventTime {
            field: raw.field.unwrap_or_default(),
            format: match raw.format.unwrap_or_default() {
                TimeFormatName::Rfc3339 => TimeFormat::Rfc3339,
                TimeFormatName::Seconds => TimeFormat::Seconds,
                TimeFormatName::Millis => TimeFormat::Millis,
                TimeFormatName::Micros => TimeFormat::Micros,
                TimeFormatName::Nanos => TimeFormat::Nanos,
            },
            out_of_order: raw
                .out_of_order
                .map_or(Duration::ZERO, |DurationText(time)| time),
            idle: self.duration(&path("idle"), raw.idle, DEFAULT_IDLE),
        }
    }
}
