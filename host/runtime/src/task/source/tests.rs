//! The source task over a reader that is told what to read.

use super::*;
use crate::channel::{Inbox, Received, inbox};
use crate::job::model::{ErrorPolicy, Exchange as Kind};

use crate::sink::{Blackhole, Writer};
use crate::source::{Error as ReadError, SplitState};
use crate::task::chain::ChainNode;
use crate::task::sink_node::SinkNode;

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

fn barrier(n: u64, last: bool) -> Barrier {
    Barrier { n, last, base: 0 }
}

fn task_over(
    until: i64,
    rate: Option<f64>,
    outlets: SourceOutlets,
    counters: Arc<Counters>,
) -> (SourceTask, Arc<SourceControl>) {
    task_reading(
        Box::new(Numbers { next: 0, until }),
        rate,
        outlets,
        counters,
    )
}

fn task_reading(
    reader: Box<dyn Reader>,
    rate: Option<f64>,
    outlets: SourceOutlets,
    counters: Arc<Counters>,
) -> (SourceTask, Arc<SourceControl>) {
    let control = Arc::new(SourceControl::default());
    let settings = SourceSettings {
        has_event_time: true,
        letter_form: Form::Object,
        id: "s".into(),
        out_of_order: 10,
        idle_after: Duration::MAX,
        rate,
        next_n: 1,
        origins: Arc::default(),
    };
    let task = SourceTask::new(
        settings,
        reader,
        outlets,
        control.clone(),
        counters,
        Arc::new(Share::default()),
    );
    (task, control)
}

fn chain(nodes: Vec<ChainNode>, counters: &Arc<Counters>) -> Chain {
    let counters = nodes.iter().map(|_| counters.clone()).collect();
    Chain::new(nodes, counters, Arc::default(), Arc::default())
}

fn task(until: i64, rate: Option<f64>) -> (SourceTask, Arc<SourceControl>, Inbox) {
    let (inbox, senders) = inbox(1);
    let counters = Arc::new(Counters::default());
    let outlets = SourceOutlets {
        records: vec![Outlet::Exchange(Exchange::new(Kind::Forward, 128, senders))],
        dead_letters: Vec::new(),
        chain: chain(Vec::new(), &counters),
    };
    let (task, control) = task_over(until, rate, outlets, counters);
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
    control.inject(barrier(1, false));
    let Ok(Step::Snapshot(passed, frozen)) = task.step() else {
        panic!("a barrier was asked for")
    };
    assert_eq!(passed, barrier(1, false));
    let elements = received(&mut inbox);
    assert_eq!(elements.last(), Some(&Element::Barrier(passed)));
    let position = &frozen.sources[0].1[0];
    assert_eq!(position.position["at"], rows(&elements));
    assert_eq!(position.max_time, rows(&elements) as i64 - 1);
}

#[test]
fn after_a_last_barrier_nothing_is_emitted_but_the_barrier_of_a_second_try() {
    let (mut task, control, mut inbox) = task(1_000_000, None);
    task.step().expect("reads");
    control.inject(barrier(1, true));
    assert!(matches!(task.step(), Ok(Step::Snapshot(_, _))));
    received(&mut inbox);
    // The checkpoint failed; the coordinator tries again.
    control.inject(barrier(2, true));
    assert!(matches!(task.step(), Ok(Step::Snapshot(_, _))));
    assert_eq!(received(&mut inbox), [Element::Barrier(barrier(2, true))]);
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

/// A task whose records go to two sinks of the same thread.
fn chained(until: i64) -> (SourceTask, Arc<SourceControl>, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let sink = |id: &str| {
        ChainNode::Sink(Box::new(SinkNode {
            id: id.into(),
            subtask: 0,
            writer: Writer::Blackhole(Blackhole::default()),
            on_error: ErrorPolicy::Fail,
            letter_form: Form::Object,
            faults_logged: 0,
            outlets: vec![Vec::new()],
        }))
    };
    let outlets = SourceOutlets {
        records: vec![Outlet::Chained(0, 0), Outlet::Chained(1, 0)],
        dead_letters: Vec::new(),
        chain: chain(vec![sink("one"), sink("other")], &counters),
    };
    let (task, control) = task_over(until, None, outlets, counters.clone());
    (task, control, counters)
}

#[test]
fn a_barrier_holds_what_chained_nodes_did_with_all_records_that_its_position_covers() {
    let (mut task, control, counters) = chained(1_000_000);
    for n in 1..4 {
        task.step().expect("reads");
        task.step().expect("reads");
        control.inject(barrier(n, false));
        let Ok(Step::Snapshot(passed, frozen)) = task.step() else {
            panic!("a barrier was asked for")
        };
        assert_eq!(passed.n, n);
        let ids: Vec<_> = frozen.sinks.iter().map(|(id, ..)| id.as_str()).collect();
        assert_eq!(ids, ["one", "other"]);
        let position = frozen.sources[0].1[0].position["at"].as_u64();
        assert_eq!(position, Some(2 * n * MAX_ROWS as u64));
        assert_eq!(Some(counters.written()), position.map(|at| 2 * at));
    }
}

#[test]
fn the_end_holds_what_chained_nodes_did_with_the_last_record() {
    let (mut task, _, counters) = chained(1_500);
    loop {
        match task.step().expect("reads") {
            Step::Continue => {}
            Step::Snapshot(..) => panic!("no barrier was asked for"),
            Step::Ended(frozen) => {
                assert_eq!(frozen.sinks.len(), 2);
                assert!(frozen.sources[0].1[0].done);
                break;
            }
        }
    }
    assert_eq!(counters.written(), 3_000);
}

const HEADERS: &[Header<'_>] = &[
    (b"trace", Some(b"\0\xff")),
    (b"trace", Some(b"")),
    (b"trace", None),
    (b"", Some(b"x")),
];

/// Reads records with headers, with none of a source that has some, and of one that knows none, in turn.
struct Headed(u64);

impl Reader for Headed {
    fn read(&mut self, emit: &mut dyn Emit) -> Result<Progress, ReadError> {
        for place in 0..self.0 {
            let key = [place as u8];
            let (key, origin) = (Some(&key[..]), Origin::new(0, place));
            match place % 3 {
                0 => {
                    let headers = &mut HEADERS.iter().copied();
                    emit.record_with_headers(0, key, None, headers, 1, origin);
                }
                1 => {
                    let none = &mut std::iter::empty();
                    emit.record_with_headers(0, key, None, none, 2, origin);
                }
                _ => emit.record(0, key, None, 3, origin),
            }
        }
        Ok(Progress::Ended)
    }

    fn splits(&self) -> Vec<SplitState> {
        Vec::new()
    }
}

#[test]
fn headers_go_to_every_place_that_their_record_goes_to() {
    let counters = Arc::new(Counters::default());
    let exchange = |kind, targets| {
        let inboxes: Vec<_> = (0..targets).map(|_| inbox(1)).collect();
        let (inboxes, senders): (Vec<_>, Vec<_>) = inboxes.into_iter().unzip();
        let senders = senders.into_iter().flatten().collect();
        (Outlet::Exchange(Exchange::new(kind, 128, senders)), inboxes)
    };
    let (forward, mut inboxes) = exchange(Kind::Forward, 1);
    let (by_key, others) = exchange(Kind::ByKey, 2);
    let outlets = SourceOutlets {
        records: vec![forward, by_key],
        dead_letters: Vec::new(),
        chain: chain(Vec::new(), &counters),
    };
    let (mut task, _control) = task_reading(Box::new(Headed(30)), None, outlets, counters);
    assert!(matches!(task.step(), Ok(Step::Ended(_))));
    inboxes.extend(others);
    let mut rows = Vec::new();
    for inbox in &mut inboxes {
        let before = rows.len();
        for element in received(inbox) {
            let Element::Batch(batch) = element else {
                continue;
            };
            for row in 0..batch.len() {
                let headers: Vec<Header<'_>> = batch.headers_of(row).collect();
                let (_, place) = batch.origins[row].split_and_place().expect("it has one");
                let expected = if place % 3 == 0 { HEADERS } else { &[] };
                assert_eq!(headers, expected, "record {place}");
                assert_eq!(batch.times[row], 1 + (place % 3) as i64);
                rows.push(place);
            }
        }
        assert!(rows.len() > before, "every inbox got some");
    }
    rows.sort();
    let twice = (0..30).flat_map(|place| [place, place]);
    assert_eq!(rows, twice.collect::<Vec<_>>());
}
