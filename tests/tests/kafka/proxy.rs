//! The proxy that loses what tests tell it to: clients work through it, and what is lost is lost as on a real network.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer};
use weir_tests::kafka::{Api, Broker, Isolation, Proxy, Record, Rule, Topics};

const LONG: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_secs(2);

/// A topic, a proxy, and a transactional producer that comes by it.
struct Scene {
    topics: Topics<'static>,
    proxy: Proxy<'static>,
    id: String,
}

impl Scene {
    /// `None` if there are no proxied listeners; then it has been said.
    fn new(test: &str) -> Option<Scene> {
        let broker = Broker::shared();
        if broker.is_foreign("a proxied listener") {
            return None;
        }
        let topics = Topics::named(broker, test);
        topics.create("out", 1);
        let id = topics.name("id");
        Some(Scene {
            topics,
            proxy: Proxy::before(broker),
            id,
        })
    }

    fn producer(&self) -> BaseProducer {
        let producer: BaseProducer = self
            .proxy
            .client()
            .set("transactional.id", &self.id)
            .create()
            .expect("these are properties of producers");
        let ready = producer.init_transactions(LONG);
        ready.expect("a coordinator answers");
        producer
    }

    /// Begins a transaction with one record, which is written when this returns.
    fn begin(&self, producer: &BaseProducer, value: &str) {
        let record = Record::to(0).value(value);
        producer
            .begin_transaction()
            .and_then(|()| record.send(producer, &self.topics.name("out")))
            .and_then(|()| producer.flush(LONG))
            .expect("nothing is lost here");
    }

    fn seen(&self) -> Vec<String> {
        let records = self.topics.read("out", Isolation::Committed);
        records.iter().map(Record::text).collect()
    }

    fn seen_soon(&self, count: usize) -> Vec<String> {
        let records = self
            .topics
            .read_at_least("out", Isolation::Committed, count, LONG);
        records.iter().map(Record::text).collect()
    }
}

fn timed_out(result: Result<(), KafkaError>) -> bool {
    let code = result.err().and_then(|error| error.rdkafka_error_code());
    code == Some(RDKafkaErrorCode::OperationTimedOut)
}

#[test]
fn a_producer_works_through_it_and_its_requests_are_counted() {
    let Some(scene) = Scene::new("proxy-counts") else {
        return;
    };
    let producer = scene.producer();
    for value in ["one", "two"] {
        scene.begin(&producer, value);
        producer.commit_transaction(LONG).unwrap();
    }
    assert_eq!(scene.seen(), ["one", "two"]);
    let count = |api| scene.proxy.requests(api);
    assert_eq!((count(Api::INIT_PRODUCER_ID), count(Api::END_TXN)), (1, 2));
    assert!(count(Api::PRODUCE) >= 2);
    assert_eq!(count(Api::FETCH), 0, "readers come another way");
}

#[test]
fn a_commit_whose_answer_is_lost_times_out_and_has_happened() {
    let Some(scene) = Scene::new("proxy-answer-lost") else {
        return;
    };
    let producer = scene.producer();
    scene.begin(&producer, "first");
    let rule = scene.proxy.when(Api::END_TXN).of(&scene.id).drop_response();
    assert!(timed_out(producer.commit_transaction(BRIEF)));
    assert_eq!(rule.count(), 1);
    assert_eq!(scene.seen_soon(1), ["first"]);
}

#[test]
fn a_commit_that_does_not_arrive_times_out_and_has_not_happened() {
    let Some(scene) = Scene::new("proxy-request-lost") else {
        return;
    };
    let producer = scene.producer();
    scene.begin(&producer, "first");
    let other = scene.proxy.when(Api::END_TXN).of("another").drop_request();
    let rule = scene.proxy.when(Api::END_TXN).drop_request();
    assert!(timed_out(producer.commit_transaction(BRIEF)));
    assert_eq!((other.count(), rule.count()), (0, 1));
    assert!(scene.seen().is_empty());
}

#[test]
fn a_held_commit_arrives_after_its_client_has_gone() {
    let Some(scene) = Scene::new("proxy-held") else {
        return;
    };
    let producer = scene.producer();
    scene.begin(&producer, "first");
    let held: Rule = scene.proxy.when(Api::END_TXN).hold_request();
    assert!(timed_out(producer.commit_transaction(BRIEF)));
    assert!(held.wait(1, LONG));
    drop(producer);
    assert!(scene.seen().is_empty());
    held.lift();
    assert_eq!(scene.seen_soon(1), ["first"]);
}

#[test]
fn a_held_commit_arrives_after_all_connections_were_cut() {
    let Some(scene) = Scene::new("proxy-held-and-cut") else {
        return;
    };
    let producer = scene.producer();
    scene.begin(&producer, "first");
    let held = scene.proxy.when(Api::END_TXN).hold_request();
    std::thread::scope(|scope| {
        // The client finds its connection cut, and asks again on another.
        let commit = scope.spawn(|| producer.commit_transaction(LONG));
        assert!(held.wait(1, LONG));
        scene.proxy.cut();
        commit.join().unwrap().unwrap();
    });
    assert_eq!(scene.seen(), ["first"]);
    scene.begin(&producer, "second");
    // The first transaction's commit ends the second, where producers do not get a new epoch with each transaction.
    held.lift();
    assert_eq!(scene.seen_soon(2), ["first", "second"]);
}

#[test]
fn coordinators_alone_are_cut_off_and_come_back() {
    let Some(scene) = Scene::new("proxy-coordinators") else {
        return;
    };
    let producer = scene.producer();
    scene.begin(&producer, "first");
    let cut_off = scene.proxy.when_any(&Api::OF_COORDINATORS).always().cut();
    scene.proxy.cut_coordinators();
    // Partitions that are in the transaction already take more.
    let second = Record::to(0).value("second");
    second.send(&producer, &scene.topics.name("out")).unwrap();
    producer.flush(LONG).unwrap();
    assert!(timed_out(producer.commit_transaction(BRIEF)));
    assert!(cut_off.count() >= 1);
    cut_off.lift();
    producer.commit_transaction(LONG).unwrap();
    assert_eq!(scene.seen(), ["first", "second"]);
}

#[test]
fn a_client_that_is_refused_comes_in_later() {
    let Some(scene) = Scene::new("proxy-refuses") else {
        return;
    };
    let producer = scene.producer();
    scene.begin(&producer, "first");
    scene.proxy.refuse(true);
    scene.proxy.cut();
    assert!(timed_out(producer.commit_transaction(BRIEF)));
    assert!(scene.seen().is_empty());
    scene.proxy.refuse(false);
    producer.commit_transaction(LONG).unwrap();
    assert_eq!(scene.seen(), ["first"]);
}

#[test]
fn an_answer_that_is_held_comes_when_it_is_let_go() {
    let Some(scene) = Scene::new("proxy-answer-held") else {
        return;
    };
    let producer = scene.producer();
    scene.begin(&producer, "first");
    let held = scene.proxy.when(Api::END_TXN).hold_response();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| producer.commit_transaction(LONG));
        assert!(held.wait(1, LONG));
        assert_eq!(scene.seen_soon(1), ["first"]);
        assert!(!commit.is_finished());
        held.lift();
        commit.join().unwrap().unwrap();
    });
}
