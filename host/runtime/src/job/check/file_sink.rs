//! What a file sink writes, and when a part of it is complete.

use std::time::Duration;

use super::Check;
use crate::job::file::{FileSink, RollSection, SinkFormatName};
use crate::job::forms::{DurationText, SizeText};
use crate::job::model::{Roll, SinkConnector, SinkFormat};
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
        Some(SinkConnector::File {
            dir: self.absolute(&path("dir"), &raw.dir)?,
            format,
            roll,
        })
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
