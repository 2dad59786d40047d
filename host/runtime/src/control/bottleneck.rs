//! Which task limits a job: one that is at work all the time while those that feed it wait for room.

use super::status::{Bottleneck, Task};
use crate::metrics::Meters;

/// A task that waits for room for a smaller share of its time than this is not held up.
const HELD_UP: f64 = 0.2;

/// A task that works for a smaller share of its time than this has time left.
const AT_WORK: f64 = 0.5;

/// What limits the job, if something does. `tasks` are those of `meters`, in their order.
pub(super) fn find(meters: &Meters, tasks: &[Task]) -> Option<Bottleneck> {
    let upstream = |chain: usize| &meters.upstream[chain];
    find_in(tasks, &|task| {
        let chain = meters.tasks[task].chain;
        let feeds = |other: &usize| upstream(chain).contains(&meters.tasks[*other].chain);
        (0..tasks.len()).filter(feeds).collect()
    })
}

fn find_in(tasks: &[Task], fed_by: &dyn Fn(usize) -> Vec<usize>) -> Option<Bottleneck> {
    let at_work = |task: &Task| task.busy >= AT_WORK && task.busy > task.backpressured;
    let by_work = |a: &usize, b: &usize| tasks[*a].busy.total_cmp(&tasks[*b].busy);
    // A task that is held up itself passes on what is behind it, so only one that is not can be the cause.
    let mut causes: Vec<(usize, usize)> = Vec::new();
    for (task, status) in tasks.iter().enumerate().filter(|(_, task)| at_work(task)) {
        let held_up = fed_by(task)
            .into_iter()
            .filter(|feeder| tasks[*feeder].backpressured >= HELD_UP)
            .max_by(|a, b| tasks[*a].backpressured.total_cmp(&tasks[*b].backpressured));
        if let Some(feeder) = held_up {
            debug_assert!(status.busy >= AT_WORK);
            causes.push((task, feeder));
        }
    }
    let percent = |share: f64| (share * 100.0).round();
    if let Some((task, feeder)) = causes.into_iter().max_by(|a, b| by_work(&a.0, &b.0)) {
        let (task, feeder) = (&tasks[task], &tasks[feeder]);
        return Some(Bottleneck {
            task: task.name.clone(),
            why: format!(
                "it works {} % of the time, and {} waits {} % of the time for room",
                percent(task.busy),
                feeder.name,
                percent(feeder.backpressured)
            ),
        });
    }
    // One that nothing follows waits for what is outside.
    let followed = |task: &usize| (0..tasks.len()).any(|other| fed_by(other).contains(task));
    let by_wait =
        |a: &usize, b: &usize| tasks[*a].backpressured.total_cmp(&tasks[*b].backpressured);
    let last = (0..tasks.len())
        .filter(|task| tasks[*task].backpressured >= HELD_UP && !followed(task))
        .max_by(by_wait);
    if let Some(task) = last.map(|task| &tasks[task]) {
        return Some(Bottleneck {
            task: task.name.clone(),
            why: format!(
                "it waits {} % of the time for what it writes to",
                percent(task.backpressured)
            ),
        });
    }
    // Nobody is held up: a source that reads as fast as it can is the limit.
    let sources =
        (0..tasks.len()).filter(|task| fed_by(*task).is_empty() && at_work(&tasks[*task]));
    let source = &tasks[sources.max_by(by_work)?];
    Some(Bottleneck {
        task: source.name.clone(),
        why: format!(
            "it reads {} % of the time, and nothing behind it holds it up",
            percent(source.busy)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, busy: f64, backpressured: f64) -> Task {
        Task {
            name: name.to_owned(),
            subtask: 0,
            doing: "working".to_owned(),
            doing_seconds: None,
            waits_for: None,
            busy,
            idle: 1.0 - busy - backpressured,
            backpressured,
            busy_seconds: 0.0,
            idle_seconds: 0.0,
            backpressured_seconds: 0.0,
            queued_bytes: 0,
            channels: 0,
            channels_aligned: 0,
            passed: 0,
            nodes: Vec::new(),
        }
    }

    /// Each task feeds the next.
    fn line(tasks: &[Task]) -> Option<String> {
        let before = |task: usize| task.checked_sub(1).into_iter().collect();
        find_in(tasks, &before).map(|found| found.task)
    }

    #[test]
    fn the_busy_one_behind_those_that_wait_for_room() {
        let tasks = [
            task("source", 0.1, 0.9),
            task("clean", 0.3, 0.7),
            task("daily", 0.98, 0.0),
            task("out", 0.4, 0.0),
        ];
        assert_eq!(line(&tasks).as_deref(), Some("daily"));
        let found = find_in(&tasks, &|task| task.checked_sub(1).into_iter().collect());
        assert_eq!(
            found.expect("there is one").why,
            "it works 98 % of the time, and clean waits 70 % of the time for room"
        );
    }

    #[test]
    fn a_source_that_nothing_holds_up_and_nobody_in_a_job_that_waits() {
        let reading = [task("source", 0.95, 0.02), task("out", 0.3, 0.0)];
        assert_eq!(line(&reading).as_deref(), Some("source"));
        let waiting = [task("source", 0.05, 0.0), task("out", 0.05, 0.0)];
        assert_eq!(line(&waiting), None);
        assert_eq!(line(&[]), None);
    }

    #[test]
    fn a_sink_that_waits_for_what_it_writes_to() {
        let tasks = [
            task("source", 0.1, 0.9),
            task("count", 0.2, 0.8),
            task("out", 0.3, 0.6),
        ];
        let found = find_in(&tasks, &|task| task.checked_sub(1).into_iter().collect());
        let found = found.expect("there is one");
        assert_eq!(found.task, "out");
        assert_eq!(found.why, "it waits 60 % of the time for what it writes to");
        // One thread that reads and writes.
        let alone = [task("in", 0.4, 0.55)];
        assert_eq!(line(&alone).as_deref(), Some("in"));
    }

    #[test]
    fn of_several_the_one_with_the_least_time_left() {
        let tasks = [
            task("source", 0.1, 0.8),
            task("daily[0]", 0.7, 0.0),
            task("daily[1]", 0.9, 0.0),
        ];
        let fed_by = |task: usize| if task == 0 { Vec::new() } else { vec![0] };
        let found = find_in(&tasks, &fed_by).expect("there is one");
        assert_eq!(found.task, "daily[1]");
    }
}
