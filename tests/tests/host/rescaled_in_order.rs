//! Files that go on from one another in event time stay in order when the job goes on at a lower parallelism: no record becomes
//! late that would not have been.

use rustix::process::Signal;
use weir_tests::host::HANGS;
use weir_tests::place::{Place, Start};

/// Lines of each file: the second subtask gets through its files much faster than the first.
const LINES: [u64; 6] = [3_000, 200, 3_000, 1_500, 200, 200];

fn write_job(place: &Place, rate: u64) {
    place.write_job(&format!(
        "version: 1
job: order
checkpoint: {{dir: checkpoints, interval: 50ms}}
sources:
  files:
    file: {{paths: ['in/*.jsonl'], format: json}}
    key: /key
    event_time: {{field: /time, format: millis}}
    rate: {rate}
operators:
  ledger: {{component: @weir_guest_ledger, input: files}}
sinks:
  lines: {{input: ledger.ledger, file: {{dir: out/lines, roll: {{age: 0s}}}}}}
  windows: {{input: ledger.windows, file: {{dir: out/windows}}}}
"
    ));
}

#[test]
fn half_read_files_do_not_come_before_earlier_ones() {
    let place = Place::temporary();
    let mut time = 0;
    for (file, lines) in LINES.into_iter().enumerate() {
        let mut text = String::new();
        for _ in 0..lines {
            time += 10;
            text.push_str(&format!("{{\"key\": \"{file}\", \"time\": {time}}}\n"));
        }
        place.write(&format!("in/{file}.jsonl"), text);
    }
    write_job(&place, 2_000);
    let mut process = place.start(&Start::at(2));
    // Some of the fourth file, before the first is read to its end.
    loop {
        assert!(process.is_running(), "{}", process.log());
        process.within(std::time::Duration::from_millis(20));
        if place
            .committed("lines")
            .iter()
            .any(|line| line.contains("\"key\":\"3\""))
        {
            break;
        }
    }
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped", "late 0,"]);
    let (_, manifest) = place.checkpoints().last_manifest();
    let done: Vec<_> = manifest["sources"][0]["splits"]
        .as_array()
        .expect("splits")
        .iter()
        .map(|split| split["done"].as_bool().expect("a flag"))
        .collect();
    assert_eq!(
        done,
        [false, true, false, false, false, false],
        "the second subtask is in the fourth file"
    );

    write_job(&place, 20_000);
    let mut process = place.start(&Start::at(1));
    assert!(process.within(HANGS).is_some());
    let exit = process.end();
    exit.expect(0, &["finished", "late 0,"]);
    assert_eq!(
        place.committed("lines").len() as u64,
        LINES.iter().sum::<u64>()
    );
}
