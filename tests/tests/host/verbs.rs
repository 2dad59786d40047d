//! What `weir check`, `inspect`, `schema` say, and what is refused by name.

use serde_json::Value;
use weir_tests::guest;
use weir_tests::place::Place;

use crate::fixture::{SLOW, text};

#[test]
fn check_shows_the_plan_and_starts_nothing() {
    let place = Place::temporary();
    place.write_job(&text(SLOW));
    let exit = place.weir(&["check", "job.yaml"]);
    assert_eq!(exit.code(), Some(0), "{}", exit.log);
    let text = exit.text();
    for line in [
        "job.yaml: ok",
        "numbers ×2 -> ledger ×2 (by-key)",
        "ledger ×2 -> lines ×2 (chained)",
        "16 key groups",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!place.path("checkpoints").exists() && !place.path(".weir").exists());
}

#[test]
fn check_print_shows_the_job_with_its_defaults() {
    let place = Place::temporary();
    place.write_job(&text(SLOW));
    let exit = place.weir(&["check", "--offline", "--print", "job.yaml"]);
    assert_eq!(exit.code(), Some(0), "{}", exit.log);
    let printed = place.path("printed.yaml");
    std::fs::write(&printed, &exit.out).expect("the file can be written");
    for text in ["max_parallelism: 16", "fail_after:", "checkpoints"] {
        assert!(exit.text().contains(text), "{}", exit.text());
    }
    let again = place.weir(&["check", "--offline", "--print", "printed.yaml"]);
    assert_eq!(
        again.text(),
        exit.text(),
        "what is printed is a job file, and the same job; log:\n{}",
        again.log
    );
}

#[test]
fn check_names_every_mistake_with_line_column_and_suggestion() {
    let place = Place::temporary();
    place.write_job(
        &text(SLOW)
            .replace("rate:", "rat:")
            .replace("interval: 50ms", "interval: 50"),
    );
    let exit = place.weir(&["check", "job.yaml"]);
    exit.expect(
        2,
        &[
            "error[W0102]: unknown field `rat`",
            "job.yaml:10:5",
            "did you mean `rate`?",
            "job.yaml:5:",
        ],
    );
    assert_eq!(exit.log.matches("error[").count(), 2, "{}", exit.log);
    // Running it says the same.
    assert_eq!(place.run().code(), Some(2));
}

#[test]
fn what_cannot_be_read_or_is_no_operator_is_an_invalid_job() {
    let place = Place::temporary();
    place
        .weir(&["run", "nowhere.yaml"])
        .expect(2, &["error[W0101]", "nowhere.yaml"]);
    place.write_job(&text(SLOW).replace("@weir_guest_ledger", "missing.wasm"));
    place
        .weir(&["run", "job.yaml"])
        .expect(2, &["error[W0201]", "missing.wasm", "job.yaml:"]);
    place.write("missing.wasm", "#!/bin/sh\n");
    place
        .weir(&["run", "job.yaml"])
        .expect(2, &["error[W0210]", "missing.wasm is not a Weir operator"]);
    place.write_job(&text(SLOW).replace("ledger.windows", "ledger.doors"));
    place.weir(&["check", "job.yaml"]).expect(
        2,
        &["error[W0220]", "no output named `doors`", "ledger, windows"],
    );
    place.write_job(&text(SLOW).replace(
        "component: @weir_guest_ledger",
        "component: {file: @weir_guest_ledger, sha256: 00}",
    ));
    assert_eq!(place.weir(&["check", "job.yaml"]).code(), Some(2));
}

#[test]
fn a_command_line_that_is_none_is_refused() {
    let place = Place::temporary();
    for args in [
        &["frobnicate"][..],
        &["run"],
        &["run", "job.yaml", "--parallelism", "0"],
        &["explain", "W9999"],
        &["swap", "job", "operator", "new.wasm"],
    ] {
        assert_eq!(place.weir(args).code(), Some(2), "{args:?}");
    }
    let help = place.weir(&["--help"]);
    assert_eq!(help.code(), Some(0));
    assert!(help.text().contains("Exit codes:"), "{}", help.text());
}

#[test]
fn inspect_shows_what_an_operator_declares() {
    let place = Place::temporary();
    let ledger = guest("weir_guest_ledger")
        .expect("it is built")
        .display()
        .to_string();
    let exit = place.weir(&["inspect", &ledger]);
    assert_eq!(exit.code(), Some(0), "{}", exit.log);
    let text = exit.text();
    for part in [
        "sha256",
        "weir:operator/lifecycle@0.1",
        "records (keyed)",
        "ledger (keys kept)",
        "amounts (items, version 1)",
        "names (entries, version 1)",
        "window-over (event time)",
        "pulse (processing time)",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn inspect_says_what_else_a_file_is() {
    let place = Place::temporary();
    let file = place
        .write("in/program.wasm", "\0asm\u{1}\0\0\0")
        .display()
        .to_string();
    let exit = place.weir(&["inspect", &file]);
    exit.expect(2, &["error[W0210]", "is not a Weir operator"]);
    place
        .weir(&["inspect", "nowhere.wasm"])
        .expect(2, &["error[W0201]", "nowhere.wasm"]);
}

#[test]
fn schema_is_a_json_schema_of_job_files() {
    let place = Place::temporary();
    let exit = place.weir(&["schema"]);
    assert_eq!(exit.code(), Some(0), "{}", exit.log);
    let schema: Value = serde_json::from_slice(&exit.out).expect("JSON");
    assert_eq!(schema["title"], "Weir job file");
    for field in [
        "version",
        "job",
        "sources",
        "operators",
        "sinks",
        "checkpoint",
        "restart",
    ] {
        assert!(schema["properties"][field].is_object(), "{field}");
    }
}

#[test]
fn what_comes_later_is_refused_by_name() {
    let place = Place::temporary();
    let good = text(SLOW);
    let later: &[(&str, &str, &str)] = &[
        (
            "job: ledger",
            "job: ledger\nstate: {backend: rocksdb}",
            "rocksdb",
        ),
        ("retain: 2", "retain: 2, savepoints: here", "savepoints"),
        (
            "input: numbers",
            "input: {from: numbers, exchange: broadcast}",
            "broadcast",
        ),
    ];
    for (from, to, name) in later {
        let changed = good.replace(from, to);
        assert_ne!(changed, good, "{from}");
        place.write_job(&changed);
        let exit = place.weir(&["check", "--offline", "job.yaml"]);
        assert_eq!(exit.code(), Some(2), "`{to}` is accepted");
        exit.expect(2, &["error[W0103]", name, "job.yaml:"]);
    }
}
