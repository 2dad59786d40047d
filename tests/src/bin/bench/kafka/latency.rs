//! How long it takes a record from its producer to a reader of committed records, at a steady rate far below what the job can do; and
//! how long the commit step of its checkpoints takes.

use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::Producer;
use weir_tests::kafka::{Broker, Topics};

use super::{PARTITIONS, records, write_job};
use crate::Outcome;
use crate::child::{Measured, Running, command};

/// Records a second.
pub(super) const RATE: u64 = 50_000;

/// For so long.
const SECONDS: u64 = 20;

/// Longer than a record takes by far.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was measured.
pub(super) struct Latency {
    /// Milliseconds from producer to reader, record by record.
    pub(super) millis: Vec<f64>,
    /// Seconds that commits took.
    pub(super) commits: Vec<f64>,
}

/// Milliseconds since the epoch, as Kafka has them.
fn wall_millis() -> Outcome<f64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(since.as_secs_f64() * 1e3)
}

/// Sends records at a rate until `go_on` says no of the next one.
pub(super) fn pace(
    broker: &Broker,
    topic: &str,
    rate: u64,
    mut go_on: impl FnMut(u64) -> bool,
) -> Outcome {
    let producer = records::producer(broker)?;
    let began = Instant::now();
    let mut sent = 0;
    while go_on(sent) {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due && go_on(sent) {
            records::send(&producer, topic, sent)?;
            sent += 1;
        }
        producer.poll(Duration::from_millis(1));
    }
    Ok(producer.flush(PATIENCE)?)
}

pub(super) fn measure(broker: &Broker, topics: &Topics<'_>) -> Outcome<Latency> {
    let all = RATE * SECONDS;
    eprintln!("kafka-keyed-count: {RATE} records a second for {SECONDS} s");
    let (input, output) = (
        topics.create("paced-in", PARTITIONS),
        topics.create("paced", PARTITIONS),
    );
    // A first round shows that the job is there.
    let first = u64::from(PARTITIONS.unsigned_abs());
    let producer = records::producer(broker)?;
    (0..first).try_for_each(|n| records::send(&producer, &input, n))?;
    producer.flush(PATIENCE)?;
    let dir = tempfile::tempdir()?;
    let job = write_job(dir.path(), broker, (&input, &output), Some(all / first + 1))?;
    let mut command = command("run", &job)?;
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Running(command.spawn()?);
    let reader = records::reader(broker, &output)?;
    let next = || -> Outcome<f64> {
        let message = loop {
            match reader.poll(PATIENCE).ok_or("records are missing")? {
                Err(KafkaError::PartitionEOF(_)) => {}
                message => break message?,
            }
        };
        let written = message.timestamp().to_millis().ok_or("no timestamp")?;
        Ok(wall_millis()? - written as f64)
    };
    for _ in 0..first {
        next()?;
    }
    let millis = std::thread::scope(|scope| -> Outcome<Vec<f64>> {
        let pace = || pace(broker, &input, RATE, |sent| sent < all).map_err(|it| it.to_string());
        let producer = scope.spawn(pace);
        let millis = (0..all).map(|_| next()).collect();
        producer.join().expect("it does not panic")?;
        millis
    })?;
    let out = child.0.stdout.take().ok_or("no standard output")?;
    let measured: Measured = serde_json::from_reader(out)?;
    Ok(Latency {
        millis,
        commits: measured.commits,
    })
}
