//! Operators written in Python and JavaScript do the same as those in Rust, fail by name, and get nothing of the world.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use weir_tests::host::{Exit, guest};
use weir_tests::place::Place;

/// A component with an interpreter takes a dozen seconds to compile, on a machine that does nothing else.
const COMPILES: Duration = Duration::from_secs(600);

/// Compiled code, kept from run to run of the tests. Each component is compiled by one process rather than by all that
/// are started at once.
fn compiled() -> &'static PathBuf {
    static COMPILED: OnceLock<PathBuf> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compiled");
        let place = Place::temporary();
        for name in [
            "wordcount_count_python",
            "wordcount_count_javascript",
            "weir_guest_probe_python",
            "weir_guest_probe_javascript",
        ] {
            let file = guest(name).unwrap_or_else(|what| panic!("{what}"));
            let mut command = place.command();
            command.arg("inspect").arg(file).env("WEIR_CACHE", &cache);
            let exit = place.spawn(&mut command).within(COMPILES);
            let exit = exit.unwrap_or_else(|| panic!("`weir inspect` of {name} hangs"));
            exit.expect(0, &[]);
        }
        cache
    })
}

/// Runs the job of a place to its end, with compiled code at hand.
fn run(place: &Place) -> Exit {
    let mut command = place.command();
    command
        .arg("run")
        .arg(place.job())
        .arg("--no-progress")
        .env("WEIR_CACHE", compiled());
    place.spawn(&mut command).end()
}

/// 20,000 lines of one to five of 3,000 words, some of which are not ASCII.
fn text() -> String {
    let mut random = weir_tests::random::Random::new(7);
    let mut text = String::new();
    for line in 0..20_000 {
        for _ in 0..=line % 5 {
            let word = random.below(3_000);
            let _ = match word % 3 {
                0 => write!(text, "word{word} "),
                1 => write!(text, "wört{word} "),
                _ => write!(text, "語{word} "),
            };
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_same_job_commits_the_same_in_every_language() {
    let text = text();
    let counted = |component: &str| {
        let place = Place::temporary();
        place.write("in/words.txt", &text);
        place.write_job(&format!(
            "version: 1
job: words
parallelism: 2
checkpoint: {{dir: checkpoints, interval: 50ms}}
sources:
  lines: {{file: {{paths: [in/words.txt], format: raw}}}}
operators:
  split: {{component: @wordcount_split, input: lines}}
  count: {{component: @{component}, input: {{from: split, exchange: by-key}}}}
sinks:
  counts: {{input: count, file: {{dir: out/counts}}}}
"
        ));
        run(&place).expect(0, &["finished"]);
        place.committed("counts")
    };
    let rust = counted("wordcount_count");
    assert_eq!(rust.len(), 3_000);
    assert!(
        rust.iter().any(|line| line.starts_with("語2\t")),
        "{:?}",
        &rust[..10]
    );
    for component in ["wordcount_count_python", "wordcount_count_javascript"] {
        let other = counted(component);
        let difference = rust.iter().zip(&other).find(|(rust, other)| rust != other);
        assert_eq!(difference, None, "{component}");
        assert_eq!(rust.len(), other.len(), "{component}");
    }
}

/// Runs a probe over three records, the second of which says what to do.
fn probed(language: &str, action: &str, on_error: &str) -> (Place, Exit) {
    let place = Place::temporary();
    place.write("in/lines.txt", format!("one\n{action}\nthree\n"));
    place.write_job(&format!(
        "version: 1
job: probe
parallelism: 1
checkpoint: {{dir: checkpoints, interval: 50ms}}
restart: {{strategy: fixed, delay: 10ms, give_up_after: 10}}
sources:
  in: {{file: {{paths: [in/lines.txt], format: raw}}}}
operators:
  probe: {{component: @weir_guest_probe_{language}, input: in, on_error: {on_error}}}
sinks:
  out: {{input: probe, file: {{dir: out/out}}}}
"
    ));
    let exit = run(&place);
    (place, exit)
}

#[test]
fn an_exception_fails_the_job_with_the_record_and_a_traceback() {
    let failures: [(&str, &str, &[&str]); 7] = [
        (
            "python",
            "divide",
            &[
                "reported a fault",
                "in act\n",
                "ZeroDivisionError: division by zero",
            ],
        ),
        (
            "python",
            "raise",
            &[
                "trapped",
                "it wrote to standard error:",
                "in process\n",
                "ValueError: row without a cause",
            ],
        ),
        (
            "python",
            "exit",
            &["trapped", "it called `exit` with failure"],
        ),
        ("python", "hoard", &["exceeded a limit", "MemoryError"]),
        (
            "javascript",
            "missing",
            &[
                "reported a fault",
                "TypeError: can't access property \"field\" of undefined",
                "probe.js:",
            ],
        ),
        (
            "javascript",
            "throw",
            &["reported a fault", "row without a cause"],
        ),
        (
            "javascript",
            "hoard",
            &["reported a fault", "out of memory"],
        ),
    ];
    for (language, action, said) in failures {
        let (place, exit) = probed(language, action, "fail");
        exit.expect(5, &["error[W0401]: operator `probe` subtask 0"]);
        exit.expect(5, &["in/lines.txt line 2"]);
        exit.expect(5, said);
        assert!(
            place.committed("out").is_empty(),
            "{language} {action}: {:?}",
            place.committed("out")
        );
    }
}

#[test]
fn one_bad_record_costs_one_record() {
    for (language, action) in [
        ("python", "divide"),
        ("python", "raise"),
        ("javascript", "throw"),
    ] {
        let (place, exit) = probed(language, action, "skip");
        exit.expect(0, &["finished", "skipped 1"]);
        assert_eq!(
            place.committed("out"),
            ["one", "three"],
            "{language} {action}"
        );
    }
}

#[test]
fn inspect_says_which_imports_are_stubs() {
    let place = Place::temporary();
    let file = guest("weir_guest_probe_python").unwrap_or_else(|what| panic!("{what}"));
    let mut command = place.command();
    command
        .arg("inspect")
        .arg(file)
        .env("WEIR_CACHE", compiled());
    let exit = place.spawn(&mut command).end();
    exit.expect(0, &[]);
    let text = exit.text();
    let (wasi, own): (Vec<_>, Vec<_>) = text
        .lines()
        .filter(|line| line.contains('@'))
        .partition(|line| line.contains("wasi:"));
    assert!(
        wasi.len() > 20 && wasi.iter().all(|line| line.ends_with(" (stub)")),
        "{text}"
    );
    assert!(own.iter().all(|line| !line.contains("stub")), "{text}");
}

#[test]
fn a_configuration_is_refused_in_the_operators_words() {
    for component in ["wordcount_count_python", "wordcount_count_javascript"] {
        let place = Place::temporary();
        place.write_job(&format!(
            "version: 1
job: words
sources:
  made: {{generator: {{records: 10, keys: 2}}}}
operators:
  count: {{component: @{component}, input: {{from: made, exchange: by-key}}, config: 7}}
sinks:
  gone: {{input: count, blackhole: {{}}}}
"
        ));
        run(&place).expect(
            5,
            &[
                "error[W0401]",
                "operator `count`",
                "refused its configuration: there is nothing to configure, found 7",
            ],
        );
    }
}

#[test]
fn what_is_printed_is_in_the_log() {
    for language in ["python", "javascript"] {
        let (place, exit) = probed(language, "print", "fail");
        exit.expect(
            0,
            &[
                "info  probe: [probe[0]] to standard output\n",
                "warn  probe: [probe[0]] to standard error\n",
            ],
        );
        assert_eq!(place.committed("out"), ["one", "three"]);
    }
}

#[test]
fn recursion_ends_as_the_language_has_it() {
    let committed = |language: &str, action: &str| {
        let (place, exit) = probed(language, action, "fail");
        exit.expect(0, &["finished"]);
        place.committed("out")
    };
    assert_eq!(committed("python", "recurse"), ["997", "one", "three"]);
    assert_eq!(committed("javascript", "recurse"), ["one", "three", "true"]);
    let nested = "[".repeat(900) + &"]".repeat(900);
    assert_eq!(committed("python", "nest"), [&nested, "one", "three"]);
}

#[test]
fn the_world_is_the_same_for_every_run_and_grants_nothing() {
    let (place, exit) = probed("python", "world", "fail");
    exit.expect(0, &["finished"]);
    assert_eq!(
        place.committed("out"),
        [
            "one",
            "three",
            "{'clock': True, 'slept': 3600, 'random': True, 'secret': 16, 'environment': {}, 'arguments': [], \
             'input': '', 'file': 'FileNotFoundError', 'write': 'FileNotFoundError', 'socket': 'PermissionError'}"
        ]
    );
    let (place, exit) = probed("javascript", "world", "fail");
    exit.expect(0, &["finished"]);
    assert_eq!(
        place.committed("out"),
        [
            "one",
            "three",
            r#"{"clock":true,"later":true,"random":true,"secret":16}"#
        ]
    );
}
