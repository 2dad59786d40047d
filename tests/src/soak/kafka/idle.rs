//! A job with nothing to do: one record, and then checkpoints without anything in them.

use std::time::Duration;

use rustix::process::Signal;

use super::job::Times;
use super::{SLOW, Stage};
use crate::host::{Exit, HANGS};
use crate::kafka::{Isolation, Record, Topics};
use crate::output::Difference;
use crate::place::{Place, Start};

use super::super::trial::COMMITTED;

/// Checkpoints between two kills.
const CHECKPOINTS: usize = 10;

/// The whole of what is written.
const VALUE: &str = "{\"key\":\"a\",\"n\":1}";

fn text(topics: &Topics<'_>) -> String {
    let brokers = topics.broker().address();
    let (job, commits) = (topics.name("job"), topics.name("commits"));
    let source = |topic| {
        let topic = topics.name(topic);
        format!("{{kafka: {{brokers: '{brokers}', topic: '{topic}', format: json}}}}")
    };
    let sink = |input, topic| {
        let topic = topics.name(topic);
        let timeout = Times::SHORT.transaction().as_secs();
        format!(
            "{{input: {input}, kafka: {{brokers: '{brokers}', topic: '{topic}', commit_topic: '{commits}', transaction_timeout: {timeout}s}}}}"
        )
    };
    let (one, none) = (source("one"), source("none"));
    let times = Times::SHORT.checkpoint();
    let (out, nothing) = (sink("one", "out"), sink("none", "nothing"));
    format!(
        "version: 1
job: {job}
checkpoint: {{dir: checkpoints, interval: 50ms, {times}}}
restart: {{strategy: fixed, delay: 1s, give_up_after: 3}}
sources:
  one: {one}
  none: {none}
sinks:
  out: {out}
  nothing: {nothing}
"
    )
}

/// Killed so many times, ten checkpoints after each start; the record stays there once, and no start finds anything to complain about.
pub(super) fn idle(stage: &Stage<'_>, kills: u32) -> Result<(), String> {
    let mut random = stage.random.clone();
    let topics = Topics::named(stage.broker, "idle");
    for topic in ["one", "none", "out", "nothing"] {
        topics.create(topic, 2);
    }
    topics.create_with("commits", 1, &[("cleanup.policy", "compact")]);
    topics.produce("one", &[Record::to(0).key("a").value(VALUE)]);
    let place = Place::at(stage.host, stage.folder.clone());
    place.write_job(&text(&topics));
    let is_clean = |exit: &Exit| match exit.log.contains(" warn ") && !exit.log.contains(SLOW) {
        true => Err(format!("it is warned of something:\n{}", exit.log)),
        false => Ok(()),
    };
    let compare = |topic, expected: &[&str], records: Vec<Record>| {
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        let found: Vec<String> = records.iter().map(Record::text).collect();
        let difference = Difference::between(&expected, &found);
        stage.tally.borrow_mut().differs(&difference);
        match difference.is_none() {
            true => Ok(()),
            false => Err(format!("topic {topic}:\n{difference}")),
        }
    };
    for number in 0..=kills {
        let mut process = place.start(&Start::default());
        if !process.says(COMMITTED, CHECKPOINTS, HANGS) {
            return Err(format!("the job does not run:\n{}", process.log()));
        }
        process.within(random.time(Duration::from_millis(200)));
        let exit = if number < kills {
            stage.tally.borrow_mut().kills += 1;
            process.kill()
        } else {
            process.signal(Signal::TERM);
            process.end()
        };
        is_clean(&exit)?;
        if exit.code() != (number == kills).then_some(0) {
            return Err(format!("it ended by itself:\n{}", exit.log));
        }
        compare("out", &[VALUE], topics.read("out", Isolation::Committed))?;
    }
    let read = |topic| topics.read_by_console(topic, Isolation::Committed);
    compare("out", &[VALUE], read("out"))?;
    compare("nothing", &[], read("nothing"))
}
