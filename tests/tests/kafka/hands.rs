//! What an operator's hands may do to a job that commits in Kafka, while it runs and while it does not: it ends exact, or stops and says
//! what is wrong and what to do.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use weir_tests::folders::{copy, remove};
use weir_tests::host::Process;
use weir_tests::place::{Place, Start};

use crate::copying::{Copying, FILES, JOB, commits, stop, wait_for};

/// Where the checkpoints are.
fn checkpoints(place: &Place) -> PathBuf {
    place.checkpoints().dir().to_owned()
}

/// Creates a topic again while the job stands still: a broker that creates topics would create it for the job at once.
fn recreate_under(process: &mut Process, job: &Copying<'_>, topic: &str, partitions: i32) {
    process.signal(Signal::STOP);
    job.scene.topics.recreate(topic, partitions);
    process.signal(Signal::CONT);
}

/// The job ends by itself, refused at a restart, and says so.
#[track_caller]
fn ends_refused(process: &mut Process, code: &str, said: &[&str]) {
    let exit = process.end();
    exit.expect(3, &[&format!("error[{code}]")]);
    exit.expect(3, said);
}

#[test]
fn the_same_command_after_a_kill_goes_on() {
    let job = Copying::new("again");
    for _ in 0..3 {
        job.killed();
    }
    job.goes_on_exactly();
}

#[test]
fn the_commit_topic_is_deleted() {
    let job = Copying::new("commits-deleted");
    let name = job.scene.topics.name("commits");
    // Of a stopped job everything is known: it begins a new one.
    job.stopped();
    job.scene.topics.delete("commits");
    job.goes_on_exactly();
    job.killed();
    job.scene.topics.delete("commits");
    let said = [
        &format!("commit topic `{name}` was deleted and created again"),
        "--fresh --accept-duplicates",
    ];
    job.is_refused("W0534", &said.map(|it| it as &str));
    job.is_refused("W0534", &["(id ", ", now "]);
}

#[test]
fn the_commit_topic_is_deleted_while_the_job_runs() {
    let job = Copying::new("commits-deleted-running");
    let mut process = job.running();
    job.scene.topics.delete("commits");
    job.write(20);
    ends_refused(
        &mut process,
        "W0534",
        &["was deleted and created again", "(id ", ", now "],
    );
}

#[test]
fn the_commit_topic_is_created_again() {
    let job = Copying::new("commits-recreated");
    job.stopped();
    job.scene.topics.recreate("commits", 1);
    job.goes_on_exactly();
    job.killed();
    job.scene.topics.recreate("commits", 1);
    let said = [
        "was deleted and created again",
        "(id ",
        ", now ",
        "--fresh --accept-duplicates",
    ];
    job.is_refused("W0534", &said);
}

/// It goes on in the new one, and is missed at the next start.
#[test]
fn the_commit_topic_is_created_again_while_the_job_runs() {
    let job = Copying::new("commits-recreated-running");
    let mut process = job.running();
    recreate_under(&mut process, &job, "commits", 1);
    job.write(20);
    job.wait(&mut process);
    commits(&mut process, 3);
    process.kill();
    job.is_exact();
    job.is_refused(
        "W0534",
        &["was deleted and created again", "(id ", ", now "],
    );
}

#[test]
fn the_output_topic_is_created_again() {
    let job = Copying::new("out-recreated");
    let said = [
        &format!("topic `{}` of sink `out`", job.scene.topics.name("out")),
        "is not the one that checkpoint",
        "then it was",
        "now it is",
        "help: ",
    ];
    let said = said.map(|it| it as &str);
    job.stopped();
    job.scene.topics.recreate("out", 2);
    job.is_refused("W0536", &said);
}

/// It goes on in the new one, from where it was, and says so at the next start.
#[test]
fn the_output_topic_is_created_again_while_the_job_runs() {
    let job = Copying::new("out-recreated-running");
    let mut process = job.running();
    recreate_under(&mut process, &job, "out", 2);
    job.write(20);
    wait_for(&mut process, || job.copied().len() >= 20);
    process.kill();
    assert_eq!(job.copied().len(), 20);
    job.is_refused("W0536", &["then it was", "now it is"]);
}

#[test]
fn the_output_topic_is_deleted() {
    let job = Copying::new("out-deleted");
    job.stopped();
    job.scene.topics.delete("out");
    job.is_refused("W0708", &["does not exist", "kafka-topics"]);
    assert_eq!(job.scene.topics.partitions("out"), 0, "it was created");
}

#[test]
fn the_checkpoint_directory_is_emptied() {
    let job = Copying::new("emptied");
    job.killed();
    let (dir, aside) = (checkpoints(&job.scene.place), job.scene.place.path("aside"));
    copy(&dir, &aside);
    fs::remove_dir_all(&dir).expect("removed");
    let said = [
        "refusing to start from nothing",
        "has committed checkpoint",
        "Is the volume mounted?",
        "--fresh --accept-duplicates",
    ];
    job.is_refused("W0503", &said);
    copy(&aside, &dir);
    job.goes_on_exactly();
}

#[test]
fn the_checkpoint_directory_is_emptied_while_the_job_runs() {
    let job = Copying::new("emptied-running");
    let times = "interval: 100ms, timeout: 2s";
    job.write_job(&JOB.replace("interval: 100ms", times));
    let held = job.scene.place.path("held");
    // In the middle of a checkpoint, before its manifest is stored.
    let mut process = job.start_with(&Start {
        fault: Some(("after-prepare".to_owned(), 5)),
        hold: Some(held.clone()),
        ..Start::default()
    });
    wait_for(&mut process, || held.exists());
    let dir = checkpoints(&job.scene.place);
    remove(&dir);
    fs::remove_file(held).expect("it is held");
    let exit = process.end();
    let dir = dir.display().to_string();
    let said = ["trying again: manifest", "[W0530]", "error[W0519]", &dir];
    exit.expect(75, &said);
    job.is_refused("W0503", &["has committed checkpoint"]);
}

#[test]
fn the_checkpoint_directory_is_rolled_back() {
    let job = Copying::new("rolled-back");
    job.killed();
    let place = &job.scene.place;
    let (dir, older, newer) = (checkpoints(place), place.path("older"), place.path("newer"));
    copy(&dir, &older);
    job.killed();
    copy(&dir, &newer);
    copy(&older, &dir);
    let said = [
        "was rolled back: its commit log ends at checkpoint",
        "the marker in partition 0 of topic",
        "says checkpoint",
        "help: ",
    ];
    job.is_refused("W0504", &said);
    copy(&newer, &dir);
    job.goes_on_exactly();
}

/// It goes on from what it knows, and what was put back is too old to be needed soon.
#[test]
fn the_checkpoint_directory_is_rolled_back_while_the_job_runs() {
    let job = Copying::new("rolled-back-running");
    job.killed();
    let place = &job.scene.place;
    let (dir, older) = (checkpoints(place), place.path("older"));
    copy(&dir, &older);
    let mut process = job.running();
    copy(&older, &dir);
    job.write(20);
    job.wait(&mut process);
    commits(&mut process, 5);
    process.kill();
    job.goes_on_exactly();
}

#[test]
fn ids_are_renamed() {
    let job = Copying::new("renamed");
    job.running().kill();
    for id in ["<other>", "<third>"] {
        job.write_job(&JOB.replace("transactional_id: <id>", &format!("transactional_id: {id}")));
        job.goes_on_exactly();
        job.killed();
    }
    job.goes_on_exactly();
}

#[test]
fn the_commit_topic_is_renamed() {
    let job = Copying::new("commits-renamed");
    job.killed();
    job.scene.topics.create("other", 3);
    job.write_job(&JOB.replace("<commits>", "<other>"));
    job.write(20);
    let mut process = job.start();
    job.wait(&mut process);
    let log = process.kill().log;
    let said = "forgets commits: `cleanup.policy` is delete";
    assert!(log.contains("warn[W0711]") && log.contains(said), "{log}");
    job.goes_on_exactly();
}

#[test]
fn an_output_that_may_lose_what_was_acknowledged_is_warned_of() {
    let job = Copying::new("unclean");
    job.scene.topics.delete("out");
    let unclean = [("unclean.leader.election.enable", "true")];
    job.scene.topics.create_with("out", 2, &unclean);
    job.write(20);
    let mut process = job.start();
    job.wait(&mut process);
    let log = process.kill().log;
    let said = "may lose what was acknowledged: `unclean.leader.election.enable` is true";
    assert!(log.contains("warn[W0711]") && log.contains(said), "{log}");
    job.goes_on_exactly();
}

#[test]
fn the_job_is_renamed() {
    let job = Copying::new("job-renamed");
    job.killed();
    job.write_job(&JOB.replace("<job>", "<another>"));
    let said = [
        &format!(
            "holds the checkpoints of job `{}`",
            job.scene.topics.name("job")
        ),
        &format!("not of `{}`", job.scene.topics.name("another")),
        "help: ",
    ];
    job.is_refused("W0512", &said.map(|it| it as &str));
    job.write_job(JOB);
    job.goes_on_exactly();
}

/// Without the Kafka sink.
fn only_files() -> String {
    let (sources, _) = JOB.split_once("  out:").expect("the job has it");
    format!("{sources}{FILES}")
}

fn numbers(lines: impl IntoIterator<Item = String>) -> Vec<usize> {
    let numbers = lines
        .into_iter()
        .map(|line| line.parse().expect("a number"));
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_kafka_sink_is_added_to_a_job_with_files() {
    for killed in [true, false] {
        let job = Copying::new("added");
        let place = &job.scene.place;
        job.write_job(&only_files());
        job.write(20);
        let mut process = job.start();
        wait_for(&mut process, || place.committed("files").len() == 20);
        if killed {
            process.kill();
        } else {
            stop(process);
        }
        job.write_job(&format!("{JOB}{FILES}"));
        job.write(20);
        let mut process = job.start();
        wait_for(&mut process, || place.committed("files").len() == 40);
        process.kill();
        job.write(20);
        let mut process = job.start();
        wait_for(&mut process, || place.committed("files").len() == 60);
        stop(process);
        assert_eq!(
            numbers(place.committed("files")),
            (0..60).collect::<Vec<_>>()
        );
        let copied = job.copied().into_iter().map(|record| record.text());
        assert_eq!(numbers(copied), (20..60).collect::<Vec<_>>());
    }
}

#[test]
fn a_kafka_sink_is_removed() {
    let job = Copying::new("removed");
    let place = &job.scene.place;
    job.write_job(&format!("{JOB}{FILES}"));
    job.killed();
    job.write_job(&only_files());
    let said = [
        "committed in partition 0 of topic",
        "this job file commits in checkpoint storage",
        "`weir stop`",
    ];
    job.is_refused("W0535", &said);
    // As the message says.
    job.write_job(&format!("{JOB}{FILES}"));
    job.goes_on_exactly();
    job.write_job(&only_files());
    job.write(20);
    let mut process = job.start();
    wait_for(&mut process, || place.committed("files").len() == 60);
    process.kill();
    // And back again: what was not written meanwhile is not written later.
    job.write_job(&format!("{JOB}{FILES}"));
    job.write(20);
    let mut process = job.start();
    wait_for(&mut process, || place.committed("files").len() == 80);
    stop(process);
    assert_eq!(
        numbers(place.committed("files")),
        (0..80).collect::<Vec<_>>()
    );
    let copied = job.copied().into_iter().map(|record| record.text());
    let expected: Vec<_> = (0..40).chain(60..80).collect();
    assert_eq!(numbers(copied), expected);
}

#[test]
fn the_guarantee_is_changed() {
    let job = Copying::new("guarantee");
    let exactly_once_only = "      commit_topic: <commits>\n      transactional_id: <id>\n";
    let at_least_once = JOB
        .replace("parallelism: 1", "parallelism: 1\ndelivery: at-least-once")
        .replace(exactly_once_only, "");
    job.killed();
    job.write_job(&at_least_once);
    job.is_refused("W0535", &["`weir stop`"]);
    job.write_job(JOB);
    job.goes_on_exactly();
    job.write_job(&at_least_once);
    job.goes_on_exactly();
    job.running().kill();
    job.write_job(JOB);
    job.write(20);
    let mut process = job.start();
    job.wait(&mut process);
    process.kill();
    // What was written again was committed before: nothing is lost, and from now on nothing is doubled.
    let mut once = numbers(job.copied().into_iter().map(|record| record.text()));
    let before = once.len();
    once.dedup();
    assert_eq!(once, (0..once.len()).collect::<Vec<_>>(), "lost");
    job.write(20);
    let mut process = job.start();
    wait_for(&mut process, || job.copied().len() >= before + 20);
    stop(process);
    assert_eq!(job.copied().len(), before + 20, "doubled");
}

#[test]
fn fresh_is_refused_over_committed_output() {
    let job = Copying::new("fresh");
    job.killed();
    let place = &job.scene.place;
    let said = [
        "error[W0516]",
        "has committed output to Kafka up to checkpoint",
        "--accept-duplicates",
    ];
    place.run_with(&Start::with(&["--fresh"])).expect(3, &said);
    let mut process = place.start(&Start::with(&["--fresh", "--accept-duplicates"]));
    wait_for(&mut process, || job.copied().len() >= 40);
    stop(process);
    assert_eq!(job.copied().len(), 40, "once more, as asked");
}
