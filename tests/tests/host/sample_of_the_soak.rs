//! Nothing is lost or doubled by kills: a sample of `make soak`, one kill at each fault point among them.

use weir_tests::host::Host;
use weir_tests::soak::files::{Plan, points, soak};

/// Fixed, so that a test run repeats the last one; the soak varies it.
const SEED: u64 = 20_130_101;

#[test]
fn kills_at_every_fault_point_and_at_random_lose_and_double_nothing() {
    let host = Host::find().unwrap_or_else(|what| panic!("{what}"));
    let dir = tempfile::Builder::new()
        .prefix("weir-soak-")
        .tempdir()
        .expect("a temporary directory");
    let tally = soak(host, dir.path(), &Plan::sample(SEED));
    for point in points() {
        assert!(
            tally.points.contains_key(point),
            "`{point}` never killed: {:?}",
            tally.failures
        );
    }
    if !tally.failures.is_empty() {
        panic!(
            "{}\neverything is kept in {}",
            tally.failures.join("\n"),
            dir.keep().display()
        );
    }
    assert_eq!((tally.lost, tally.doubled), (0, 0));
}
