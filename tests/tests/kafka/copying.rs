//! The job that most tests do something to: it copies one topic to another, exactly once, and what it must have done.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_tests::host::{Exit, HANGS, Process};
use weir_tests::kafka::{Broker, Isolation, Record};
use weir_tests::place::Start;

use crate::fixture::Scene;

/// The job file. `BROKERS` stands for where the sink finds them.
pub(crate) const JOB: &str = "version: 1
job: <job>
parallelism: 1
checkpoint: {dir: checkpoints, interval: 100ms, retain: 3}
restart: {strategy: fixed, delay: 20ms, give_up_after: 5}
sources:
  in: {kafka: {brokers: <brokers>, topic: <in>}}
sinks:
  out:
    input: in
    kafka:
      brokers: BROKERS
      topic: <out>
      format: string
      commit_topic: <commits>
      transactional_id: <id>
";

/// What is added to the job file for a second sink, in files.
pub(crate) const FILES: &str = "  files: {input: in, file: {dir: out/files, roll: {age: 0s}}}\n";

/// Stands in the log once for each checkpoint that is committed.
pub(crate) const COMMITTED: &str = " committed: ";

/// Keys of records.
const KEYS: usize = 7;

/// See the module. Topics are `<in>`, `<out>` and `<commits>`, ids `<id>-0` and `<id>-1`.
pub(crate) struct Copying<'a> {
    pub(crate) scene: Scene<'a>,
    written: Cell<usize>,
}

impl Copying<'static> {
    /// On the broker that all share. The job file is written.
    pub(crate) fn new(test: &str) -> Copying<'static> {
        Copying::on(Broker::shared(), test)
    }
}

impl<'a> Copying<'a> {
    /// On another broker.
    pub(crate) fn on(broker: &'a Broker, test: &str) -> Copying<'a> {
        let scene = Scene::on(broker, test);
        scene.topics.create("in", 2);
        scene.topics.create("out", 2);
        scene
            .topics
            .create_with("commits", 1, &[("cleanup.policy", "compact")]);
        let copying = Copying {
            scene,
            written: Cell::new(0),
        };
        copying.write_job(JOB);
        copying
    }

    /// Writes the job file, with the sink's brokers where they are.
    pub(crate) fn write_job(&self, text: &str) {
        let text = text.replace("BROKERS", "<brokers>");
        self.scene.write_job(&text);
    }

    /// The id of one of its producers.
    pub(crate) fn id(&self, number: usize) -> String {
        self.scene.topics.name(&format!("id-{number}"))
    }

    /// Writes `count` more records for the job to copy.
    pub(crate) fn write(&self, count: usize) {
        let begin = self.written.get();
        let records: Vec<Record> = (begin..begin + count).map(record).collect();
        self.scene.topics.produce("in", &records);
        self.written.set(begin + count);
    }

    /// What readers of committed transactions see, in order.
    pub(crate) fn copied(&self) -> Vec<Record> {
        self.scene.topics.read("out", Isolation::Committed)
    }

    /// Starts the job and waits until it has committed something.
    #[track_caller]
    pub(crate) fn start(&self) -> Process {
        self.start_with(&Start::default())
    }

    /// The same, with more to say.
    #[track_caller]
    pub(crate) fn start_with(&self, start: &Start) -> Process {
        let mut process = self.scene.place.start(start);
        let committed = process.says(COMMITTED, 1, HANGS);
        assert!(committed, "it does not run:\n{}", process.log());
        process
    }

    /// A running job that has copied some records.
    #[track_caller]
    pub(crate) fn running(&self) -> Process {
        self.write(20);
        let mut process = self.start();
        self.wait(&mut process);
        process
    }

    /// A job that has copied some records and was killed.
    #[track_caller]
    pub(crate) fn killed(&self) {
        self.running().kill();
    }

    /// A job that has copied some records and was stopped.
    #[track_caller]
    pub(crate) fn stopped(&self) {
        stop(self.running());
    }

    /// Waits until readers see as many records as were written.
    #[track_caller]
    pub(crate) fn wait(&self, process: &mut Process) {
        wait_for(process, || self.copied().len() >= self.written.get());
    }

    /// Starts the job again: it copies what there is and some more, and each record was copied once, in order.
    #[track_caller]
    pub(crate) fn goes_on_exactly(&self) {
        self.write(20);
        let mut process = self.start();
        self.wait(&mut process);
        stop(process);
        self.is_exact();
    }

    /// Each record was copied once, those of a key in order; and no attempt has committed after a later one.
    #[track_caller]
    pub(crate) fn is_exact(&self) {
        let mut copies = BTreeMap::<String, Vec<usize>>::new();
        for record in self.copied() {
            let number = record.text().parse().expect("a number");
            copies.entry(record.key_text()).or_default().push(number);
        }
        let mut expected = BTreeMap::<String, Vec<usize>>::new();
        for number in 0..self.written.get() {
            let key = record(number).key_text();
            expected.entry(key).or_default().push(number);
        }
        assert_eq!(copies, expected, "lost, doubled or out of order");
        let attempts = self.attempts_that_committed();
        assert!(attempts.is_sorted(), "{attempts:?}");
    }

    /// The attempts that wrote the markers in the commit topic, in order.
    pub(crate) fn attempts_that_committed(&self) -> Vec<u64> {
        let markers = self.scene.topics.read("commits", Isolation::Committed);
        let attempt = |marker: &Record| {
            let marker: serde_json::Value =
                serde_json::from_str(&marker.text()).expect("a marker is JSON");
            marker["attempt"].as_u64().expect("a number")
        };
        markers.iter().map(attempt).collect()
    }

    /// Runs the job: it refuses to start, says so, and nothing becomes visible.
    #[track_caller]
    pub(crate) fn is_refused(&self, code: &str, said: &[&str]) -> Exit {
        let before = self.copied();
        let exit = self.scene.place.run();
        exit.expect(3, &[&format!("error[{code}]")]);
        exit.expect(3, said);
        assert_eq!(before, self.copied(), "a refused start has written");
        exit
    }
}

/// The record of this number.
fn record(number: usize) -> Record {
    let key = number % KEYS;
    Record::to((key % 2) as i32)
        .key(format!("k{key}"))
        .value(number.to_string())
}

/// Waits until `count` more checkpoints are committed.
#[track_caller]
pub(crate) fn commits(process: &mut Process, count: usize) {
    let so_far = process.log().matches(COMMITTED).count();
    let more = process.says(COMMITTED, so_far + count, HANGS);
    assert!(more, "it does not go on:\n{}", process.log());
}

/// Waits until it is so.
#[track_caller]
pub(crate) fn wait_for(process: &mut Process, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(process.is_running(), "it ended:\n{}", process.log());
        assert!(begun.elapsed() < HANGS, "log:\n{}", process.log());
        process.within(Duration::from_millis(5));
    }
}

/// Stops a job that works.
#[track_caller]
pub(crate) fn stop(mut process: Process) {
    commits(&mut process, 1);
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
}
