//! What a file sink writes, and when a part of it is complete.

use std::time::Duration;

use super::Check;
use crate::job::file::{
    FileSink, RollSection, SinkCompressionEntry, SinkCompressionName, SinkFormatName,
};
use crate::job::forms::{DurationText, SizeText};
use crate::job::model::{Roll, SinkCompression, SinkConnector, SinkFormat};
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
        let format = match raw.format {
            None | Some(SinkFormatName::Raw) => SinkFormat::Raw,
            Some(SinkFormatName::Json) => SinkFormat::Json,
        };
        let roll = self.roll(&path("roll"), raw.roll, interval);
        let compression = self.compression(&path("compression"), raw.compression);
        Some(SinkConnector::File {
            dir: self.absolute(&path("dir"), &raw.dir)?,
            format,
            roll,
            compression,
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
