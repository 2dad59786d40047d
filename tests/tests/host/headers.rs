//! Headers on their way from a source through two operators to where a sink would be, byte for byte.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use weir::batch::{NO_TIME, Origin};
use weir::channel::{Element, Inbox, Received, inbox};
use weir::clock::{self, ProcessingClock};
use weir::decode::dead_letter::Form;
use weir::exchange::Exchange;
use weir::headers::Header;
use weir::job::model::{ErrorPolicy, Exchange as Kind, NullKey};
use weir::memory::StateBudget;
use weir::metrics::{Counters, Share};
use weir::source::{Emit, Error, Progress, Reader, SplitState};
use weir::task::chain::{Chain, ChainNode, Outlet};
use weir::task::environment::OperatorEnvironment;
use weir::task::node::OperatorNode;
use weir::task::source::{SourceControl, SourceOutlets, SourceSettings, SourceTask};
use weir::task::{Step, Task};
use weir_operator::{Component, Engine, Limits};
use weir_state::{Memory, Schema};
use weir_tests::guest;

/// Records, so that there are several batches.
const RECORDS: u64 = 2_500;

type Owned = (Vec<u8>, Option<Vec<u8>>);

/// What record `place` has: names that repeat, no contents, empty ones and ones that are no text; every third has nothing.
fn headers_of(place: u64) -> Vec<Owned> {
    let header = |name: &[u8], contents: Option<&[u8]>| (name.to_vec(), contents.map(Into::into));
    match place % 3 {
        0 => Vec::new(),
        1 => vec![header(b"", Some(&place.to_le_bytes()))],
        _ => vec![
            header(b"n", Some(b"\0\xff\n")),
            header(b"n", None),
            header(b"n", Some(b"")),
            header(b"\xfe", Some(&vec![b'x'; place as usize % 100])),
        ],
    }
}

struct Headed {
    next: u64,
}

impl Reader for Headed {
    fn read(&mut self, emit: &mut dyn Emit) -> Result<Progress, Error> {
        while !emit.full() && self.next < RECORDS {
            let headers = headers_of(self.next);
            let mut headers = headers
                .iter()
                .map(|(name, contents)| (name.as_slice(), contents.as_deref()));
            let origin = Origin::new(0, self.next);
            emit.record_with_headers(0, None, Some(b"v"), &mut headers, NO_TIME, origin);
            self.next += 1;
        }
        Ok(if self.next == RECORDS {
            Progress::Ended
        } else {
            Progress::More
        })
    }

    fn splits(&self) -> Vec<SplitState> {
        Vec::new()
    }
}

fn operator(component: &Component, config: &str, outlet: Outlet) -> ChainNode {
    let config = format!("\"{config}\"");
    let limits = Limits::default();
    let described = component.describe(Some(&config), &limits);
    let description = described.expect("it describes itself");
    let schema = Schema {
        states: Vec::new(),
        timers: Vec::new(),
    };
    let range = weir_state::hash::group_range(0, 1, 128);
    let state = Box::new(Memory::new(schema, range, 128));
    let environment = OperatorEnvironment::new(state, vec![false], config.clone(), 0);
    let instance = component.instantiate(&config, &description, limits.clone(), environment);
    let mut instance = instance.expect("it can be instantiated");
    instance.open(&config).expect("it opens");
    ChainNode::Operator(Box::new(OperatorNode {
        id: config,
        subtask: 0,
        parallelism: 1,
        component: component.sha256().to_owned(),
        instance: Some(instance),
        call_time: limits.call_time,
        memory_mark: limits.memory_bytes,
        keyed: vec![false],
        timers: Vec::new(),
        null_key: NullKey::Fail,
        on_error: ErrorPolicy::Fail,
        dead_letters: 1,
        letter_form: Form::Object,
        faults_logged: 0,
        stateful: false,
        watermark: NO_TIME,
        finished: false,
        counts_late: false,
        account: Arc::new(StateBudget::new(None)).account(),
        clock: Arc::new(ProcessingClock::new()),
        counters: Arc::default(),
        stages: Arc::default(),
        outlets: vec![vec![outlet], Vec::new()],
    }))
}

/// The task of a source and two operators behind it, and what a sink would read from.
fn task(first: &str, second: &str) -> (SourceTask, Inbox) {
    let file = guest("weir_guest_headers").expect("guests are built");
    let bytes = fs::read(file).expect("it is there");
    let engine = Engine::new().expect("there is an engine");
    let component = engine.load(&bytes, "headers.wasm").expect("it loads");
    let (inbox, senders) = inbox(1);
    let nodes = vec![
        operator(&component, first, Outlet::Chained(1, 0)),
        operator(
            &component,
            second,
            Outlet::Exchange(Exchange::new(Kind::Forward, 128, senders)),
        ),
    ];
    let counters = nodes.iter().map(|_| Arc::<Counters>::default()).collect();
    let outlets = SourceOutlets {
        records: vec![Outlet::Chained(0, 0)],
        dead_letters: Vec::new(),
        chain: Chain::new(nodes, counters, Arc::default(), Arc::default()),
    };
    let settings = SourceSettings {
        id: "headed".into(),
        out_of_order: 0,
        has_event_time: false,
        letter_form: Form::Object,
        idle_after: Duration::MAX,
        rate: None,
        next_n: 1,
        origins: Arc::default(),
    };
    let task = SourceTask::new(
        settings,
        Box::new(Headed { next: 0 }),
        outlets,
        Arc::new(SourceControl::default()),
        Arc::default(),
        Arc::new(Share::default()),
    );
    (task, inbox)
}

/// The headers that come out, by record in order.
fn through(first: &str, second: &str) -> Vec<Vec<Owned>> {
    let (mut task, mut inbox) = task(first, second);
    let mut out = Vec::new();
    loop {
        let step = task.step().expect("nothing fails");
        while let Received::Element(_, element) =
            inbox.receive(Some(clock::now()), &|_, _| false, &mut || Ok(()))
        {
            let Element::Batch(batch) = element else {
                continue;
            };
            for row in 0..batch.len() {
                let place = batch.origins[row].split_and_place();
                assert_eq!(place, Some((0, out.len() as u64)), "in order");
                let owned =
                    |(name, contents): Header<'_>| (name.to_vec(), contents.map(<[u8]>::to_vec));
                out.push(batch.headers_of(row).map(owned).collect());
            }
        }
        if matches!(step, Step::Ended(_)) {
            return out;
        }
    }
}

fn expected(of: impl Fn(Vec<Owned>) -> Vec<Owned>) -> Vec<Vec<Owned>> {
    (0..RECORDS).map(|place| of(headers_of(place))).collect()
}

fn changed(mut headers: Vec<Owned>) -> Vec<Owned> {
    headers.reverse();
    headers.push((b"seen".to_vec(), None));
    headers
}

#[test]
fn headers_pass_operators_that_do_not_look_at_them() {
    assert_eq!(through("keep", "keep"), expected(|headers| headers));
}

#[test]
fn an_operator_reads_headers_and_gives_rows_others() {
    assert_eq!(through("change", "keep"), expected(changed));
    assert_eq!(
        through("change", "change"),
        expected(|headers| changed(changed(headers)))
    );
}

#[test]
fn headers_that_are_taken_away_do_not_come_back() {
    assert_eq!(through("drop", "keep"), expected(|_| Vec::new()));
    assert_eq!(
        through("drop", "change"),
        expected(|_| vec![(b"seen".to_vec(), None)])
    );
}
