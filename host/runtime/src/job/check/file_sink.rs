//! What a file sink writes, and when a part of it is complete.

use std::time::Duration;

use super::Check;
use crate::job::file::{
    FileSink, MissingName, RollSection, SinkCompressionEntry, SinkCompressionName, SinkCsvSection,
    SinkFormatName,
};
use crate::job::forms::{DurationText, SizeText};
use crate::job::model::{CsvOutput, Roll, SinkCompression, SinkConnector, SinkFormat};
use crate::job::tree::shorten;
use crate::job::wording::subject;

impl Check<'_> {
    /// The file sink `id` of a job that takes a checkpoint each `interval`.
    pub(super) fn file_sink(
        &self,
        id: &str,
        raw: FileSink,
        interval: Duration,
    ) -> Option<SinkConnector> {
        let path = |field| ["sinks", id, "file", field];
        let format = match (raw.format, raw.csv) {
            (Some(SinkFormatName::Csv), Some(csv)) => {
                self.csv_output(&path("csv"), csv).map(SinkFormat::Csv)
            }
            (Some(SinkFormatName::Csv), None) => {
                let section = path("");
                let title = format!("missing field `csv` in {}", subject(&section[..3]));
                self.push(
                    self.error("W0104", &section[..3], title)
                        .help("name the members that are written: `csv: {columns: [a, b]}`"),
                );
                None
            }
            (_, Some(_)) => {
                self.misplaced(&path("csv"), "needs `format: csv`");
                None
            }
            (Some(SinkFormatName::Json), None) => Some(SinkFormat::Json),
            (None | Some(SinkFormatName::Raw), None) => Some(SinkFormat::Raw),
        };
        let roll = self.roll(&path("roll"), raw.roll, interval);
        let compression = self.compression(&path("compression"), raw.compression);
        Some(SinkConnector::File {
            dir: self.directory(&path("dir"), &raw.dir)?,
            format: format?,
            roll,
            compression,
        })
    }

    fn csv_output(&self, path: &[&str], raw: SinkCsvSection) -> Option<CsvOutput> {
        let columns = [path, &["columns"]].concat();
        let names = self.column_names(&columns, &raw.columns);
        let (delimiter, quote) = self.delimiter_and_quote(path, raw.delimiter, raw.quote)?;
        names?;
        let null = raw.null.unwrap_or_default();
        let header = raw.header.unwrap_or(true);
        // What could not be told apart, or would make a row of another number of fields.
        let breaks = |text: &str| {
            text.bytes().any(|byte| {
                matches!(byte, b'\n' | b'\r') || byte == delimiter || Some(byte) == quote
            })
        };
        if breaks(&null) {
            let path = [path, &["null"]].concat();
            self.misplaced(&path, "has a delimiter, a quote or a line end in it");
        }
        if quote.is_none()
            && header
            && let Some(name) = raw.columns.iter().find(|name| breaks(name))
        {
            let what = format!(
                "has `{}`, which cannot be written without quotes",
                shorten(name)
            );
            self.misplaced(&columns, what);
        }
        Some(CsvOutput {
            columns: raw.columns,
            delimiter,
            quote,
            null,
            header,
            missing_is_null: matches!(raw.missing, Some(MissingName::Empty)),
        })
    }

    fn compression(&self, path: &[&str], raw: Option<SinkCompressionEntry>) -> SinkCompression {
        let (method, level) = match raw {
            None => (SinkCompressionName::None, None),
            Some(SinkCompressionEntry::Method(method)) => (method, None),
            Some(SinkCompressionEntry::Section(section)) => (section.method, section.level),
        };
        let path = [path, &["level"]].concat();
        match method {
            SinkCompressionName::None => {
                if level.is_some() {
                    self.misplaced(&path, "needs `method: gzip` or `method: zstd`");
                }
                SinkCompression::None
            }
            SinkCompressionName::Gzip => SinkCompression::Gzip {
                level: self.number(&path, level, 1..=9, 6) as u8,
            },
            SinkCompressionName::Zstd => SinkCompression::Zstd {
                level: self.number(&path, level, 1..=19, 3) as u8,
            },
        }
    }

    fn roll(&self, path: &[&str], raw: Option<RollSection>, interval: Duration) -> Roll {
        let default = Roll::every(interval);
        let Some(raw) = raw else {
            return default;
        };
        if matches!(raw.size, Some(SizeText(0))) {
            let path = [path, &["size"]].concat();
            let title = format!("{} must be more than zero", subject(&path));
            self.push(self.error("W0109", &path, title));
        }
        Roll {
            size: raw.size.map_or(default.size, |SizeText(bytes)| bytes),
            age: raw.age.map_or(default.age, |DurationText(age)| age),
        }
    }
}
