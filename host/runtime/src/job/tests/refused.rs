//! Bad job files and the exact messages about them.

use std::fs;
use std::path::PathBuf;

use super::parse_text;
use crate::diagnostic::{code, render};

const BETWEEN_CASES: &str = "=====";
const BEFORE_MESSAGES: &str = "-----";

fn texts() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/job/tests");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the folder of this file")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    paths
}

/// Each case of the text: its title line, the job file, and what is expected.
fn cases(text: &str) -> Vec<(&str, &str, &str)> {
    text.split(&format!("{BETWEEN_CASES} "))
        .skip(1)
        .map(|case| {
            let (title, rest) = case.split_once('\n').expect("a title line");
            let (job, expected) = rest
                .split_once(&format!("{BEFORE_MESSAGES}\n"))
                .unwrap_or((rest, ""));
            (title, job, expected)
        })
        .collect()
}

/// Lets a text name characters that an editor would change.
fn unescape(job: &str) -> String {
    job.replace("<TAB>", "\t").replace("<BOM>", "\u{feff}")
}

#[test]
fn each_mistake_is_refused_word_for_word() {
    let mut differ = String::new();
    let mut codes = Vec::new();
    for path in texts() {
        let text = fs::read_to_string(&path).expect("readable");
        let mut blessed = String::new();
        for (title, job, expected) in cases(&text) {
            let errors = match parse_text(&unescape(job)) {
                Ok(_) => panic!("accepted: {title} of {}", path.display()),
                Err(errors) => errors,
            };
            codes.extend(errors.iter().map(|error| error.code));
            let actual = render(&errors).replace("/jobs/job.yaml", "job.yaml");
            if actual.trim_end() != expected.trim_end() {
                differ.push_str(&format!(
                    "{title}\nexpected:\n{expected}\nactual:\n{actual}\n"
                ));
            }
            blessed.push_str(&format!(
                "{BETWEEN_CASES} {title}\n{}\n{BEFORE_MESSAGES}\n{actual}\n",
                job.trim_end()
            ));
        }
        if std::env::var_os("WEIR_BLESS").is_some() {
            fs::write(&path, blessed).expect("writable");
        }
    }
    assert!(
        std::env::var_os("WEIR_BLESS").is_some() || differ.is_empty(),
        "{differ}"
    );

    // Every code of job files has a case here, but for the file that cannot be read (tested in `good`), and for what this weir
    // was built without (tested in `kafka`).
    let of_job_files = code::CODES
        .iter()
        .map(|(code, _)| *code)
        .filter(|code| code.starts_with("W01"));
    let untested: Vec<_> = of_job_files
        .filter(|code| !codes.contains(code) && !["W0101", "W0124"].contains(code))
        .collect();
    assert_eq!(untested, Vec::<&str>::new());
}
