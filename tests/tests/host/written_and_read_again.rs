//! What a file sink writes, a file source reads: rows, compressed, over checkpoints and a kill.

use weir_tests::host::HANGS;
use weir_tests::place::{Place, Start};

const RECORDS: usize = 3_000;

fn write(place: &Place, compression: &str, rate: u64) {
    place.write_job(&format!(
        "version: 1
job: write
parallelism: 2
checkpoint: {{dir: checkpoints/write, interval: 30ms}}
sources:
  numbers: {{generator: {{records: {RECORDS}, keys: 20, splits: 4, value_bytes: 60}}, rate: {rate}}}
sinks:
  rows:
    input: numbers
    file:
      dir: out/rows
      format: csv
      csv: {{columns: [n, key, absent], delimiter: '|', null: '-', missing: empty}}
      roll: {{size: 4KiB, age: 1h}}
      compression: {compression}
"
    ));
}

fn read(place: &Place) -> Vec<String> {
    place.write_job(
        "version: 1
job: read
checkpoint: {dir: checkpoints/read}
sources:
  rows: {file: {paths: ['out/rows/part-*.csv*'], format: csv, csv: {delimiter: '|', null: '-'}}}
sinks:
  lines: {input: rows, file: {dir: out/lines, format: json}}
",
    );
    place.run().expect(0, &["finished"]);
    place.committed("lines")
}

#[test]
fn rows_of_every_compression() {
    let mut all: Vec<Vec<String>> = Vec::new();
    for compression in ["none", "gzip", "{method: zstd, level: 9}"] {
        let place = Place::temporary();
        write(&place, compression, 1_500);
        let mut process = place.start(&Start::default());
        assert!(process.says("committed", 6, HANGS), "{}", process.log());
        process.kill();
        write(&place, compression, 1_000_000);
        place.run_with(&Start::at(3)).expect(0, &["finished"]);
        all.push(read(&place));
    }
    assert_eq!(all[0].len(), RECORDS);
    let mut numbers: Vec<usize> = all[0]
        .iter()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(row["absent"], serde_json::Value::Null, "{line}");
            assert!(row["key"].is_string(), "{line}");
            row["n"]
                .as_str()
                .expect("a text")
                .parse()
                .expect("a number")
        })
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..RECORDS));
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
}
