//! Nothing is lost, doubled or out of order: a sample of the Kafka part of `make soak`, one kill at each fault point among it.

use weir_tests::host::Host;
use weir_tests::kafka::Broker;
use weir_tests::soak::kafka::{Plan, points, soak};

/// Fixed, so that a test run repeats the last one; the soak varies it.
const SEED: u64 = 20_260_401;

#[test]
fn kills_of_hosts_and_brokers_lose_and_double_nothing() {
    let host = Host::find().unwrap_or_else(|what| panic!("{what}"));
    let dir = tempfile::Builder::new()
        .prefix("weir-soak-")
        .tempdir()
        .expect("a temporary directory");
    let tally = soak(host, Broker::shared(), dir.path(), &Plan::sample(SEED));
    if !tally.failures.is_empty() {
        panic!(
            "seed {SEED}:\n{}\neverything is kept in {}",
            tally.failures.join("\n"),
            dir.keep().display()
        );
    }
    assert_eq!((tally.lost, tally.doubled), (0, 0), "seed {SEED}");
    let missed = tally.missed(points());
    assert!(
        missed.is_empty(),
        "seed {SEED}: nothing was killed at {missed:?}"
    );
}
