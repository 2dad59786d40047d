//! A record without a key at a keyed input fails the job by name, or is left out and counted.

use weir_tests::host::Exit;
use weir_tests::place::Place;

fn run(policy: &str) -> (Place, Exit) {
    let place = Place::temporary();
    place.write(
        "in/lines.jsonl",
        "{\"k\": \"a\"}\n{\"k\": null}\n{\"k\": \"a\"}\n{\"other\": 1}\n{\"k\": \"\"}\n",
    );
    place.write_job(&format!(
        "version: 1
job: nulls
parallelism: 2
checkpoint: {{dir: checkpoints}}
sources:
  in: {{file: {{paths: [in/lines.jsonl], format: json}}, key: /k}}
operators:
  ledger: {{component: @weir_guest_ledger, input: in{policy}}}
sinks:
  lines: {{input: ledger.ledger, file: {{dir: out/lines}}}}
  windows: {{input: ledger.windows, blackhole: {{}}}}
"
    ));
    let exit = place.run();
    (place, exit)
}

#[test]
fn fail_is_the_default_and_names_the_record() {
    for policy in ["", ", null_key: fail"] {
        let (place, exit) = run(policy);
        exit.expect(
            5,
            &[
                "error[W0402]",
                "operator `ledger`",
                "in/lines.jsonl line 2",
                "null_key: skip",
            ],
        );
        assert!(place.committed("lines").is_empty());
    }
}

#[test]
fn skip_leaves_them_out_and_counts() {
    let (place, exit) = run(", null_key: skip");
    exit.expect(0, &["without a key and left out: 2"]);
    // The empty key is a key.
    assert_eq!(place.committed("lines").len(), 3);
}
