//! Transcripts: an event a line, and after the arrow what the coordinator does.
//!
//! Source tasks have a star. `[x y ~z]` are staged parts and one that goes on. The interval is 10 s, the timeout 60 s, `fail_after` 300 s.

use super::*;
use crate::checkpoint::CommitPoint;
use crate::checkpoint::snapshot::{Digest, SinkSnapshot, SourceSnapshot};
use crate::source::SplitState;

fn part(name: &str) -> StagedPart {
    StagedPart {
        sink: "out".to_owned(),
        dir: "/out".into(),
        staged: format!(".{name}"),
        name: name.to_owned(),
        bytes: 1,
        records: 1,
    }
}

/// A snapshot whose source position is the text `position`, so that a transcript shows which one a manifest took.
fn snapshot(task: &str, position: &str, parts: Vec<StagedPart>) -> TaskSnapshot {
    let (open, staged): (Vec<_>, _) = parts
        .into_iter()
        .partition(|part| part.name.starts_with('~'));
    TaskSnapshot {
        sources: vec![SourceSnapshot {
            id: task.to_owned(),
            splits: vec![SplitState {
                split: 0,
                name: String::new(),
                done: false,
                max_time: 0,
                position: position.into(),
            }],
        }],
        operators: Vec::new(),
        sinks: vec![SinkSnapshot {
            id: "out".to_owned(),
            subtask: 0,
            staged,
            open: open.into_iter().next(),
        }],
    }
}

fn names(parts: &[StagedPart]) -> String {
    let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
    format!("[{}]", names.join(" "))
}

fn show(action: &Action) -> String {
    match action {
        Action::InjectBarrier { n, last } => {
            format!("barrier {n}{}", if *last { " last" } else { "" })
        }
        Action::StoreManifest { manifest } => {
            let positions: Vec<String> = manifest
                .sources
                .iter()
                .map(|source| {
                    let position = source.splits[0].position.as_str().expect("a text");
                    format!("{}@{position}", source.id)
                })
                .collect();
            format!(
                "store {} after {}{} {} {}",
                manifest.n,
                manifest.parent.expect("numbers above 0 have a parent"),
                if manifest.finished { " finished" } else { "" },
                positions.join(" "),
                names(&[&manifest.staged[..], &manifest.open].concat())
            )
        }
        Action::CommitSlot { n, .. } => format!("commit {n}"),
        Action::Publish { n, parts } => format!("publish {n} {}", names(parts)),
        Action::Collect { n } => format!("collect {n}"),
        Action::Warn(warning) => warning.to_string().replace("\n ", ";"),
        Action::FailAttempt { why, permanent } => {
            let how = if *permanent { "for good" } else { "attempt" };
            format!("fail {how}: {why}")
        }
        Action::Finished { n } => format!("finished {n}"),
        Action::Stopped { n } => format!("stopped {n}"),
    }
}

fn coordinator(tasks: &str) -> Coordinator {
    let tasks = tasks.split(' ').enumerate().map(|(i, name)| Task {
        id: TaskId(u32::try_from(i).expect("few tasks")),
        name: name.trim_end_matches('*').to_owned(),
        source: name.ends_with('*'),
    });
    Coordinator::new(Setup {
        identity: Identity {
            job: "j".to_owned(),
            max_parallelism: 128,
            commit_point: CommitPoint::Storage,
            topics: Vec::new(),
            sinks: Vec::new(),
            components: BTreeMap::new(),
        },
        settings: CheckpointSettings {
            timeout: Duration::from_secs(60),
            fail_after: Duration::from_secs(300),
            ..CheckpointSettings::default()
        },
        lineage: Lineage::from_bits(1),
        attempt: 1,
        confirmed: 0,
        next_n: 1,
        tasks: tasks.collect(),
        carried: Vec::new(),
        transactional: false,
    })
}

/// Parses `what` into an event; the arguments are a number, a task and parts as the event needs them.
fn event(what: &str, tasks: &Coordinator) -> Event {
    let (words, parts) = match what.split_once(" [") {
        Some((words, parts)) => (words, parts.trim_end_matches(']')),
        None => (what, ""),
    };
    let parts: Vec<StagedPart> = parts.split_whitespace().map(part).collect();
    let words: Vec<&str> = words.split(' ').collect();
    let number = |i: usize| words[i].parse::<u64>().expect("a number");
    let task = |name: &str| {
        let mut found = tasks.tasks.iter().filter(|(_, state)| state.name == name);
        *found.next().expect("a known task").0
    };
    let why = || "disk full".to_owned();
    match words[0] {
        "tick" => Event::Tick,
        "stop" => Event::Stop,
        "hold" => Event::Held { why: why() },
        "release" => Event::Released,
        "ack" => Event::Ack {
            n: number(1),
            task: task(words[2]),
            snapshot: snapshot(words[2], words[1], parts),
        },
        "decline" => Event::Declined {
            n: number(1),
            task: task(words[2]),
            why: why(),
            staged: parts,
        },
        "end" => Event::Ended {
            task: task(words[1]),
            snapshot: snapshot(words[1], "end", parts),
        },
        "stored" => Event::ManifestStored {
            n: number(1),
            digest: Digest::of(b""),
        },
        "unstored" => Event::ManifestFailed {
            n: number(1),
            why: why(),
        },
        "committed" => Event::Committed { n: number(1) },
        "uncommitted" => Event::CommitFailed {
            n: number(1),
            why: why(),
        },
        "published" => Event::Published { n: number(1) },
        "unpublished" => Event::PublishFailed {
            n: number(1),
            why: why(),
        },
        "taken" => Event::TakenOver { by: number(1) },
        other => panic!("no event `{other}`"),
    }
}

#[track_caller]
fn transcript(tasks: &str, expected: &str) {
    happens(coordinator(tasks), expected);
}

/// As [`transcript`], of a job whose output goes into a transaction a checkpoint.
#[track_caller]
fn in_transactions(tasks: &str, expected: &str) {
    let mut coordinator = coordinator(tasks);
    coordinator.transactional = true;
    happens(coordinator, expected);
}

#[track_caller]
fn happens(mut coordinator: Coordinator, expected: &str) {
    let mut actual = String::new();
    let lines = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    for line in lines.clone() {
        let (left, _) = line.split_once("->").expect("an arrow");
        let (at, what) = left.trim().split_once(' ').expect("time and event");
        let at = Duration::from_secs(at.parse().expect("seconds"));
        let done = if what == "deadline?" {
            let deadline = coordinator.next_deadline();
            deadline.map_or("never".to_owned(), |at| at.as_secs().to_string())
        } else {
            let event = event(what, &coordinator);
            let actions = coordinator.handle(at, event);
            actions.iter().map(show).collect::<Vec<_>>().join(" | ")
        };
        actual.push_str(format!("{left}-> {done}").trim_end());
        actual.push('\n');
    }
    let expected: String = lines.map(|line| format!("{line}\n")).collect();
    assert_eq!(
        actual, expected,
        "\nactual:\n{actual}\nexpected:\n{expected}"
    );
}

#[test]
fn a_checkpoint_from_barrier_to_collection_and_the_interval_counts_from_the_barrier() {
    transcript(
        "in* op",
        "
        0 deadline?       -> 10
        9 tick            ->
        10 tick           -> barrier 1
        10 deadline?      -> 70
        11 ack 1 in       ->
        12 ack 1 op [x y] -> store 1 after 0 in@1 op@1 [x y]
        13 stored 1       -> commit 1
        13 deadline?      -> 300
        13 committed 1    -> publish 1 [x y]
        14 published 1    -> collect 1
        14 deadline?      -> 20
        20 tick           -> barrier 2
        21 ack 2 op [z]   ->
        21 ack 2 in       -> store 2 after 1 in@2 op@2 [z]
        ",
    );
}

#[test]
fn one_at_a_time_a_slow_publish_holds_the_next_barrier_back() {
    transcript(
        "in*",
        "
        10 tick        -> barrier 1
        10 ack 1 in    -> store 1 after 0 in@1 []
        11 stored 1    -> commit 1
        25 tick        ->
        26 committed 1 -> publish 1 []
        45 tick        ->
        50 published 1 -> collect 1 | barrier 2
        ",
    );
}

#[test]
fn a_declined_checkpoint_is_skipped_and_its_parts_go_into_the_next_one_once_late_ones_too() {
    transcript(
        "in* op other",
        "
        10 tick             -> barrier 1
        11 ack 1 in [a]     ->
        12 decline 1 op [b] -> checkpoint 1 failed (1 in a row; last good 12s ago; the job fails at 5m); op: disk full; waiting for op, other
        13 ack 1 other [c]  ->
        13 ack 1 other [c]  ->
        20 tick             -> barrier 2
        21 ack 1 in [a]     ->
        21 ack 2 in [d]     ->
        21 ack 2 op         ->
        22 ack 2 other      -> store 2 after 0 in@2 op@2 other@2 [a b c d]
        23 stored 2         -> commit 2
        23 committed 2      -> publish 2 [a b c d]
        23 published 2      -> collect 2
        30 tick             -> barrier 3
        31 ack 3 in         ->
        31 ack 3 op         ->
        31 ack 3 other      -> store 3 after 2 in@3 op@3 other@3 []
        ",
    );
}

#[test]
fn an_acknowledgement_that_comes_during_the_next_alignment_belongs_to_it() {
    transcript(
        "in* op",
        "
        10 tick       -> barrier 1
        70 tick       -> checkpoint 1 failed (1 in a row; last good 1m10s ago; the job fails at 5m); it took longer than 1m; waiting for in, op
        71 tick       -> barrier 2
        72 ack 1 in   ->
        73 ack 1 op [a] ->
        74 ack 2 in   ->
        75 ack 2 op [b] -> store 2 after 0 in@2 op@2 [a b]
        ",
    );
}

#[test]
fn a_manifest_that_cannot_be_written_skips_the_checkpoint_and_pauses_grow_up_to_the_interval() {
    transcript(
        "in*",
        "
        10 tick         -> barrier 1
        21 ack 1 in [a] -> store 1 after 0 in@1 [a]
        22 unstored 1   -> checkpoint 1 failed (1 in a row; last good 22s ago; the job fails at 5m); disk full
        22 deadline?    -> 23
        23 tick         -> barrier 2
        34 ack 2 in [b] -> store 2 after 0 in@2 [a b]
        34 unstored 2   -> checkpoint 2 failed (2 in a row; last good 34s ago; the job fails at 5m); disk full
        34 deadline?    -> 36
        36 tick         -> barrier 3
        37 stored 2     ->
        38 ack 3 in     -> store 3 after 0 in@3 [a b]
        38 stored 3     -> commit 3
        38 committed 3  -> publish 3 [a b]
        38 published 3  -> collect 3
        ",
    );
}

#[test]
fn a_store_that_times_out_is_given_up_and_its_late_success_changes_nothing() {
    transcript(
        "in*",
        "
        10 tick         -> barrier 1
        11 ack 1 in [a] -> store 1 after 0 in@1 [a]
        70 tick         -> checkpoint 1 failed (1 in a row; last good 1m10s ago; the job fails at 5m); it took longer than 1m
        70 stored 1     ->
        71 tick         -> barrier 2
        72 ack 2 in     -> store 2 after 0 in@2 [a]
        ",
    );
}

#[test]
fn after_the_slot_was_sent_for_nothing_times_out_and_an_unclear_outcome_ends_the_attempt() {
    transcript(
        "in*",
        "
        10 tick          -> barrier 1
        11 ack 1 in      -> store 1 after 0 in@1 []
        12 stored 1      -> commit 1
        99 tick          ->
        99 unstored 1    ->
        99 uncommitted 1 -> fail attempt: whether checkpoint 1 was committed is not known: disk full
        99 committed 1   ->
        99 deadline?     -> never
        ",
    );
}

#[test]
fn output_that_cannot_be_published_ends_the_attempt() {
    transcript(
        "in*",
        "
        10 tick          -> barrier 1
        11 ack 1 in [a]  -> store 1 after 0 in@1 [a]
        12 stored 1      -> commit 1
        12 committed 1   -> publish 1 [a]
        13 unpublished 1 -> fail attempt: checkpoint 1 is committed, but its output could not be published: disk full
        ",
    );
}

#[test]
fn a_newer_attempt_ends_this_one_for_good() {
    transcript(
        "in*",
        "
        10 tick      -> barrier 1
        11 ack 1 in  -> store 1 after 0 in@1 []
        12 stored 1  -> commit 1
        12 taken 7   -> fail for good: attempt 7 on another host has taken the job over
        ",
    );
}

#[test]
fn without_a_checkpoint_for_too_long_the_attempt_fails_counted_from_the_last_good_barrier() {
    transcript(
        "in*",
        "
        10 tick        -> barrier 1
        11 ack 1 in    -> store 1 after 0 in@1 []
        12 stored 1    -> commit 1
        12 committed 1 -> publish 1 []
        12 published 1 -> collect 1
        20 tick        -> barrier 2
        80 tick        -> checkpoint 2 failed (1 in a row; last good 1m10s ago; the job fails at 5m); it took longer than 1m; waiting for in
        300 ack 2 in   -> barrier 3
        309 tick       ->
        309 deadline?  -> 310
        310 tick       -> fail attempt: no checkpoint was confirmed for 5m, and `checkpoint.fail_after` is 5m; the last good one is 1
        ",
    );
}

#[test]
fn a_task_that_ended_is_not_waited_for_and_its_position_is_carried_forward() {
    transcript(
        "a* b*",
        "
        5 end a [x]    ->
        10 tick        -> barrier 1
        11 ack 1 b [y] -> store 1 after 0 a@end b@1 [x y]
        12 stored 1    -> commit 1
        12 committed 1 -> publish 1 [x y]
        12 published 1 -> collect 1
        20 tick        -> barrier 2
        21 ack 2 b [z] -> store 2 after 1 a@end b@2 [z]
        ",
    );
}

#[test]
fn a_task_that_ended_before_the_barrier_reached_it_counts_as_having_passed() {
    transcript(
        "a* b*",
        "
        10 tick        -> barrier 1
        11 ack 1 b [y] ->
        12 end a [x]   -> store 1 after 0 a@end b@1 [y x]
        ",
    );
}

#[test]
fn what_a_task_staged_after_the_barrier_it_passed_waits_for_the_next_checkpoint() {
    transcript(
        "a* b*",
        "
        10 tick        -> barrier 1
        11 ack 1 a [x] ->
        12 end a [z]   ->
        13 ack 1 b [y] -> store 1 after 0 a@1 b@1 [x y]
        14 stored 1    -> commit 1
        15 committed 1 -> publish 1 [x y]
        16 published 1 -> collect 1
        20 tick        -> barrier 2
        21 ack 2 b     -> store 2 after 1 a@end b@2 [z]
        ",
    );
}

#[test]
fn the_parts_of_a_failed_checkpoint_stay_before_those_of_the_tasks_end() {
    transcript(
        "a* b*",
        "
        10 tick        -> barrier 1
        11 ack 1 a [x] ->
        12 end a [z]   ->
        13 decline 1 b -> checkpoint 1 failed (1 in a row; last good 13s ago; the job fails at 5m); b: disk full; waiting for b
        20 tick        -> barrier 2
        21 ack 2 b     -> store 2 after 0 a@end b@2 [x z]
        ",
    );
}

#[test]
fn open_parts_are_those_of_each_tasks_own_snapshot_for_the_checkpoint() {
    transcript(
        "a* b*",
        "
        10 tick             -> barrier 1
        11 ack 1 a [~p]     ->
        12 decline 1 b      -> checkpoint 1 failed (1 in a row; last good 12s ago; the job fails at 5m); b: disk full; waiting for b
        20 tick             -> barrier 2
        21 ack 2 a [x ~q]   ->
        22 end a [q]        ->
        23 ack 2 b [~r]     -> store 2 after 0 a@2 b@2 [x ~q ~r]
        24 stored 2         -> commit 2
        25 committed 2      -> publish 2 [x]
        26 published 2      -> collect 2
        30 tick             -> barrier 3
        31 ack 3 b [~r]     -> store 3 after 2 a@end b@3 [q ~r]
        ",
    );
}

#[test]
fn when_all_tasks_have_ended_the_last_checkpoint_is_taken_at_once() {
    transcript(
        "in* op",
        "
        3 end in      ->
        4 end op [x]  -> store 1 after 0 finished in@end op@end [x]
        4 stored 1    -> commit 1
        4 committed 1 -> publish 1 [x]
        4 published 1 -> collect 1 | finished 1
        5 tick        ->
        ",
    );
}

#[test]
fn a_checkpoint_in_flight_at_the_end_is_finished_first_and_then_the_last_one_is_taken() {
    transcript(
        "in* op",
        "
        10 tick        -> barrier 1
        11 ack 1 in    ->
        12 end in      ->
        13 ack 1 op [x] -> store 1 after 0 in@1 op@1 [x]
        14 end op [y]  ->
        14 stored 1    -> commit 1
        14 committed 1 -> publish 1 [x]
        14 published 1 -> collect 1 | store 2 after 1 finished in@end op@end [y]
        15 stored 2    -> commit 2
        15 committed 2 -> publish 2 [y]
        15 published 2 -> collect 2 | finished 2
        ",
    );
}

#[test]
fn a_barrier_that_every_task_outran_makes_the_last_checkpoint() {
    transcript(
        "in* op",
        "
        10 tick      -> barrier 1
        11 end in    ->
        12 end op [x] -> store 1 after 0 finished in@end op@end [x]
        ",
    );
}

#[test]
fn while_operators_drain_no_barrier_is_sent_and_the_job_does_not_fail_for_want_of_one() {
    transcript(
        "in* op",
        "
        3 end in         ->
        10 tick          ->
        10 deadline?     -> never
        900 tick         ->
        900 end op       -> store 1 after 0 finished in@end op@end []
        901 unstored 1   -> checkpoint 1 failed (1 in a row; last good 15m01s ago; the job fails at 5m); disk full
        902 tick         -> store 2 after 0 finished in@end op@end []
        1199 deadline?   -> 962
        1199 unstored 2  -> checkpoint 2 failed (2 in a row; last good 19m59s ago; the job fails at 5m); disk full
        1200 tick        -> fail attempt: no checkpoint was confirmed for 20m, and `checkpoint.fail_after` is 5m; the last good one is 0
        ",
    );
}

#[test]
fn a_stop_takes_a_last_checkpoint_at_once_and_then_the_job_stops() {
    transcript(
        "in*",
        "
        3 stop          -> barrier 1 last
        4 ack 1 in [x]  -> store 1 after 0 in@1 [x]
        4 stored 1      -> commit 1
        4 committed 1   -> publish 1 [x]
        4 published 1   -> collect 1 | stopped 1
        ",
    );
}

#[test]
fn a_stop_during_a_checkpoint_waits_for_it_and_one_that_fails_is_tried_again() {
    transcript(
        "in*",
        "
        10 tick        -> barrier 1
        11 stop        ->
        12 ack 1 in    -> store 1 after 0 in@1 []
        12 stored 1    -> commit 1
        12 committed 1 -> publish 1 []
        12 published 1 -> collect 1 | barrier 2 last
        13 decline 2 in -> checkpoint 2 failed (1 in a row; last good 3s ago; the job fails at 5m); in: disk full; waiting for in
        13 deadline?   -> 14
        14 tick        -> barrier 3 last
        15 ack 3 in    -> store 3 after 1 in@3 []
        15 stored 3    -> commit 3
        15 committed 3 -> publish 3 []
        15 published 3 -> collect 3 | stopped 3
        ",
    );
}

#[test]
fn a_stop_when_everything_has_ended_finishes() {
    transcript(
        "in*",
        "
        3 end in      -> store 1 after 0 finished in@end []
        3 stop        ->
        4 stored 1    -> commit 1
        4 committed 1 -> publish 1 []
        4 published 1 -> collect 1 | finished 1
        ",
    );
}

#[test]
fn held_no_checkpoint_is_begun_and_none_is_missed_until_it_is_released() {
    transcript(
        "in*",
        "
        10 tick        -> barrier 1
        10 ack 1 in    -> store 1 after 0 in@1 []
        10 stored 1    -> commit 1
        10 committed 1 -> publish 1 []
        11 published 1 -> collect 1
        15 hold        -> collect 1
        15 deadline?   -> never
        20 tick        ->
        400 tick       ->
        500 release    -> barrier 2
        500 deadline?  -> 560
        501 ack 2 in   -> store 2 after 1 in@2 []
        501 unstored 2 -> checkpoint 2 failed (1 in a row; last good 8m11s ago; the job fails at 5m); disk full
        501 deadline?  -> 510
        ",
    );
}

#[test]
fn a_checkpoint_that_is_being_aligned_is_given_up_when_it_is_held_and_one_behind_that_is_not() {
    transcript(
        "in*",
        "
        10 tick        -> barrier 1
        11 hold        -> checkpoint 1 failed (1 in a row; last good 11s ago; the job fails at 5m); disk full; waiting for in
        12 ack 1 in [x] ->
        20 tick        ->
        30 release     -> barrier 2
        31 ack 2 in    -> store 2 after 0 in@2 [x]
        31 hold        ->
        32 stored 2    -> commit 2
        32 committed 2 -> publish 2 [x]
        33 published 2 -> collect 2
        50 tick        ->
        ",
    );
}

#[test]
fn held_a_job_still_stops_and_still_ends() {
    transcript(
        "in*",
        "
        3 hold          ->
        4 stop          -> barrier 1 last
        5 ack 1 in [x]  -> store 1 after 0 in@1 [x]
        5 stored 1      -> commit 1
        5 committed 1   -> publish 1 [x]
        5 published 1   -> collect 1 | stopped 1
        ",
    );
    // However long it was held: that does not count, not even for the last checkpoint.
    transcript(
        "in*",
        "
        3 hold          ->
        9000 stop       -> barrier 1 last
        9001 ack 1 in [x]  -> store 1 after 0 in@1 [x]
        9001 stored 1      -> commit 1
        9001 committed 1   -> publish 1 [x]
        9001 published 1   -> collect 1 | stopped 1
        ",
    );
    transcript(
        "in*",
        "
        3 hold          ->
        4 end in [x]    -> store 1 after 0 finished in@end [x]
        4 stored 1      -> commit 1
        4 committed 1   -> publish 1 [x]
        4 published 1   -> collect 1 | finished 1
        ",
    );
}

#[test]
fn numbers_continue_above_every_number_seen() {
    let tasks = vec![Task {
        id: TaskId(0),
        name: "in".to_owned(),
        source: true,
    }];
    let mut coordinator = Coordinator::new(Setup {
        identity: coordinator("in*").identity,
        settings: CheckpointSettings::default(),
        lineage: Lineage::from_bits(1),
        attempt: 3,
        confirmed: 41,
        next_n: 57,
        tasks,
        carried: vec![part("taken over")],
        transactional: false,
    });
    let actions = coordinator.handle(Duration::from_secs(10), Event::Tick);
    assert_eq!(actions, [Action::InjectBarrier { n: 57, last: false }]);
    let ack = Event::Ack {
        n: 57,
        task: TaskId(0),
        snapshot: TaskSnapshot::default(),
    };
    let actions = coordinator.handle(Duration::from_secs(11), ack);
    let [Action::StoreManifest { manifest }] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert_eq!(
        (manifest.n, manifest.attempt, manifest.parent),
        (57, 3, Some(41))
    );
    assert_eq!(
        names(&manifest.staged),
        "[taken over]",
        "what recovery took over goes into the first checkpoint"
    );
}

#[test]
fn a_warning_names_a_few_tasks_and_counts_the_rest() {
    let warning = Warning {
        n: 42,
        in_a_row: 3,
        last_good: Duration::from_secs(72),
        fail_after: Duration::from_secs(480),
        waiting: (0..9).map(|i| format!("t{i}")).collect(),
        why: "it took longer than 2m".to_owned(),
    };
    assert_eq!(
        warning.to_string(),
        "checkpoint 42 failed (3 in a row; last good 1m12s ago; the job fails at 8m)\n  \
         it took longer than 2m\n  waiting for t0, t1, t2, t3, t4 and 4 more"
    );
}

#[test]
fn a_declined_checkpoint_whose_output_is_in_a_transaction_ends_the_attempt() {
    in_transactions(
        "in* op",
        "
        10 tick           -> barrier 1
        11 ack 1 in [a]   ->
        12 decline 1 op   -> fail attempt: checkpoint 1 could not be taken, and its output is in a transaction of its own: op: disk full
        13 tick           ->
        ",
    );
    let why = || "disk full".to_owned();
    let lost = Failure::CheckpointLost { n: 1, why: why() };
    assert_eq!((lost.code(), lost.permanent()), ("W0530", false));
}

#[test]
fn one_that_takes_too_long_ends_the_attempt_also_when_the_job_stops() {
    let lost = "it took longer than 1m";
    for (begin, stop) in [
        ("10 tick -> barrier 1", "11 tick ->"),
        ("9 tick ->", "10 stop -> barrier 1 last"),
    ] {
        in_transactions(
            "in* op",
            &format!(
                "
                {begin}
                {stop}
                12 ack 1 in   ->
                12 deadline?  -> 70
                70 tick       -> fail attempt: checkpoint 1 could not be taken, and its output is in a transaction of its own: {lost}
                "
            ),
        );
    }
}

#[test]
fn a_manifest_of_a_transaction_is_stored_again_after_a_pause() {
    in_transactions(
        "in*",
        "
        10 tick          -> barrier 1
        21 ack 1 in [a]  -> store 1 after 0 in@1 [a]
        22 unstored 1    ->
        22 deadline?     -> 23
        22 tick          ->
        23 tick          -> store 1 after 0 in@1 [a]
        23 deadline?     -> 70
        24 unstored 1    ->
        25 tick          -> store 1 after 0 in@1 [a]
        26 stored 1      -> commit 1
        26 unstored 1    ->
        27 committed 1   -> publish 1 [a]
        28 published 1   -> collect 1 | barrier 2
        ",
    );
}

#[test]
fn a_manifest_of_a_transaction_that_cannot_be_stored_in_time_ends_the_attempt() {
    in_transactions(
        "in*",
        "
        10 tick        -> barrier 1
        21 ack 1 in    -> store 1 after 0 in@1 []
        22 unstored 1  ->
        23 tick        -> store 1 after 0 in@1 []
        69 unstored 1  ->
        69 deadline?   -> 70
        70 tick        -> fail attempt: checkpoint 1 could not be taken, and its output is in a transaction of its own: it took longer than 1m: disk full
        ",
    );
}

#[test]
fn want_of_space_does_not_take_back_a_barrier_whose_output_is_in_a_transaction() {
    in_transactions(
        "in* op",
        "
        10 tick        -> barrier 1
        11 ack 1 in    ->
        12 hold        ->
        13 ack 1 op    -> store 1 after 0 in@1 op@1 []
        14 hold        ->
        14 unstored 1  ->
        15 tick        -> store 1 after 0 in@1 op@1 []
        16 stored 1    -> commit 1
        16 committed 1 -> publish 1 []
        17 published 1 -> collect 1
        30 tick        ->
        30 deadline?   -> never
        40 release     -> barrier 2
        ",
    );
}
