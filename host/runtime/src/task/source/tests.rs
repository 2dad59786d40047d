//! The source task over a reader that is told what to read.

use super::*;
use crate::channel::{Inbox, Received, inbox};
use crate::job::model::Exchange as Kind;
use crate::source::{Error as ReadError, SplitState};

/// Reads the numbers below `until`, timestamps like numbers.
struct Numbers {
    next: i64,
    until: i64,
}

impl Reader for Numbers {
    fn read(&mut self, emit: &mut dyn Emit) -> Result<Progress, ReadError> {
        emit.opened(0);
        while !emit.full() && self.next < self.until {
            emit.record(
                0,
                Some(b"k"),
                Some(b"v"),
                self.next,
                Origin::new(0, self.next as u64),
            );
            self.next += 1;
        }
        Ok(if self.next == self.until {
            Progress::Ended
        } else {
            Progress::More
        })
    }

    fn splits(&self) -> Vec<SplitState> {
        vec![SplitState {
            split: 0,
            name: "numbers".into(),
            done: self.next == self.until,
            max_time: NO_TIME,
            position: serde_json::json!({ "at": self.next }),
        }]
    }
}

fn task(until: i64, rate: Option<f64>) -> (SourceTask, Arc<SourceControl>, Inbox) {
    let (inbox, senders) = inbox(1);
    let control = Arc::new(SourceControl::default());
    let settings = SourceSettings {
        id: "s".into(),
        out_of_order: 10,
        idle_after: Duration::MAX,
        rate,
        origins: Arc::default(),
    };
    let task = SourceTask::new(
        settings,
        Box::new(Numbers { next: 0, until }),
        vec![Exchange::new(Kind::Forward, 128, senders)],
        Vec::new(),
        control.clone(),
        Arc::new(Counters::default()),
        Arc::new(Share::default()),
    );
    (task, control, inbox)
}

fn received(inbox: &mut Inbox) -> Vec<Element> {
    let mut all = Vec::new();
    while let Received::Element(_, element) =
        inbox.receive(Some(clock::now()), &|_, _| false, &mut || Ok(()))
    {
        all.push(element);
    }
    all
}

fn rows(elements: &[Element]) -> usize {
    let rows = |element: &Element| match element {
        Element::Batch(batch) => batch.len(),
        _ => 0,
    };
    elements.iter().map(rows).sum()
}

#[test]
fn a_barrier_comes_right_behind_the_records_that_its_position_covers() {
    let (mut task, control, mut inbox) = task(1_000_000, None);
    task.step().expect("reads");
    control.inject(Barrier { n: 1, last: false });
    let Ok(Step::Snapshots(frozen)) = task.step() else {
        panic!("a barrier was asked for")
    };
    let [(barrier, frozen)] = &frozen[..] else {
        panic!("one barrier")
    };
    assert_eq!(*barrier, Barrier { n: 1, last: false });
    let elements = received(&mut inbox);
    assert_eq!(elements.last(), Some(&Element::Barrier(*barrier)));
    let position = &frozen.sources[0].1[0];
    assert_eq!(position.position["at"], rows(&elements));
    assert_eq!(position.max_time, rows(&elements) as i64 - 1);
}

#[test]
fn after_a_last_barrier_nothing_is_emitted_but_the_barrier_of_a_second_try() {
    let (mut task, control, mut inbox) = task(1_000_000, None);
    task.step().expect("reads");
    control.inject(Barrier { n: 1, last: true });
    assert!(matches!(task.step(), Ok(Step::Snapshots(frozen)) if frozen.len() == 1));
    received(&mut inbox);
    // The checkpoint failed; the coordinator tries again.
    control.inject(Barrier { n: 2, last: true });
    assert!(matches!(task.step(), Ok(Step::Snapshots(frozen)) if frozen.len() == 1));
    assert_eq!(
        received(&mut inbox),
        [Element::Barrier(Barrier { n: 2, last: true })]
    );
}

#[test]
fn the_end_follows_the_last_record_and_the_final_position_is_done() {
    let (mut task, _control, mut inbox) = task(5, None);
    let Ok(Step::Ended(frozen)) = task.step() else {
        panic!("five records fit one step")
    };
    assert!(frozen.sources[0].1[0].done);
    let elements = received(&mut inbox);
    assert_eq!(rows(&elements), 5);
    assert_eq!(elements.last(), Some(&Element::End));
}

#[test]
fn closing_ends_the_task_although_it_is_paced_to_wait() {
    let (mut task, control, _inbox) = task(1_000_000, Some(0.001));
    assert!(matches!(task.step(), Ok(Step::Continue)));
    control.close();
    assert!(matches!(task.step(), Err(Error::Closed)));
    assert!(
        matches!(task.step(), Err(Error::Closed)),
        "and stays closed"
    );
}

#[test]
fn pace_never_lets_more_through_than_the_rate_allows() {
    let mut pace = Pace::new(1_000.0);
    let start = pace.last;
    let mut passed = 0;
    for millis in 1..=2_000 {
        let allowed = pace.allowed(start + Duration::from_millis(millis));
        pace.used(allowed);
        passed += allowed;
        assert!(passed as u64 <= millis + 1, "{passed} after {millis} ms");
    }
    assert!(passed >= 1_990, "{passed} of 2,000");
    // A long pause is not made up for in one burst.
    assert!(pace.allowed(start + Duration::from_secs(100)) <= 250);
}
