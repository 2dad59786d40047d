//! Standard input and output: the word count of the examples, and a file to standard output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weir_tests::place::{Place, Start};

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/wordcount")
        .join(file)
}

/// The words of a text, counted here.
fn counted(text: &str) -> Vec<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for word in text
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
    {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut lines: Vec<_> = counts
        .iter()
        .map(|(word, count)| format!("{word}\t{count}"))
        .collect();
    lines.sort();
    lines
}

fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn the_word_count_of_the_examples_counts_words() {
    let place = Place::temporary();
    let job = fs::read_to_string(example("job.yaml")).expect("the example");
    // Components are where the tests find them, which need not be where the example does.
    place.write_job(
        &job.replace("../../target/guests/", "@")
            .replace(".wasm", ""),
    );
    let hamlet = example("data/hamlet.txt");
    let text = fs::read_to_string(&hamlet).expect("the example");
    let long = place.write("in/long.txt", text.repeat(3_000));
    for (stdin, text) in [(hamlet, text.clone()), (long, text.repeat(3_000))] {
        for parallelism in [1, 4] {
            let exit = place.run_with(&Start {
                stdin: Some(stdin.clone()),
                ..Start::at(parallelism)
            });
            exit.expect(0, &["at-most-once", "finished"]);
            assert_eq!(lines(&exit.text()), counted(&text));
        }
    }
}

#[test]
fn no_input_is_no_output() {
    let place = Place::temporary();
    let job = fs::read_to_string(example("job.yaml")).expect("the example");
    place.write_job(
        &job.replace("../../target/guests/", "@")
            .replace(".wasm", ""),
    );
    let exit = place.run();
    exit.expect(0, &["finished"]);
    assert!(exit.out.is_empty());
}

#[test]
fn a_file_to_standard_output_line_by_line() {
    let place = Place::temporary();
    let text = "one\n\u{feff}two\r\nthr\u{e4}e\n\n  four\nlast without an end";
    place.write("in/lines.txt", text);
    place.write_job(
        "version: 1\njob: cat\nsources: {lines: {file: {paths: [in/lines.txt]}}}\n\
         sinks: {out: {input: lines, stdout: {}}}\n",
    );
    let exit = place.run();
    exit.expect(0, &["at-most-once", "finished"]);
    assert_eq!(
        exit.text(),
        "one\n\u{feff}two\nthr\u{e4}e\n\n  four\nlast without an end\n"
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_job_by_name() {
    let place = Place::temporary();
    place.write_job(
        "version: 1\njob: endless\nsources: {lines: {generator: {records: unbounded}}}\n\
         sinks: {out: {input: lines, stdout: {}}}\n",
    );
    let mut command = std::process::Command::new("sh");
    command
        .args([
            "-c",
            "\"$0\" run job.yaml --no-progress | head -n 3; exit 0",
        ])
        .arg(place.host().weir());
    command.current_dir(place.dir()).env_remove("WEIR_FAULT");
    let exit = place.spawn(&mut command).end();
    exit.expect(0, &["[W0705]", "closed by its reader"]);
    assert_eq!(exit.text().lines().count(), 3);
}

#[test]
fn exactly_once_is_refused_where_it_cannot_be_had() {
    let place = Place::temporary();
    place.write_job(
        "version: 1\njob: cat\ndelivery: exactly-once\ncheckpoint: {}\nsources: {lines: {generator: {records: 1}}}\n\
         sinks: {out: {input: lines, stdout: {}}}\n",
    );
    place.run().expect(2, &["error[W0119]", "exactly-once"]);
}
