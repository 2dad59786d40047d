//! The network does its worst to a commit: what a transaction's end is told, or its answer, is lost, held or late. Each record is copied
//! once all the same.

use std::time::{Duration, Instant};

use rdkafka::producer::{BaseProducer, Producer};
use weir_tests::host::{HANGS, Process};
use weir_tests::kafka::{Api, Broker, Isolation, Proxy, Rule};
use weir_tests::place::Start;

use crate::copying::{Copying, JOB, commits, stop, wait_for};

/// The job, whose sink comes by a proxy. It asks again when there is no answer within two seconds.
struct Proxied {
    job: Copying<'static>,
    proxy: Proxy<'static>,
}

impl Proxied {
    /// `None` if there are no proxied listeners; then it has been said.
    fn new(test: &str) -> Option<Proxied> {
        let broker = Broker::shared();
        if broker.is_foreign("a proxied listener") {
            return None;
        }
        let job = Copying::new(test);
        let proxy = Proxy::before(broker);
        let text = JOB.replace("BROKERS", &proxy.address());
        let hasty = "transactional_id: <id>\n      properties: {socket.timeout.ms: 2000}";
        job.write_job(&text.replace("transactional_id: <id>", hasty));
        Some(Proxied { job, proxy })
    }

    /// Something was done to a commit: the attempt ends as one whose commit is in doubt, and another one copies the rest.
    #[track_caller]
    fn is_resolved(&self, mut process: Process, rule: Rule) {
        assert!(rule.wait(1, HANGS), "{}", process.log());
        assert!(process.says("[W0523]", 1, HANGS), "{}", process.log());
        rule.lift();
        self.job.wait(&mut process);
        stop(process);
        self.job.is_exact();
    }
}

#[test]
fn a_commit_whose_answer_is_lost_is_resolved_by_its_marker() {
    let Some(it) = Proxied::new("answer-lost") else {
        return;
    };
    let process = it.job.running();
    let rule = it.proxy.when(Api::END_TXN).drop_response();
    it.job.write(50);
    it.is_resolved(process, rule);
}

#[test]
fn a_commit_whose_request_is_lost_is_resolved_by_its_marker() {
    let Some(it) = Proxied::new("request-lost") else {
        return;
    };
    let process = it.job.running();
    let rule = it.proxy.when(Api::END_TXN).drop_request();
    it.job.write(50);
    it.is_resolved(process, rule);
}

/// Nothing is in doubt yet: it is delivered again, and the broker knows it by its number.
#[test]
fn records_and_markers_whose_acknowledgement_is_lost_are_written_once() {
    let Some(it) = Proxied::new("delivery-lost") else {
        return;
    };
    let mut process = it.job.running();
    // A checkpoint has a request or two with records, and one with the marker.
    for nth in 1..=4 {
        let rule = it.proxy.when(Api::PRODUCE).nth(nth).drop_response();
        it.job.write(50);
        assert!(rule.wait(1, HANGS), "{}", process.log());
        it.job.wait(&mut process);
    }
    stop(process);
    it.job.is_exact();
}

/// What `look` sees once it has not changed for a while.
fn quiet(look: impl Fn() -> usize) -> usize {
    let (mut seen, mut since) = (look(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        let now = look();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    seen
}

/// The request that is late belongs to a transaction which is committed by then. It must not commit the next one half-way, nor end it.
#[test]
fn a_commit_that_arrives_inside_the_next_transaction_changes_nothing() {
    let Some(it) = Proxied::new("arrives-late") else {
        return;
    };
    let mut process = it.job.running();
    // Of one of the two ids, and then the next one of the same.
    let id = it.job.id(0);
    let late = it.proxy.when(Api::END_TXN).of(&id).hold_request();
    it.job.write(50);
    assert!(late.wait(1, HANGS), "{}", process.log());
    // The client asks again by another connection.
    it.proxy.cut();
    assert!(process.says("[W0523]", 1, HANGS), "{}", process.log());
    assert!(process.says("attempt 2", 1, HANGS), "{}", process.log());
    it.job.wait(&mut process);

    // The next transaction of that id is not committed, so no later one is, and some records wait for it.
    let (before, next) = loop {
        it.job.write(50);
        let next = it.proxy.when(Api::END_TXN).of(&id).hold_request();
        assert!(next.wait(1, HANGS), "{}", process.log());
        // Brokers make the transaction before that visible a moment after they have agreed to.
        let before = quiet(|| it.job.copied().len());
        let all = it.job.scene.topics.read("out", Isolation::Uncommitted);
        if all.len() > before {
            break (before, next);
        }
        next.lift();
    };
    late.lift();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        let seen = it.job.copied().len();
        assert_eq!(
            seen,
            before,
            "half a transaction is committed: {}",
            process.log()
        );
    }
    next.lift();
    it.job.wait(&mut process);
    stop(process);
    it.job.is_exact();
}

/// Everything else works: records are read and written, and only what concerns transactions finds nobody.
#[test]
fn a_coordinator_that_cannot_be_reached_is_waited_for() {
    let Some(it) = Proxied::new("no-coordinator") else {
        return;
    };
    let mut process = it.job.running();
    let rule = it.proxy.when_any(&Api::OF_COORDINATORS).always().cut();
    it.proxy.cut_coordinators();
    it.job.write(50);
    assert!(process.says("[W0523]", 1, HANGS), "{}", process.log());
    // The next attempt cannot begin either.
    let so_far = rule.count();
    assert!(rule.wait(so_far + 3, HANGS), "{}", process.log());
    assert!(process.is_running());
    rule.lift();
    it.job.write(50);
    it.job.wait(&mut process);
    stop(process);
    it.job.is_exact();
}

/// A thread that was about to commit stands still while its attempt ends, because its producers were shut out, and the next one begins with
/// transactions of its own. Let go, it must leave those alone.
#[test]
fn a_commit_that_comes_after_its_attempt_leaves_the_next_one_alone() {
    let job = Copying::new("late-thread");
    job.write(20);
    let held = job.scene.place.path("held");
    let mut process = job.start_with(&Start {
        fault: Some(("before-marker".to_owned(), 5)),
        hold: Some(held.clone()),
        ..Start::default()
    });
    wait_for(&mut process, || held.exists());
    let broker = job.scene.topics.broker();
    for number in 0..2 {
        let other: BaseProducer = broker
            .client()
            .set("transactional.id", job.id(number))
            .create()
            .expect("these are properties of producers");
        other.init_transactions(HANGS).expect("it is the newest");
    }
    // Whoever writes finds out.
    wait_for(&mut process, || {
        job.write(5);
        job.copied().len() > 20
    });
    job.wait(&mut process);
    std::fs::remove_file(held).expect("it is held");
    commits(&mut process, 5);
    job.write(50);
    job.wait(&mut process);
    let attempts = process.log().matches("; attempt ").count();
    assert_eq!(attempts, 2, "{}", process.log());
    stop(process);
    job.is_exact();
}
