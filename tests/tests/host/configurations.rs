//! A configuration is checked by the schema that its component declares: every mistake has its line, and none is started with.

use weir_tests::guest;
use weir_tests::place::Place;

/// A job of the flights example whose daily operator is configured by these lines.
fn job(config: &str) -> String {
    format!(
        "version: 1
job: daily
sources:
  in: {{file: {{paths: [in/flights.jsonl], format: json}}, key: /k}}
operators:
  daily:
    component: @flights_daily
    inputs: {{departed: in, no_departure: in}}
    config:
      {config}
sinks:
  out: {{input: daily, file: {{dir: out/daily}}}}
"
    )
}

#[track_caller]
fn check(config: &str, code: i32, said: &[&str]) {
    let place = Place::temporary();
    place.write("in/flights.jsonl", "");
    place.write_job(&job(config));
    let exit = place.weir(&["check", "job.yaml"]);
    exit.expect(code, said);
}

#[test]
fn what_fits_passes() {
    check("utc_offset_hours: -14", 0, &[]);
    check("{}", 0, &[]);
}

#[test]
fn every_mistake_has_its_line_both_values_and_the_remedy() {
    check(
        "utc_offset_hours: \"five\"",
        2,
        &[
            "error[W0213]: `/utc_offset_hours` in `config` of operator `daily` is \"five\"",
            "job.yaml:10:25",
            "it must be an integer from -14 to 14",
        ],
    );
    check(
        "utc_offset_hours: 15",
        2,
        &[
            "is 15",
            "job.yaml:10:25",
            "it must be an integer from -14 to 14",
        ],
    );
    check(
        "utc_offset_hour: 1\n      utc_offset_hours: 99",
        2,
        &[
            "error[W0213]: unknown field `utc_offset_hour` in `config` of operator `daily`",
            "job.yaml:10:7",
            "did you mean `utc_offset_hours`?",
            "is 99",
            "job.yaml:11:25",
        ],
    );
    check(
        "[1, 2]",
        2,
        &[
            "`config` of operator `daily` is a list of 2",
            "it must be a mapping",
        ],
    );
}

#[test]
fn what_came_from_a_variable_is_not_shown() {
    let place = Place::temporary();
    place.write("in/flights.jsonl", "");
    place.write_job(&job("utc_offset_hours: ${OFFSET}"));
    let mut command = place.command();
    command.args(["check", "job.yaml"]).env("OFFSET", "hunter2");
    let exit = place.spawn(&mut command).end();
    exit.expect(2, &["error[W0213]", "is something else (not shown)"]);
    assert!(!exit.log.contains("hunter2"), "{}", exit.log);
}

#[test]
fn inspect_shows_the_fields_and_try_checks_them() {
    let place = Place::temporary();
    let daily = guest("flights_daily").unwrap_or_else(|what| panic!("{what}"));
    let daily = daily.display().to_string();
    let exit = place.weir(&["inspect", &daily]);
    assert_eq!(exit.code(), Some(0), "{}", exit.log);
    let line = "config   utc_offset_hours (an integer from -14 to 14, default -5): Local time minus UTC in hours";
    assert!(exit.text().contains(line), "{}", exit.text());
    place
        .weir(&["try", &daily, "--config", "{\"utc_offset_hours\": 20}"])
        .expect(
            2,
            &[
                "error[W0213]",
                "is 20",
                "it must be an integer from -14 to 14",
            ],
        );
}
