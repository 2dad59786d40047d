//! The verbs for those who write operators: from nothing to an own operator in a running job, an operator tried record by record, and
//! a message explained.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_tests::guest;
use weir_tests::host::Exit;
use weir_tests::place::Place;

/// Runs `weir` with text on standard input.
#[track_caller]
fn weir(place: &Place, arguments: &[&str], stdin: &str) -> Exit {
    let input = fs::File::open(place.write("stdin", stdin)).expect("it was just written");
    let mut command = place.command();
    command.args(arguments).stdin(input);
    place.spawn(&mut command).end()
}

fn component(name: &str) -> String {
    let path: PathBuf = guest(name).unwrap_or_else(|what| panic!("{what}"));
    path.display().to_string()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// The way of the README for a new user: outside of any clone, with nothing but the binary and Rust.
#[test]
fn a_new_operator_is_tested_built_tried_and_run() {
    let place = Place::temporary();
    place.weir(&["new", "totals"]).expect(0, &[]);
    let project = place.path("totals");
    // The versions that the repository is tested with, which are on this machine already.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).expect("both can be reached");
    // Dependencies are compiled once, not once a test run.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("totals");

    let tested = Command::new("cargo")
        .args(["test", "--quiet"])
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", &target)
        .stdin(Stdio::null())
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&tested.stdout);
    let log = String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{log}{said}");
    assert!(said.contains("2 passed"), "{said}");
    assert!(!log.contains("warning"), "{log}");

    let mut build = place.command();
    build
        .args(["build", "totals"])
        .env("CARGO_TARGET_DIR", &target);
    // The standard library may have to be compiled too.
    let built = Command::output(&mut build).expect("weir runs");
    let log = String::from_utf8_lossy(&built.stderr);
    assert_eq!(built.status.code(), Some(0), "{log}");
    let said = String::from_utf8_lossy(&built.stdout);
    assert!(said.starts_with("totals/build/totals.wasm: "), "{said}");
    assert!(said.contains("inputs   orders (keyed)"), "{said}");

    let ran = place.weir(&["run", "totals/job.yaml", "--no-progress"]);
    ran.expect(0, &["read 6, written 2"]);
    let text = ran.text();
    let mut out = lines(&text);
    out.sort_unstable();
    assert_eq!(
        out,
        [
            r#"{"customer":"ada","orders":3,"amount":45}"#,
            r#"{"customer":"cyd","orders":1,"amount":25}"#,
        ]
    );

    let orders = "{\"customer\":\"ada\",\"amount\":3}\n{\"customer\":\"ada\",\"amount\":4}\n";
    let file = "totals/build/totals.wasm";
    let tried = weir(&place, &["try", file, "--key", "/customer"], orders);
    tried.expect(0, &[]);
    assert_eq!(
        lines(&tried.text()),
        [
            r#"{"kind":"state","state":"total","change":"set","key":"ada","value":{"orders":1,"amount":3},"line":1}"#,
            r#"{"kind":"timer","timer":"end","change":"set","key":"ada","time":"end","line":1}"#,
            r#"{"kind":"state","state":"total","change":"set","key":"ada","value":{"orders":2,"amount":7},"line":2}"#,
            r#"{"kind":"timer","timer":"end","change":"fire","key":"ada","time":"end"}"#,
            r#"{"kind":"output","output":"totals","key":"ada","value":{"customer":"ada","orders":2,"amount":7},"time":"end"}"#,
        ]
    );
    let config = [
        "try",
        file,
        "--key",
        "/customer",
        "--config",
        r#"{"at_leat":9}"#,
    ];
    weir(&place, &config, orders).expect(2, &["error[W0212]", "at_leat"]);
}

#[test]
fn nothing_that_is_there_is_overwritten_or_built_by_guesswork() {
    let place = Place::temporary();
    place.write("taken/file", "mine");
    let exit = place.weir(&["new", "taken"]);
    exit.expect(2, &["error[W0801]", "is there already"]);
    assert_eq!(
        fs::read_dir(place.path("taken"))
            .expect("it is there")
            .count(),
        1
    );
    place
        .weir(&["new", "Totals"])
        .expect(2, &["error[W0801]", "lower-case"]);
    place
        .weir(&["build", "taken"])
        .expect(2, &["error[W0802]", "weir new NAME"]);
}

#[test]
fn without_the_tools_it_is_said_how_to_get_them() {
    let place = Place::temporary();
    place.weir(&["new", "totals"]).expect(0, &[]);
    let mut command = place.command();
    command.args(["build", "totals"]).env("PATH", place.dir());
    let exit = place.spawn(&mut command).end();
    exit.expect(2, &["error[W0803]", "https://rustup.rs"]);
}

/// What one operator says is what the next one reads.
#[test]
fn trials_can_be_chained() {
    let place = Place::temporary();
    let split = weir(
        &place,
        &["try", &component("wordcount_split")],
        "To be\nor\n",
    );
    split.expect(0, &[]);
    assert_eq!(
        lines(&split.text()),
        [
            r#"{"kind":"output","output":"words","key":"to","value":"to","line":1}"#,
            r#"{"kind":"output","output":"words","key":"be","value":"be","line":1}"#,
            r#"{"kind":"output","output":"words","key":"or","value":"or","line":2}"#,
        ]
    );
    let count = weir(
        &place,
        &["try", &component("wordcount_count")],
        &split.text(),
    );
    count.expect(0, &[]);
    let text = count.text();
    let all = lines(&text);
    assert_eq!(
        all[..2],
        [
            r#"{"kind":"state","state":"count","change":"set","key":"to","value":1,"line":1}"#,
            r#"{"kind":"timer","timer":"end","change":"set","key":"to","time":"end","line":1}"#,
        ]
    );
    let outputs = all.iter().filter(|line| line.contains("\"output\""));
    assert_eq!(outputs.count(), 3, "{text}");
}

/// Headers go in, through operators that keep, change and drop them, and out.
#[test]
fn headers_go_from_trial_to_trial() {
    let place = Place::temporary();
    let guest = component("weir_guest_headers");
    let given = concat!(
        r#"{"value":"a","headers":[["n","1"],["n",null],["",""]]}"#,
        "\n",
        r#"{"value":"b"}"#,
        "\n",
    );
    let through = |config: &str, stdin: &str| {
        let config = format!("\"{config}\"");
        let exit = weir(&place, &["try", &guest, "--config", &config], stdin);
        exit.expect(0, &[]);
        exit.text()
    };
    let kept = through("keep", given);
    let line = |value: &str, headers: &str, line: u32| {
        format!(
            r#"{{"kind":"output","output":"records","key":null,"value":"{value}"{headers},"line":{line}}}"#
        )
    };
    let all = r#","headers":[["n","1"],["n",null],["",""]]"#;
    assert_eq!(lines(&kept), [line("a", all, 1), line("b", "", 2)]);
    let changed = through("change", &kept);
    let all = r#","headers":[["",""],["n",null],["n","1"],["seen",null]]"#;
    let seen = r#","headers":[["seen",null]]"#;
    assert_eq!(lines(&changed), [line("a", all, 1), line("b", seen, 2)]);
    let dropped = through("drop", &changed);
    assert_eq!(lines(&dropped), [line("a", "", 1), line("b", "", 2)]);
}

#[test]
fn effects_of_every_kind_are_shown_and_those_of_faults_are_not() {
    let place = Place::temporary();
    let probe = component("weir_guest_probe");
    let with = |config: &str, stdin: &str| {
        let config = format!("\"{config}\"");
        weir(&place, &["try", &probe, "--config", &config], stdin)
    };
    let record = "{\"key\":\"a\",\"value\":\"v\",\"time\":5}\n";

    let effects = with("process effects", record);
    // The operator also sets the record aside.
    effects.expect(5, &[]);
    let text = effects.text();
    for part in [
        r#""kind":"output","output":"kept","key":"a","value":"v""#,
        r#""state":"value","change":"set","key":"a","namespace":"w","value":"v""#,
        r#""state":"items","change":"append""#,
        r#""state":"entries","change":"set","key":"a","namespace":"w","entry":"n","value":"v""#,
        r#""state":"entries","change":"clear""#,
        r#""timer":"event","change":"set","key":"a","namespace":"w","time":5"#,
        r#""timer":"processing","change":"cancel""#,
        r#""timer":"event","change":"fire""#,
        r#""kind":"fault","error":"the operator reports: odd""#,
    ] {
        assert!(text.contains(part), "no {part}:\n{text}");
    }

    for (action, words) in [
        ("fault", "the record is odd"),
        ("panic", "no field `dep_delay`"),
        ("effects-then-trap", "trapped"),
        ("effects-then-fault", "reports"),
    ] {
        let failed = with(&format!("process {action}"), &record.repeat(2));
        failed.expect(5, &[]);
        let text = failed.text();
        let all = lines(&text);
        assert_eq!(all.len(), 2, "a fault a record and no effect:\n{text}");
        assert!(all[1].starts_with(r#"{"kind":"fault","error":""#), "{text}");
        assert!(all[1].contains(words), "{text}");
        assert!(
            all[1].ends_with(r#""key":"a","value":"v","time":5,"line":2}"#),
            "{text}"
        );
    }

    // A record without a key goes to the unkeyed input only.
    let plain = weir(&place, &["try", &probe], "plain\n");
    plain.expect(5, &[]);
    assert!(plain.text().contains("without a key"), "{}", plain.text());
    weir(&place, &["try", &probe, "--input", "unkeyed"], "plain\n").expect(0, &[]);
    weir(&place, &["try", &probe, "--input", "nowhere"], "")
        .expect(2, &["error[W0221]", "keyed, unkeyed"]);
}

#[test]
fn a_line_that_is_not_understood_is_named() {
    let place = Place::temporary();
    let count = component("wordcount_count");
    let stdin = "{\"key\":\"a\"}\n{\"kee\":\"a\"}\n";
    let exit = weir(&place, &["try", &count], stdin);
    exit.expect(2, &["error[W0805]", "line 2", "did you mean `key`?"]);
    assert!(
        exit.text().contains("\"line\":1"),
        "what was understood is done"
    );
    let back = "{\"watermark\":5}\n{\"watermark\":4}\n";
    weir(&place, &["try", &count], back).expect(2, &["the watermark is 5 already"]);
}

#[test]
fn every_message_can_be_explained() {
    let place = Place::temporary();
    let exit = place.weir(&["explain", "w0503"]);
    exit.expect(0, &[]);
    let text = exit.text();
    assert!(text.starts_with("W0503: committed output"), "{text}");
    assert!(text.contains("What to do:"), "{text}");
    place
        .weir(&["explain", "W05O3"])
        .expect(2, &["there is no code", "did you mean W0503?"]);
    let all = place.weir(&["explain"]);
    let listed = all.text();
    assert!(
        listed.starts_with("W0101  ") && listed.contains("\nW0705  "),
        "{listed}"
    );
}
