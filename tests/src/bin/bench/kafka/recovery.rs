//! How long it takes after a kill until something is committed again: from the start of the process to the first record that a reader
//! of committed records sees.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use weir_tests::kafka::{Broker, Topics};

use super::latency::pace;
use super::{PARTITIONS, RUNS, records, write_job};
use crate::Outcome;
use crate::child::{Running, command, median};

/// Records a second meanwhile.
const RATE: u64 = 10_000;

/// Longer than a start takes by far.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the job runs before it is killed: some checkpoints.
const LIFE: Duration = Duration::from_millis(3_500);

/// What was committed before the kill is all there after so long without a record.
const QUIET: Duration = Duration::from_secs(1);

fn start(job: &Path) -> Outcome<Running> {
    let mut command = command("run", job)?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Running(command.spawn()?))
}

/// Whether there is another record within `patience`.
fn next(reader: &BaseConsumer, patience: Duration) -> Outcome<bool> {
    let until = Instant::now() + patience;
    loop {
        match reader.poll(until.saturating_duration_since(Instant::now())) {
            None => return Ok(false),
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(message) => return Ok(message.map(|_| true)?),
        }
    }
}

/// Seconds, the median of some kills.
pub(super) fn measure(broker: &Broker, topics: &Topics<'_>) -> Outcome<f64> {
    eprintln!("kafka-keyed-count: {RUNS} kills");
    let (input, output) = (
        topics.create("killed-in", PARTITIONS),
        topics.create("killed", PARTITIONS),
    );
    let dir = tempfile::tempdir()?;
    let job = write_job(dir.path(), broker, (&input, &output), None)?;
    let reader = records::reader(broker, &output)?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let goes_on = |_| !ended.load(Ordering::Relaxed);
        let producer =
            scope.spawn(move || pace(broker, &input, RATE, goes_on).map_err(|it| it.to_string()));
        let seconds = kills(&job, &reader);
        ended.store(true, Ordering::Relaxed);
        producer.join().expect("it does not panic")?;
        Ok(median(seconds?))
    })
}

fn kills(job: &Path, reader: &BaseConsumer) -> Outcome<Vec<f64>> {
    let mut seconds = Vec::new();
    for run in 0..=RUNS {
        let began = Instant::now();
        let child = start(job)?;
        let came = next(reader, PATIENCE);
        // The first start is not one after a kill.
        if run > 0 {
            seconds.push(began.elapsed().as_secs_f64());
        }
        let dies_at = Instant::now() + LIFE;
        while Instant::now() < dies_at {
            next(reader, Duration::from_millis(10))?;
        }
        drop(child);
        if !came? {
            return Err("nothing was committed".into());
        }
        while next(reader, QUIET)? {}
    }
    Ok(seconds)
}
