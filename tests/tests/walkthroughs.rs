//! A newcomer who does what the documents say gets what they show.

use std::path::Path;

use weir_tests::documents::Document;
use weir_tests::walkthrough::Walk;

#[track_caller]
fn follow(name: &str) {
    let walk = Walk::begin(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("walkthroughs"));
    let followed = walk.follow(&Document::named(name));
    assert!(followed > 0, "{name} has no commands");
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
