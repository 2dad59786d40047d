//! The operator's hands on a job that commits in Kafka: on its commit topic, its checkpoint directory and its job file.
//!
//! The cluster is made up: each transaction is committed at once and carries one record, `number-attempt`. What transactions do to
//! each other is in the model.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::checkpoint::commit_point::MarkerFound;
use crate::checkpoint::manifest::{Lineage, TopicEntry};
use crate::checkpoint::{KafkaPoint, Marker, Standing};

#[derive(Default)]
struct Cluster(Mutex<State>);

#[derive(Default)]
struct State {
    /// Markers, or what is wrong with them, by the id of the commit topic.
    markers: BTreeMap<String, Result<Marker, String>>,
    /// What readers of the output topic see.
    output: Vec<String>,
    /// What was fenced last. The last one is where the attempt commits.
    fenced: Vec<KafkaPoint>,
    /// Whose the producers are, once it has written a marker.
    attempt: Option<u64>,
    calls: u32,
    /// Which call fails, and whether it is carried out before that.
    fails: Option<(u32, bool)>,
}

impl State {
    /// Whether this call is to be carried out, and whether it then fails.
    fn call(&mut self) -> (bool, bool) {
        self.calls += 1;
        match self.fails {
            Some((call, carried_out)) if call == self.calls => (carried_out, true),
            _ => (true, false),
        }
    }

    fn commit(&mut self, marker: &Marker) {
        let point = self.fenced.last().expect("producers have begun");
        self.markers
            .insert(point.topic_id.clone(), Ok(marker.clone()));
    }
}

fn answered<T>(fails: bool, answer: T) -> io::Result<T> {
    if fails {
        return Err(io::Error::other("no broker answers"));
    }
    Ok(answer)
}

impl Cluster {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics in it")
    }
}

impl Markers for Cluster {
    fn peek(&self, at: &KafkaPoint) -> io::Result<MarkerFound> {
        self.read(at)
    }

    fn fence(&self, points: &[KafkaPoint]) -> io::Result<Standing> {
        let mut state = self.state();
        let (carried_out, fails) = state.call();
        if carried_out {
            state.fenced = points.to_vec();
            state.attempt = None;
        }
        answered(fails, Standing::Ours)
    }

    fn read(&self, at: &KafkaPoint) -> io::Result<MarkerFound> {
        let mut state = self.state();
        let (_, fails) = state.call();
        answered(fails, state.markers.get(&at.topic_id).cloned())
    }

    fn write(&self, marker: &Marker) -> io::Result<Standing> {
        let mut state = self.state();
        let (carried_out, fails) = state.call();
        if carried_out {
            state.commit(marker);
        }
        state.attempt = Some(marker.attempt);
        answered(fails, Standing::Ours)
    }

    fn commit(&self, marker: &Marker) -> Result<(), String> {
        let mut state = self.state();
        if state.attempt != Some(marker.attempt) {
            return Err("these are another attempt's producers".to_owned());
        }
        state.commit(marker);
        let record = format!("{}-{}", marker.n, marker.attempt);
        state.output.push(record);
        Ok(())
    }
}

fn point() -> KafkaPoint {
    KafkaPoint {
        cluster: "cluster-1".to_owned(),
        topic: "weir-commits".to_owned(),
        topic_id: "topic-1".to_owned(),
        partition: 3,
        ids: "weir-flights".to_owned(),
    }
}

/// A place whose job also writes to a cluster, and the cluster.
struct Kafka {
    place: Place,
    cluster: Arc<Cluster>,
}

impl Kafka {
    /// A job with a file sink and a Kafka sink, `count` confirmed checkpoints, in a process that has been killed.
    fn after(count: u64) -> Kafka {
        Kafka::with(Place::new(), count)
    }

    /// The same without the file sink: nothing but the marker notices what happens to the checkpoint directory.
    fn without_files(count: u64) -> Kafka {
        let mut place = Place::new();
        place.identity.sinks.clear();
        Kafka::with(place, count)
    }

    fn with(place: Place, count: u64) -> Kafka {
        let mut kafka = Kafka {
            place,
            cluster: Arc::default(),
        };
        kafka.add(point());
        if count > 0 {
            let mut process = kafka.place.start();
            (0..count).for_each(|_| process.checkpoint(&kafka.place));
        }
        kafka
    }

    /// From now on the job commits here.
    fn add(&mut self, point: KafkaPoint) {
        self.place.markers = Some(self.cluster.clone());
        self.place.identity.commit_point = CommitPoint::Kafka(point);
    }

    /// From now on the job has no Kafka sink.
    fn remove(&mut self) {
        self.place.markers = None;
        self.place.identity.commit_point = CommitPoint::Storage;
    }

    /// Commits one more checkpoint, and is killed before the log knows.
    fn killed_before_the_slot(&self) {
        let mut process = self.place.start();
        let manifest = process.prepare(&self.place, false);
        let digest = process.store(&manifest);
        let (markers, marker) = process.driver.marker(manifest.n, digest).expect("Kafka");
        markers.commit(&marker).expect("committed");
    }

    /// Stops the job after a last checkpoint.
    fn stopped(&self) {
        let mut process = self.place.start();
        let mut manifest = process.prepare(&self.place, false);
        manifest.last = true;
        process.commit(&manifest);
        process.publish(&manifest);
    }

    /// The job starts at checkpoint `n`, takes another one, and both of its sinks have the same.
    #[track_caller]
    fn goes_on_from(&self, n: u64) {
        let mut process = self.place.start();
        assert_eq!(process.confirmed, n);
        process.checkpoint(&self.place);
        let output = self.cluster.state().output.clone();
        assert!(
            output
                .last()
                .is_some_and(|last| last.starts_with(&format!("{}-", process.confirmed))),
            "{output:?}"
        );
        let numbers = output.iter().map(|record| record.split('-').next());
        assert!(numbers.is_sorted(), "{output:?}");
        if !self.place.identity.sinks.is_empty() {
            assert_eq!(visible(&self.place.out()), output);
        }
    }

    fn set_marker(&self, marker: Option<Result<Marker, String>>) {
        let mut state = self.cluster.state();
        match marker {
            Some(marker) => state.markers.insert(point().topic_id, marker),
            None => state.markers.remove(&point().topic_id),
        };
    }

    fn marker(&self) -> Marker {
        let state = self.cluster.state();
        let marker = state.markers[&point().topic_id].clone();
        marker.expect("it is legible")
    }

    /// A refused start, which has stopped nobody: the log is as it was.
    #[track_caller]
    fn refused_before_the_claim(&self, options: Options, code: &str) -> String {
        let log = self.place.checkpoints().join("log");
        let before = names(&log);
        let message = self.place.refused(options, code);
        assert_eq!(names(&log), before, "{message}");
        message
    }
}

#[test]
fn a_killed_job_goes_on_where_its_last_transaction_was() {
    let kafka = Kafka::after(2);
    kafka.goes_on_from(2);
    // The transaction was committed and nothing else: files are published by the next start.
    kafka.killed_before_the_slot();
    assert_eq!(visible(&kafka.place.out()), ["1-1", "2-1", "3-2"]);
    kafka.goes_on_from(4);
}

#[test]
fn a_marker_that_is_gone_stops_the_job() {
    let kafka = Kafka::after(2);
    kafka.set_marker(None);
    let message = kafka.place.refused(PLAIN, "W0531");
    assert!(message.contains("checkpoint 2"), "{message}");
    assert!(
        message.contains("partition 3 of topic `weir-commits`"),
        "{message}"
    );
}

#[test]
fn a_marker_that_is_older_than_the_log_stops_the_job() {
    let kafka = Kafka::after(1);
    let old = kafka.marker();
    kafka.goes_on_from(1);
    kafka.set_marker(Some(Ok(old)));
    let message = kafka.place.refused(PLAIN, "W0532");
    assert!(
        message.contains("says checkpoint 1") && message.contains("has checkpoint 2"),
        "{message}"
    );
    // Also before the slot of the checkpoint that was lost.
    kafka.set_marker(None);
    kafka.place.refused(PLAIN, "W0531");
}

#[test]
fn a_marker_of_another_history_stops_the_job() {
    let kafka = Kafka::after(2);
    let mut marker = kafka.marker();
    marker.lineage = Lineage::from_bits(7);
    for n in [0, 2, 3] {
        marker.n = n;
        kafka.set_marker(Some(Ok(marker.clone())));
        let message = kafka.place.refused(PLAIN, "W0514");
        assert!(message.contains(&marker.lineage.to_string()), "{message}");
    }
}

#[test]
fn a_marker_that_cannot_be_read_stops_the_job_and_so_does_one_of_a_later_release() {
    let kafka = Kafka::after(2);
    for (bytes, what) in [
        ("{", "EOF"),
        (r#"{"format":2,"more":true}"#, "it has format 2"),
        (r#"{"format":1}"#, "missing field"),
    ] {
        kafka.set_marker(Some(Marker::decode(bytes.as_bytes())));
        for options in [PLAIN, FRESH] {
            let code = if options.fresh { "W0516" } else { "W0533" };
            let message = kafka.place.refused(options, code);
            assert!(options.fresh || message.contains(what), "{message}");
        }
    }
    // Only the word of the user leads past it.
    kafka.place.try_start(OVERRIDE).expect("told to");
}

#[test]
fn a_marker_is_read_as_written() {
    let kafka = Kafka::after(1);
    let marker = kafka.marker();
    assert_eq!(Marker::decode(&marker.encode()), Ok(marker));
}

#[test]
fn an_emptied_directory_beside_a_marker_is_not_a_fresh_start() {
    for count in [1, 3] {
        let kafka = Kafka::without_files(count);
        fs::remove_dir_all(kafka.place.checkpoints()).expect("removed");
        let message = kafka.refused_before_the_claim_of_nothing();
        assert!(
            message.contains(&format!("checkpoint {count}\n")),
            "{message}"
        );
        assert!(message.contains("Is the volume mounted?"), "{message}");
        kafka.place.refused(FRESH, "W0516");
        let mut process = kafka.place.try_start(OVERRIDE).expect("told to");
        assert_eq!(process.recovered.verdict, Verdict::Fresh);
        process.checkpoint(&kafka.place);
        assert_eq!(kafka.place.start().confirmed, process.confirmed);
    }
}

impl Kafka {
    fn refused_before_the_claim_of_nothing(&self) -> String {
        let message = self.place.refused(PLAIN, "W0503");
        assert!(names(&self.place.checkpoints().join("log")).is_empty());
        assert!(self.cluster.state().fenced.last() == Some(&point()));
        message
    }
}

#[test]
fn a_directory_rolled_back_a_day_stops_the_job_and_one_slot_is_found_again() {
    let kafka = Kafka::without_files(1);
    let log = kafka.place.checkpoints().join("log");
    let newest = names(&log).pop().expect("a slot");
    fs::remove_file(log.join(newest)).expect("removed");
    kafka.goes_on_from(1);
    let backup = kafka.place.root.path().join("backup");
    copy(&kafka.place.checkpoints(), &backup);
    kafka.goes_on_from(2);
    fs::remove_dir_all(kafka.place.checkpoints()).expect("removed");
    copy(&backup, &kafka.place.checkpoints());
    let message = kafka.place.refused(PLAIN, "W0504");
    assert!(
        message.contains("ends at checkpoint 2") && message.contains("says checkpoint 3"),
        "{message}"
    );
}

fn recreated() -> KafkaPoint {
    KafkaPoint {
        topic_id: "topic-2".to_owned(),
        ..point()
    }
}

#[test]
fn a_commit_topic_that_was_created_again_stops_a_killed_job_and_not_one_that_was_stopped() {
    let mut kafka = Kafka::after(2);
    kafka.add(recreated());
    let message = kafka.refused_before_the_claim(PLAIN, "W0534");
    assert!(message.contains("id topic-1, now topic-2"), "{message}");
    kafka.add(point());
    kafka.stopped();
    kafka.add(recreated());
    kafka.goes_on_from(3);
    // From then on the new topic counts.
    kafka.cluster.state().markers.remove("topic-2");
    kafka.place.refused(PLAIN, "W0531");
}

#[test]
fn a_kafka_sink_is_added_to_a_job_that_has_run_without_one() {
    for stopped in [false, true] {
        let place = Place::after(2);
        let mut kafka = Kafka {
            place,
            cluster: Arc::default(),
        };
        kafka.cluster.state().output = vec!["1-1".to_owned(), "2-1".to_owned()];
        if stopped {
            kafka.stopped();
            kafka.cluster.state().output.push("3-2".to_owned());
        }
        kafka.add(point());
        kafka.goes_on_from(if stopped { 3 } else { 2 });
        // The first start committed a marker before it began.
        kafka.set_marker(None);
        kafka.place.refused(PLAIN, "W0531");
    }
}

#[test]
fn a_kafka_sink_is_removed_after_a_clean_stop_and_comes_back() {
    let mut kafka = Kafka::after(2);
    kafka.stopped();
    kafka.remove();
    let mut process = kafka.place.start();
    assert_eq!(process.confirmed, 3);
    process.checkpoint(&kafka.place);
    let visible = visible(&kafka.place.out());
    kafka.cluster.state().output = visible;
    // Its marker there is an old one.
    assert_eq!(kafka.marker().n, 3);
    kafka.add(point());
    kafka.goes_on_from(4);
    assert_eq!(kafka.marker().n, 5);
}

#[test]
fn a_kafka_sink_that_is_removed_after_a_kill_is_missed_and_put_back_all_is_well() {
    let mut kafka = Kafka::after(2);
    kafka.killed_before_the_slot();
    kafka.remove();
    let message = kafka.refused_before_the_claim(PLAIN, "W0535");
    assert!(
        message.contains("cluster cluster-1") && message.contains("`weir stop`"),
        "{message}"
    );
    kafka.refused_before_the_claim(FRESH, "W0516");
    kafka.add(point());
    kafka.goes_on_from(3);
    kafka.stopped();
    kafka.remove();
    assert_eq!(kafka.place.start().confirmed, 5);
}

#[test]
fn a_start_that_never_got_as_far_as_a_marker_does_not_bind_the_job_to_its_cluster() {
    // A Kafka sink is added, no broker answers, and it is removed again.
    let mut kafka = Kafka {
        place: Place::after(2),
        cluster: Arc::default(),
    };
    kafka.add(point());
    for call in 1..=3 {
        kafka.cluster.state().calls = 0;
        kafka.cluster.state().fails = Some((call, false));
        kafka.place.refused_for_now();
        kafka.remove();
        assert_eq!(kafka.place.start().confirmed, 2, "call {call}");
        kafka.add(point());
    }
    // Another cluster by mistake, and the right one again.
    let mut kafka = Kafka::after(2);
    kafka.killed_before_the_slot();
    kafka.add(KafkaPoint {
        cluster: "cluster-2".to_owned(),
        ..recreated()
    });
    let message = kafka.refused_before_the_claim(PLAIN, "W0535");
    assert!(message.contains("cluster cluster-2"), "{message}");
    kafka.add(point());
    kafka.goes_on_from(3);
}

impl Place {
    /// A start that fails because the cluster does not answer: tried again, not refused for good.
    #[track_caller]
    fn refused_for_now(&self) {
        match self.try_start(PLAIN) {
            Ok(process) => panic!("started: {:?}", process.recovered.verdict),
            Err(refusal) => {
                assert_eq!(
                    (refusal.code(), refusal.exit_code()),
                    ("W0905", 75),
                    "{refusal}"
                );
                assert!(
                    refusal.to_string().contains("no broker answers"),
                    "{refusal}"
                );
            }
        }
    }
}

#[test]
fn ids_and_commit_topic_may_be_renamed_after_a_kill() {
    let renamed = [
        KafkaPoint {
            ids: "weir-other".to_owned(),
            ..point()
        },
        KafkaPoint {
            topic: "commits".to_owned(),
            topic_id: "topic-9".to_owned(),
            partition: 0,
            ..point()
        },
    ];
    for renamed in renamed {
        let mut kafka = Kafka::after(2);
        kafka.killed_before_the_slot();
        kafka.add(renamed.clone());
        // Killed once more before the job has moved over.
        let calls = kafka.cluster.state().calls;
        kafka.cluster.state().fails = Some((calls + 4, false));
        kafka.place.refused_for_now();
        kafka.goes_on_from(3);
        assert_eq!(kafka.cluster.state().fenced.last(), Some(&renamed));
        // It has moved: the old place is not asked again.
        kafka.goes_on_from(4);
        assert_eq!(kafka.cluster.state().fenced, [renamed]);
    }
}

#[test]
fn the_old_producers_are_fenced_as_well_when_they_are_renamed() {
    let mut kafka = Kafka::after(2);
    let renamed = KafkaPoint {
        ids: "weir-other".to_owned(),
        ..point()
    };
    kafka.add(renamed.clone());
    kafka.place.start();
    assert_eq!(kafka.cluster.state().fenced, [point(), renamed]);
}

#[test]
fn fresh_over_committed_output_in_kafka_needs_the_word_of_the_user() {
    let kafka = Kafka::without_files(2);
    let message = kafka.refused_before_the_claim(FRESH, "W0516");
    assert!(message.contains("up to checkpoint 2"), "{message}");
    let first = kafka.marker().lineage;
    let mut process = kafka.place.try_start(OVERRIDE).expect("told to");
    assert_eq!(process.recovered.verdict, Verdict::Fresh);
    assert_ne!(process.recovered.lineage, first);
    assert_eq!(kafka.marker().n, 0);
    process.checkpoint(&kafka.place);
    // Another start of the same process resumes.
    assert_eq!(process.driver.recover(3_000).expect("resumed").confirmed, 3);
    kafka.goes_on_from(3);
}

#[test]
fn fresh_before_anything_was_committed_to_kafka_needs_no_word() {
    let kafka = Kafka::without_files(0);
    let first = kafka.place.start().recovered.lineage;
    let process = kafka.place.try_start(FRESH).expect("nothing is doubled");
    assert_ne!(process.recovered.lineage, first);
    drop(process);
    kafka.goes_on_from(0);
}

#[test]
fn an_output_topic_that_was_created_again_stops_the_job() {
    let topic = |id: &str| TopicEntry {
        sink: "alerts".to_owned(),
        cluster: "cluster-1".to_owned(),
        topic: "alerts".to_owned(),
        topic_id: id.to_owned(),
    };
    let mut kafka = Kafka::after(0);
    kafka.place.identity.topics = vec![topic("topic-5")];
    kafka.goes_on_from(0);
    kafka.place.identity.topics = vec![topic("topic-6")];
    let message = kafka.refused_before_the_claim(PLAIN, "W0536");
    assert!(
        message.contains("topic-5") && message.contains("topic-6"),
        "{message}"
    );
    // Pointed to another topic by its job file, the sink writes there.
    kafka.place.identity.topics = vec![TopicEntry {
        topic: "other".to_owned(),
        ..topic("topic-7")
    }];
    kafka.goes_on_from(1);
}

#[test]
fn a_start_that_fails_at_any_call_to_the_cluster_is_followed_by_one_that_goes_on_exactly() {
    for carried_out in [false, true] {
        let mut call = 0;
        loop {
            call += 1;
            let kafka = Kafka::after(2);
            kafka.killed_before_the_slot();
            let mut state = kafka.cluster.state();
            (state.calls, state.fails) = (0, Some((call, carried_out)));
            drop(state);
            if kafka.place.try_start(PLAIN).is_ok() {
                break;
            }
            kafka.goes_on_from(3);
        }
        // Fence, look at the marker, claim it.
        assert_eq!(call, 4);
    }
}

#[test]
fn a_first_start_that_fails_at_any_call_to_the_cluster_is_followed_by_one_that_begins_once() {
    for carried_out in [false, true] {
        let mut call = 0;
        loop {
            call += 1;
            let kafka = Kafka::after(0);
            kafka.cluster.state().fails = Some((call, carried_out));
            if kafka.place.try_start(PLAIN).is_ok() {
                break;
            }
            kafka.goes_on_from(0);
        }
        // A look before the claim, fence, the marker, the first marker.
        assert_eq!(call, 5);
    }
}

#[test]
fn starting_over_is_as_exact_when_it_fails_half_way() {
    for carried_out in [false, true] {
        for call in 1..=4 {
            let kafka = Kafka::without_files(2);
            let first = kafka.marker().lineage;
            let mut state = kafka.cluster.state();
            (state.calls, state.fails) = (0, Some((call, carried_out)));
            drop(state);
            let failed = kafka.place.try_start(OVERRIDE).is_err();
            assert!(failed, "call {call}");
            // Without the word again: the old history goes on unless the marker of the new one was committed.
            let process = kafka.place.start();
            let begun = carried_out && call == 4;
            assert_eq!(process.recovered.lineage != first, begun, "call {call}");
            assert_eq!(process.confirmed, if begun { 0 } else { 2 });
        }
    }
}

#[test]
fn an_attempt_that_was_replaced_does_not_get_into_its_successors_transactions() {
    let kafka = Kafka::after(1);
    let mut old = kafka.place.start();
    let manifest = old.prepare(&kafka.place, false);
    let digest = old.store(&manifest);
    let (markers, marker) = old.driver.marker(manifest.n, digest).expect("Kafka");
    kafka.goes_on_from(1);
    // The thread that was to commit wakes up only now.
    markers.commit(&marker).expect_err("fenced");
    let refusal = old.driver.recover(3_000).expect_err("taken over");
    assert_eq!((refusal.code(), refusal.exit_code()), ("W0502", 4));
    kafka.goes_on_from(3);
}

#[test]
fn a_manifest_that_is_stored_again_is_the_same() {
    let kafka = Kafka::after(1);
    let mut process = kafka.place.start();
    let manifest = process.prepare(&kafka.place, false);
    let digest = process.store(&manifest);
    // The answer was lost; a second later it is stored again.
    let later = Reading {
        wall: NOW.wall + 1_000,
        processing: NOW.processing + 1_000,
    };
    match process.driver.store_manifest(manifest, later) {
        Event::ManifestStored { digest: again, .. } => assert_eq!(again, digest),
        other => panic!("{other:?}"),
    }
}
