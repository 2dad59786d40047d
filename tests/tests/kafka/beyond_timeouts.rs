//! Something stands still for longer than a transaction may last: the disk, the host, the broker, or nobody starts the job again. The broker
//! has aborted the transactions by then, and what was in them is copied anew.
//!
//! A transaction's shortest timeout is that of `fail_after` and half a minute more, so all wait at once.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use weir_tests::host::HANGS;
use weir_tests::kafka::{Broker, Isolation, Options};
use weir_tests::place::Start;

use crate::copying::{Copying, JOB, stop, wait_for};

/// What it is set to, and how long things stand still.
const TIMEOUT: Duration = Duration::from_secs(42);
const LONGER: Duration = Duration::from_secs(45);

/// The job with the shortest transactions that there are, in the middle of one.
fn job<'a>(broker: &'a Broker, test: &str) -> Copying<'a> {
    let job = Copying::on(broker, test);
    let times = "interval: 100ms, timeout: 1s, fail_after: 12s";
    let text = JOB
        .replace("interval: 100ms", times)
        .replace("give_up_after: 5", "give_up_after: 1000");
    let timeout = format!(
        "transactional_id: <id>\n      transaction_timeout: {}s",
        TIMEOUT.as_secs()
    );
    job.write_job(&text.replace("transactional_id: <id>", &timeout));
    job
}

/// A manifest takes long to be written. Records go on being copied, into the next transaction.
fn the_disk(broker: &Broker) {
    let job = job(broker, "disk");
    job.write(20);
    let held = job.scene.place.path("held");
    let mut process = job.start_with(&Start {
        fault: Some(("after-manifest".to_owned(), 5)),
        hold: Some(held.clone()),
        ..Start::default()
    });
    wait_for(&mut process, || held.exists());
    let all = || job.scene.topics.read("out", Isolation::Uncommitted).len();
    let before = all();
    job.write(50);
    wait_for(&mut process, || all() >= before + 50);
    thread::sleep(LONGER);
    assert_eq!(job.copied().len(), 20, "nothing can have been committed");
    fs::remove_file(held).expect("it is held");
    job.wait(&mut process);
    assert!(process.says("attempt 2", 1, HANGS), "{}", process.log());
    stop(process);
    job.is_exact();
}

/// The host stands still in the middle of a transaction.
fn the_host(broker: &Broker) {
    let job = job(broker, "host");
    job.write(20);
    let held = job.scene.place.path("held");
    let mut process = job.start_with(&Start {
        fault: Some(("marker-produced".to_owned(), 5)),
        hold: Some(held.clone()),
        ..Start::default()
    });
    // At least the marker is in it.
    wait_for(&mut process, || held.exists());
    process.signal(Signal::STOP);
    job.write(50);
    thread::sleep(LONGER);
    fs::remove_file(held).expect("it is held");
    process.signal(Signal::CONT);
    job.wait(&mut process);
    assert!(process.says("attempt 2", 1, HANGS), "{}", process.log());
    stop(process);
    job.is_exact();
}

/// The host is killed in the middle of a transaction, and started again long after.
fn nobody_starts_it(broker: &Broker) {
    let job = job(broker, "downtime");
    job.write(20);
    let mut process = job.start_with(&Start {
        fault: Some(("marker-produced".to_owned(), 5)),
        ..Start::default()
    });
    assert!(process.end().killed());
    job.write(50);
    thread::sleep(LONGER);
    job.goes_on_exactly();
}

/// The broker stands still while records are written to it.
fn the_broker() {
    let Some(broker) = Broker::own(&Options::default()) else {
        return;
    };
    let job = job(&broker, "broker");
    let mut process = job.running();
    job.write(50);
    broker.freeze();
    thread::sleep(LONGER);
    assert!(process.is_running(), "{}", process.log());
    broker.thaw();
    job.write(50);
    job.wait(&mut process);
    stop(process);
    job.is_exact();
}

#[test]
fn what_stood_still_for_longer_than_a_transaction_may_last_loses_and_doubles_nothing() {
    let shared = Broker::shared();
    thread::scope(|scope| {
        let all = [
            ("the disk", scope.spawn(|| the_disk(shared))),
            ("the host", scope.spawn(|| the_host(shared))),
            ("downtime", scope.spawn(|| nobody_starts_it(shared))),
            ("the broker", scope.spawn(the_broker)),
        ];
        let failed: Vec<_> = all
            .into_iter()
            .filter_map(|(what, thread)| thread.join().is_err().then_some(what))
            .collect();
        assert!(failed.is_empty(), "failed, as said above: {failed:?}");
    });
}
