//! Apache Kafka's own console consumer, as a witness that shares no code with the client that Weir uses.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::{Broker, Isolation, Record, tools};
use crate::host::{HANGS, Process};

const CLASS: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";

// What separates one thing from another in its output: control characters that no test writes.
const LINE: char = '\x1e';
const FIELD: char = '\x1f';
const HEADER: char = '\x1d';
const NULL: &str = "\x1a";

/// How long nothing must come for a topic to be taken for empty, and what else may come when all that is expected is there.
const SILENCE: Duration = Duration::from_secs(5);
const AFTERWARDS: Duration = Duration::from_millis(500);

/// All records of a topic. It tells nobody when it has come to the end, so it is ended when it has printed records as far as `expected`
/// go in each partition, and a moment later.
pub(super) fn read(
    broker: &Broker,
    topic: &str,
    isolation: Isolation,
    expected: &[Record],
) -> Result<Vec<Record>, String> {
    let mut ends = BTreeMap::new();
    for record in expected {
        ends.insert(record.partition, record.offset);
    }
    let dir = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    // The time until its first record counts as well.
    let patience = if expected.is_empty() { SILENCE } else { HANGS };
    let mut consumer = start(broker, topic, isolation, dir.path(), patience)?;
    let mut output = File::open(dir.path().join("out")).map_err(|error| error.to_string())?;
    let mut partial = Vec::new();
    let mut records = Vec::new();
    let mut until = Instant::now() + HANGS;
    loop {
        let over = !consumer.is_running() || Instant::now() >= until;
        output
            .read_to_end(&mut partial)
            .map_err(|error| error.to_string())?;
        let whole = partial
            .iter()
            .rposition(|byte| *byte == LINE as u8)
            .map_or(0, |end| end + 1);
        let text = String::from_utf8_lossy(&partial[..whole]).into_owned();
        partial.drain(..whole);
        for line in text.split_terminator(LINE) {
            let record =
                parsed(line).ok_or_else(|| format!("the console consumer prints {line:?}"))?;
            if ends
                .get(&record.partition)
                .is_some_and(|end| record.offset >= *end)
            {
                ends.remove(&record.partition);
            }
            records.push(record);
        }
        if over {
            break;
        }
        if ends.is_empty() && !expected.is_empty() {
            until = until.min(Instant::now() + AFTERWARDS);
        }
        thread::sleep(Duration::from_millis(20));
    }
    if !ends.is_empty() {
        let log = consumer.log();
        return Err(format!(
            "the console consumer has not come as far as {ends:?} (partition: offset); it says:\n{log}"
        ));
    }
    records.sort_by_key(|record| (record.partition, record.offset));
    Ok(records)
}

fn start(
    broker: &Broker,
    topic: &str,
    isolation: Isolation,
    dir: &std::path::Path,
    patience: Duration,
) -> Result<Process, String> {
    let java = tools::small()?;
    let mut command = Command::new(&java[0]);
    command
        .args(&java[1..])
        .args([CLASS, "--bootstrap-server", broker.address()])
        .args(["--topic", topic, "--from-beginning"])
        .args(["--isolation-level", isolation.name()])
        .args(["--timeout-ms", &patience.as_millis().to_string()]);
    for shown in ["timestamp", "partition", "offset", "headers", "key"] {
        command.args(["--formatter-property", &format!("print.{shown}=true")]);
    }
    for (name, value) in [
        ("key.separator", FIELD.to_string()),
        ("line.separator", LINE.to_string()),
        ("headers.separator", HEADER.to_string()),
        ("null.literal", NULL.to_owned()),
    ] {
        command.args(["--formatter-property", &format!("{name}={value}")]);
    }
    Ok(Process::start(
        &mut command,
        dir.join("log"),
        dir.join("out"),
    ))
}

/// A line like `CreateTime:5|Partition:0|Offset:7|name:value,name:value|key|value`.
fn parsed(line: &str) -> Option<Record> {
    let mut fields = line.split(FIELD);
    let time = fields.next()?;
    let time = match time
        .strip_prefix("CreateTime:")
        .or_else(|| time.strip_prefix("LogAppendTime:"))
    {
        Some(time) => Some(time.parse().ok()?),
        None => None,
    };
    let partition = fields.next()?.strip_prefix("Partition:")?.parse().ok()?;
    let offset = fields.next()?.strip_prefix("Offset:")?.parse().ok()?;
    let headers = match fields.next()? {
        "NO_HEADERS" => Vec::new(),
        headers => headers.split(HEADER).map(header).collect::<Option<_>>()?,
    };
    let key = bytes(fields.next()?);
    let value = bytes(fields.next()?);
    fields.next().is_none().then_some(Record {
        partition,
        offset,
        key,
        value,
        headers,
        time,
    })
}

fn header(text: &str) -> Option<(String, Option<Vec<u8>>)> {
    let (name, value) = text.split_once(':')?;
    Some((name.to_owned(), bytes(value)))
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    (text != NULL).then(|| text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_null_and_empty_told_apart() {
        let line = "CreateTime:5\x1fPartition:2\x1fOffset:7\x1fa:1\x1da:\x1a\x1db:x:y\x1f\x1a\x1f";
        let expected = Record {
            partition: 2,
            offset: 7,
            key: None,
            value: Some(Vec::new()),
            headers: vec![
                ("a".to_owned(), Some(b"1".to_vec())),
                ("a".to_owned(), None),
                ("b".to_owned(), Some(b"x:y".to_vec())),
            ],
            time: Some(5),
        };
        assert_eq!(parsed(line), Some(expected));
    }

    #[test]
    fn what_is_no_such_line_is_no_record() {
        assert_eq!(parsed("Processed a total of 5 messages"), None);
        assert_eq!(
            parsed("CreateTime:5\x1fPartition:2\x1fOffset:7\x1fNO_HEADERS\x1fk\x1fv\x1fw"),
            None
        );
    }
}
