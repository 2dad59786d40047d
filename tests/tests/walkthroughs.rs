//! A newcomer who does what the documents say gets what they show.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use weir_tests::documents::{Document, documents};
use weir_tests::walkthrough::Walk;

/// The documents that have commands, each followed by a test of its own below.
const FOLLOWED: &[&str] = &[
    "README.md",
    "docs/exactly-once.md",
    "docs/job-file.md",
    "docs/operating.md",
    "docs/writing-operators.md",
    "examples/README.md",
    "examples/flights/README.md",
    "examples/fraud/README.md",
    "examples/payments/README.md",
    "examples/sessions/README.md",
    "examples/wordcount/README.md",
];

static BUILDING: Mutex<()> = Mutex::new(());

#[track_caller]
fn follow(name: &str) {
    assert!(FOLLOWED.contains(&name), "{name} is not in the list");
    let document = Document::named(name);
    // Two projects of one name and one build directory overwrite each other's component if they are built at the same time.
    let builds = document.text.contains("weir build");
    let _alone = builds.then(|| BUILDING.lock().unwrap_or_else(PoisonError::into_inner));
    // The same as in the tests of `new` and `build`, so that dependencies are compiled once.
    let walk = Walk::begin(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("totals"));
    let followed = walk.follow(&document);
    assert!(followed > 0, "{name} has no commands");
}

#[test]
fn every_document_with_commands_is_followed() {
    let documents = documents();
    let with_commands = documents.iter().filter(|document| {
        let blocks = document.blocks();
        blocks.iter().any(|block| block.language == "console")
    });
    let names: Vec<_> = with_commands
        .map(|document| document.name.as_str())
        .collect();
    assert_eq!(names, FOLLOWED);
}

#[test]
fn readme() {
    follow("README.md");
}

#[test]
fn exactly_once() {
    follow("docs/exactly-once.md");
}

#[test]
fn the_job_file() {
    follow("docs/job-file.md");
}

#[test]
fn operating() {
    follow("docs/operating.md");
}

#[test]
fn writing_operators() {
    follow("docs/writing-operators.md");
}

#[test]
fn examples() {
    follow("examples/README.md");
}

#[test]
fn wordcount() {
    follow("examples/wordcount/README.md");
}

#[test]
fn sessions() {
    follow("examples/sessions/README.md");
}

#[test]
fn payments() {
    follow("examples/payments/README.md");
}

#[test]
fn flights() {
    follow("examples/flights/README.md");
}

#[test]
fn fraud() {
    follow("examples/fraud/README.md");
}
