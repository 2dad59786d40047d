//! A thousand checkpoints in a short time: all succeed, what is kept is what was asked for, and the disk does not fill up.

use rustix::process::Signal;
use weir_tests::host::HANGS;
use weir_tests::place::{Place, Start};

/// Earlier files that a snapshot builds on at most.
const MOST_NEEDED: usize = 32;

#[test]
fn a_thousand_checkpoints_leave_three() {
    let place = Place::temporary();
    place.write_job(
        "version: 1
job: many
parallelism: 2
checkpoint: {dir: checkpoints, interval: 5ms, retain: 3}
sources:
  in: {generator: {records: unbounded, keys: 200}, rate: 2000}
operators:
  count: {component: @weir_guest_count, input: in}
sinks:
  gone: {input: count, blackhole: {}}
",
    );
    let mut process = place.start(&Start::default());
    let mut largest = 0;
    let mut n = 0;
    while n < 1_000 {
        n += 100;
        assert!(
            process.says(&format!("checkpoint {n} committed"), 1, HANGS),
            "{}",
            process.log()
        );
        largest = largest.max(place.checkpoints().bytes());
    }
    process.signal(Signal::TERM);
    let exit = process.end();
    exit.expect(0, &["stopped"]);
    for trouble in ["W0521", "warn", "restarting"] {
        assert!(!exit.log.contains(trouble), "{trouble}:\n{}", exit.log);
    }
    assert!(largest < 1 << 20, "{largest} bytes of checkpoints");

    let checkpoints = place.checkpoints();
    let commits = checkpoints.commits();
    let last = *commits.last().expect("commits");
    assert_eq!(
        commits,
        [last - 2, last - 1, last],
        "as many as asked for, without a gap"
    );
    assert!(last > 1_000);
    assert_eq!(checkpoints.files("manifests").len(), 3);
    assert!(
        checkpoints.files("log").len() <= 5,
        "claims and kept commits: {:?}",
        checkpoints.files("log")
    );
    // Two subtasks, three checkpoints, and what the oldest of them builds on.
    let files = checkpoints.files("state").len();
    assert!((6..=2 * (3 + MOST_NEEDED)).contains(&files), "{files}");
}
