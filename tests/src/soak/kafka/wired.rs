//! A job with topics of its own.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::subject::{Lines, Subject};
use super::job::{self, Ends, Kind, Reference, Times};
use crate::kafka::{Broker, Isolation, Record, Topics};
use crate::place::Place;

/// See the module.
pub(super) struct Wired<'a> {
    reference: &'a Reference,
    topics: Topics<'a>,
    times: Times,
}

impl<'a> Wired<'a> {
    /// With topics whose names begin with `name`.
    pub(super) fn new(reference: &'a Reference, broker: &'a Broker, name: &str) -> Wired<'a> {
        let topics = Topics::named(broker, name);
        job::prepare(reference.kind, &topics);
        Wired {
            reference,
            topics,
            times: Times::SHORT,
        }
    }

    /// With other times.
    pub(super) fn with(self, times: Times) -> Wired<'a> {
        Wired { times, ..self }
    }

    /// What the file sinks committed, and in the topic these records.
    fn lines(&self, place: &Place, written: &[Record]) -> Lines {
        let files = self.reference.kind.file_sinks().iter();
        let mut lines: Lines = files.map(|sink| (*sink, place.committed(sink))).collect();
        let mut texts: Vec<String> = written.iter().map(Record::text).collect();
        texts.sort();
        lines.insert("out", texts);
        lines
    }
}

impl Subject for Wired<'_> {
    fn text(&self, seconds: Option<u64>) -> String {
        let ends = Ends::Topics(&self.topics, self.times);
        job::text(self.reference.kind, ends, seconds)
    }

    fn points(&self) -> Vec<&'static str> {
        let all = weir::fault_point::ALL.iter().copied();
        let passed = all.filter(|point| {
            let of_files = OF_FILES.contains(point);
            self.reference.kind == Kind::Both || !of_files
        });
        passed.collect()
    }

    fn expected(&self) -> &Lines {
        &self.reference.lines
    }

    fn committed(&self, place: &Place) -> Lines {
        self.lines(place, &self.topics.read("out", Isolation::Committed))
    }

    /// As Apache Kafka's own consumer sees it.
    fn committed_in_the_end(&self, place: &Place) -> (Lines, Result<(), String>) {
        let written = self.topics.read_by_console("out", Isolation::Committed);
        let mut shown = String::new();
        for record in &written {
            let (partition, offset) = (record.partition, record.offset);
            writeln!(shown, "{partition} {offset} {}", record.text())
                .expect("a string takes everything");
        }
        place.write("what-the-topic-has", shown);
        let order = in_order(self.reference.kind, &written);
        (self.lines(place, &written), order)
    }

    fn slowness(&self) -> u32 {
        2
    }
}

/// Points that only a job passes which writes files as well.
const OF_FILES: [&str; 5] = [
    "mid-adoption",
    "after-adoption",
    "mid-interval",
    "after-parts",
    "mid-renames",
];

/// Whether every key's records are under that key, in one partition, and in their order. The records are sorted by partition and offset.
fn in_order(kind: Kind, records: &[Record]) -> Result<(), String> {
    let mut last: BTreeMap<String, (u64, &Record)> = BTreeMap::new();
    for record in records {
        let Some((key, stream, number)) = kind.order(&record.text()) else {
            return Err(format!("nobody wrote {record:?}"));
        };
        if record.key.as_deref() != Some(key.as_bytes()) {
            return Err(format!("not under its key: {record:?}"));
        }
        if let Some((before, other)) = last.insert(stream, (number, record))
            && (before >= number || other.partition != record.partition)
        {
            return Err(format!(
                "not in the order of its key: {record:?} after {other:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition: i32, key: &str, n: u64) -> Record {
        Record::to(partition)
            .key("a")
            .value(format!("{{\"key\":\"{key}\",\"n\":{n}}}"))
    }

    #[test]
    fn each_key_has_its_order_and_its_partition() {
        let check = |records: &[Record]| in_order(Kind::Keyed, records);
        assert_eq!(check(&[record(0, "a", 1), record(0, "a", 2)]), Ok(()));
        let swapped = check(&[record(0, "a", 2), record(0, "a", 1)]);
        assert!(swapped.is_err_and(|why| why.contains("not in the order of its key")));
        let elsewhere = check(&[record(0, "a", 1), record(1, "a", 2)]);
        assert!(elsewhere.is_err_and(|why| why.contains("not in the order of its key")));
        let other = check(&[record(0, "b", 1)]);
        assert!(other.is_err_and(|why| why.contains("not under its key")));
        assert!(check(&[Record::to(0).key("a").value("x")]).is_err());
    }
}
