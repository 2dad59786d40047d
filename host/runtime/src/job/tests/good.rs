//! Good job files, and what they come to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{kafka, parse_text};
use crate::diagnostic::render;
use crate::job::model::*;
use crate::job::{load, override_parallelism, print_resolved, schema};

/// Together they use every field there is.
pub(super) const GOOD: &[&str] = &[
    // The shortest.
    "version: 1\njob: j\nsources: {in: {stdin: {}}}\nsinks: {out: {input: in, stdout: {}}}\n",
    r#"version: 1
job: flight-delays
delivery: exactly-once
parallelism: 2
max_parallelism: 128
memory: 2GiB
state: {backend: memory}
checkpoint: {dir: ./checkpoints, interval: 10s, timeout: 2m, fail_after: 8m, retain: 3, reserve: 512MiB}
restart: {strategy: exponential, first: 1s, max: 2m, give_up_after: 10}

sources:
  flights:
    file: {paths: ["data/flights-*.csv.zst", /abs/x.csv], format: csv, compression: auto, csv: {delimiter: ";", quote: "'", null: NA}}
    key: [/origin, /a~1b/0]
    event_time: {field: /scheduled, format: rfc3339, out_of_order: 1h, idle: 10s}
    on_error: {dead_letter: rejects}
    rate: ${LIMIT:-1000}

operators:
  clean:
    component: build/clean.wasm
    input: flights
    on_error: fail
  daily:
    component: {file: build/daily.wasm, sha256: 9F2C9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c}
    input: {from: clean.ok, exchange: by-key}
    on_error: {dead_letter: rejects}
    limits: {memory: 1GiB, call_time: 5s, output: 8MiB, value: 1MiB}
    config: {min_flights: 10, password: "x${SECRET}", note: $$5, deep: [1, -2, 1.5, null, true, {a: b}]}
    null_key: skip
    parallelism: 4

sinks:
  delays:
    input: daily
    file: {dir: out/delays, format: json, compression: zstd}
  rejects:
    file: {dir: out/rejects, roll: {size: 1MiB, age: 0s}, compression: {method: gzip, level: 9}}
"#,
    r#"---
# Anchors, two inputs, a list, block text.
version: 1
job: ${NAME}
delivery: at-least-once
restart: {strategy: failure-rate, failures: 3, within: 1h, delay: 0s}
sources:
  a: &gen
    generator: {records: 1000, keys: 10, value_bytes: 64, splits: 4, start: 2013-01-01T00:00:00Z, step: 10us, disorder: 5s}
    event_time: {out_of_order: 5s}
    parallelism: 1
  b: *gen
  c:
    generator: {records: unbounded}
    on_error: skip
operators:
  join:
    component: join.wasm
    inputs:
      left: a
      right: [{from: b, exchange: by-key}, {from: c, exchange: rebalance}]
    config: |
      text
sinks:
  all:
    input: [join.first, join.second, {from: a, exchange: forward}]
    blackhole: {}
    parallelism: 1
...
"#,
    // JSON is YAML.
    "{\"version\": 1, \"job\": \"j\", \"restart\": {\"strategy\": \"fixed\", \"delay\": \"1m30s\", \"give_up_after\": 2},\n\
     \t\"sources\": {\"in\": {\"file\": {\"paths\": [\"/x/*.json\"], \"format\": \"json\", \"compression\": \"none\", \"watch\": true}}},\n\
     \t\"sinks\": {\"out\": {\"input\": \"in\", \"stdout\": {}}}}\n",
    "version: 1\njob: j\ndelivery: at-most-once\nrestart: {strategy: none}\nsources: {in: {stdin: {format: csv}, key: /a}}\n\
     operators: {op: {component: a.wasm, input: {from: in, exchange: by-key}}}\nsinks: {out: {input: op, stdout: {}, parallelism: 1}}\n",
    "version: 1\njob: j\nsources: {w: {file: {paths: [w/*], watch: {every: 5s}}}, v: {file: {paths: [v/*], watch: false, format: csv, csv: {quote: none, header: [a, b]}}}, u: {stdin: {format: csv, csv: {header: false}}}}\n\
     sinks: {out: {input: [w, v, u], file: {dir: o, format: csv, csv: {columns: [a, b], delimiter: ;, quote: none, null: NA, header: false, missing: empty}}}}\n",
    kafka::EVERYTHING,
    kafka::SHORTEST,
    kafka::FORMS,
];

pub(super) fn good(text: &str) -> Job {
    parse_text(text).unwrap_or_else(|errors| panic!("{}\n{text}", render(&errors)))
}

#[test]
fn the_shortest_job_has_the_documented_defaults() {
    let job = good(GOOD[0]);
    assert_eq!(job.name.as_str(), "j");
    assert_eq!(
        (job.file, job.dir),
        (PathBuf::from("/jobs/job.yaml"), PathBuf::from("/jobs"))
    );
    assert_eq!(
        (job.delivery, job.parallelism, job.max_parallelism),
        (None, None, 128)
    );
    assert_eq!((job.checkpoint, job.restart), (None, Restart::default()));
    let source = &job.sources[0];
    assert_eq!(
        (&source.connector, &source.format),
        (&SourceConnector::Stdin, &Format::Raw)
    );
    assert_eq!(
        (&source.on_error, source.rate, &source.key),
        (&ErrorPolicy::Fail, None, &None)
    );
    assert_eq!(job.sinks[0].connector, SinkConnector::Stdout);
    assert_eq!(job.sinks[0].place, Place { line: 4, column: 9 });
}

#[test]
fn a_job_with_everything() {
    let job = good(GOOD[1]);
    assert_eq!(job.memory, Some(2 << 30));
    let checkpoint = job.checkpoint.expect("given");
    assert_eq!(checkpoint.dir, Some("/jobs/checkpoints".into()));
    assert_eq!(
        checkpoint,
        CheckpointSettings {
            dir: checkpoint.dir.clone(),
            reserve: Some(512 << 20),
            ..Default::default()
        }
    );
    let source = &job.sources[0];
    let paths = vec![
        "/jobs/data/flights-*.csv.zst".to_owned(),
        "/abs/x.csv".to_owned(),
    ];
    assert_eq!(
        source.connector,
        SourceConnector::File {
            paths,
            compression: Compression::Auto,
            watch: None
        }
    );
    let null = Some("NA".to_owned());
    assert_eq!(
        source.format,
        Format::Csv {
            delimiter: b';',
            quote: Some(b'\''),
            header: Header::First,
            null
        }
    );
    let pointers = ["/origin", "/a~1b/0"].map(str::to_owned).to_vec();
    assert_eq!(source.key, Some(KeySelector::Pointers(pointers)));
    let event_time = source.event_time.as_ref().expect("given");
    assert_eq!(
        (event_time.field.as_str(), event_time.format),
        ("/scheduled", TimeFormat::Rfc3339)
    );
    assert_eq!(event_time.out_of_order, Duration::from_secs(3600));
    assert_eq!(event_time.idle, Duration::from_secs(10));
    assert_eq!(
        source.on_error,
        ErrorPolicy::DeadLetter(NodeId::new("rejects").expect("an id"))
    );
    assert_eq!(source.rate, Some(1000));

    let [clean, daily] = job.operators.as_slice() else {
        panic!("two operators")
    };
    assert_eq!(
        (clean.component.to_str(), clean.config.as_str()),
        (Some("/jobs/build/clean.wasm"), "null")
    );
    assert_eq!(clean.null_key, NullKey::Fail);
    assert_eq!(
        daily.sha256.as_deref().map(|hash| (hash.len(), &hash[..8])),
        Some((64, "9f2c9f2c"))
    );
    assert_eq!(
        daily.config,
        r#"{"deep":[1,-2,1.5,null,true,{"a":"b"}],"min_flights":10,"note":"$5","password":"xhunter2"}"#
    );
    assert_eq!(
        (daily.null_key, daily.parallelism),
        (NullKey::Skip, Some(4))
    );
    let rejects = ErrorPolicy::DeadLetter(NodeId::new("rejects").expect("an id"));
    assert_eq!(
        (&clean.on_error, &daily.on_error),
        (&ErrorPolicy::Fail, &rejects)
    );
    let limits = Limits {
        memory: Some(1 << 30),
        call_time: Some(Duration::from_secs(5)),
        output: Some(8 << 20),
        value: Some(1 << 20),
    };
    assert_eq!(
        (&clean.limits, &daily.limits),
        (&Limits::default(), &limits)
    );
    let input = &daily.inputs[0];
    assert_eq!(
        (input.from.as_str(), input.output.as_deref()),
        ("clean", Some("ok"))
    );
    assert_eq!(
        (input.exchange, &input.port),
        (Some(Exchange::ByKey), &None)
    );
    assert_eq!(
        input.place,
        Place {
            line: 26,
            column: 19
        }
    );

    let dir = "/jobs/out/delays".into();
    assert_eq!(
        job.sinks[0].connector,
        SinkConnector::File {
            dir,
            format: SinkFormat::Json,
            roll: Roll {
                size: 128 << 20,
                age: Duration::from_secs(600)
            },
            compression: SinkCompression::Zstd { level: 3 },
        }
    );
    assert!(job.sinks[1].inputs.is_empty());
}

#[test]
fn several_inputs_and_aliases() {
    let job = good(GOOD[2]);
    assert_eq!(job.name.as_str(), "from-env");
    assert_eq!(job.sources[0].connector, job.sources[1].connector);
    let SourceConnector::Generator(generator) = &job.sources[0].connector else {
        panic!("a generator")
    };
    assert_eq!(
        (generator.records, generator.start),
        (Some(1000), 1_356_998_400_000)
    );
    assert_eq!((generator.step_micros, generator.disorder), (10, 5_000));
    // Without `event_time` a generator's watermark allows for its own disorder.
    let bound = |i: usize| {
        job.sources[i]
            .event_time
            .as_ref()
            .map(|time| time.out_of_order)
    };
    assert_eq!(bound(2), Some(Duration::ZERO));
    let SourceConnector::Generator(generator) = &job.sources[2].connector else {
        panic!("a generator")
    };
    assert_eq!(
        *generator,
        Generator {
            records: None,
            keys: 1000,
            value_bytes: 100,
            splits: 8,
            start: 1_577_836_800_000,
            step_micros: 1000,
            disorder: 0
        }
    );
    let ports: Vec<_> = job.operators[0]
        .inputs
        .iter()
        .map(|input| (input.port.as_deref(), input.from.as_str(), input.exchange))
        .collect();
    let expected = [
        (Some("left"), "a", None),
        (Some("right"), "b", Some(Exchange::ByKey)),
        (Some("right"), "c", Some(Exchange::Rebalance)),
    ];
    assert_eq!(ports, expected);
    assert_eq!(job.operators[0].config, r#""text\n""#);
    assert_eq!(job.sinks[0].inputs.len(), 3);
}

#[test]
fn json_and_line_ends_of_windows_are_read() {
    let job = good(GOOD[3]);
    assert_eq!(
        job.restart,
        Restart::Fixed {
            delay: Duration::from_secs(90),
            give_up_after: 2
        }
    );
    for text in GOOD {
        good(&format!("\u{feff}{}", text.replace('\n', "\r\n")));
    }
}

#[test]
fn the_printed_job_is_the_same_job() {
    for text in GOOD {
        let printed = print_resolved(&good(text));
        assert!(!printed.contains("hunter2"), "{printed}");
        assert_eq!(print_resolved(&good(&printed)), printed);
    }
    assert_eq!(
        print_resolved(&good(GOOD[4])),
        r#"version: 1
job: "j"
delivery: at-most-once
max_parallelism: 128
restart:
  strategy: none
sources:
  in:
    stdin:
      format: csv
      csv:
        delimiter: ","
        quote: "\""
    key: "/a"
    on_error: fail
operators:
  op:
    component:
      file: "/jobs/a.wasm"
    input: [{from: "in", exchange: by-key}]
    config: null
    null_key: fail
    on_error: fail
sinks:
  out:
    input: [{from: "op"}]
    stdout: {}
    parallelism: 1
"#
    );
}

#[test]
fn secrets_of_a_configuration_are_left_out_of_print() {
    let text = "version: 1\njob: j\nsources: {in: {stdin: {}}}\nsinks: {out: {input: op, stdout: {}}}\noperators:\n  \
        op: {component: a, input: in, config: {api_key: k1, db: {Password: k2, tokens: [k3]}, author: k4}}\n";
    let printed = print_resolved(&good(text));
    let expected = r#"    config:
      api_key: "<redacted>"
      author: "k4"
      db:
        Password: "<redacted>"
        tokens: "<redacted>"
"#;
    assert!(printed.contains(expected), "{printed}");
}

#[test]
fn the_folder_of_the_job_is_no_pattern() {
    let text = "version: 1\njob: j\nsources: {in: {file: {paths: [./a/*.csv]}}}\nsinks: {out: {input: in, stdout: {}}}\n";
    let job = crate::job::parse(text, Path::new("/odd [1]/job.yaml"), &|_| None).expect("good");
    let SourceConnector::File { paths, .. } = &job.sources[0].connector else {
        panic!("files")
    };
    assert_eq!(paths[0], "/odd [[]1[]]/a/*.csv");
    assert!(
        glob::Pattern::new(&paths[0])
            .expect("a pattern")
            .matches("/odd [1]/a/x.csv")
    );
}

#[test]
fn files_are_loaded_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job.yaml");
    let first = |path: &Path| {
        load(path, &|_| None)
            .map(|_| ())
            .expect_err("refused")
            .remove(0)
    };
    let missing = first(&path);
    assert_eq!(missing.code, "W0101");
    assert!(
        missing.title.contains("job.yaml: No such file"),
        "{missing}"
    );
    assert_eq!(first(folder.path()).code, "W0101");

    std::fs::write(&path, b"version: 1\njob: \xff\n").expect("written");
    let error = first(&path);
    let place = error.place.as_ref().map(|place| (place.line, place.column));
    assert_eq!((error.code, place), ("W0106", Some((2, 6))));

    std::fs::write(&path, vec![b' '; 2 << 20]).expect("written");
    assert_eq!(first(&path).code, "W0123");

    std::fs::write(&path, GOOD[0]).expect("written");
    let job = load(&path, &|_| None).expect("good");
    assert_eq!(job.dir, folder.path());
}

#[test]
fn parallelism_can_be_overridden_up_to_the_maximum() {
    let mut job = good(GOOD[1]);
    assert!(override_parallelism(&mut job, 128).is_ok());
    assert_eq!(job.parallelism, Some(128));
    for wrong in [0, 129] {
        let error = override_parallelism(&mut job, wrong).expect_err("refused");
        assert_eq!(error.code, "W0117");
        assert!(error.to_string().contains("1 to 128"), "{error}");
    }
    assert_eq!(job.parallelism, Some(128));
}

#[test]
fn the_schema_names_what_good_files_use() {
    let schema = schema();
    let properties = schema["properties"].as_object().expect("an object");
    for key in [
        "version",
        "job",
        "sources",
        "operators",
        "sinks",
        "checkpoint",
        "restart",
    ] {
        assert!(properties.contains_key(key), "{key}");
    }
    assert!(
        !schema.to_string().contains("rocksdb"),
        "names only what this release has"
    );
}
