use rdkafka::ClientContext;
use rdkafka::error::RDKafkaErrorCode;

use super::heard::Cause;
use super::reports::HEAR_WAIT;
use super::*;

#[test]
fn queues_share_a_thirty_second_of_the_memory() {
    const MIB: u64 = 1 << 20;
    assert_eq!(queue_bytes(2048 * MIB, 2), 32 * MIB);
    assert_eq!(queue_bytes(2048 * MIB, 0), 64 * MIB);
    assert_eq!(queue_bytes(64 * MIB, 4), 2 * MIB, "never less");
    assert_eq!(queue_bytes(1 << 40, 1), 256 * MIB, "never more");
}

fn global(code: RDKafkaErrorCode) -> Result<(), KafkaError> {
    Err(KafkaError::Global(code))
}

#[test]
fn only_a_clean_commit_is_one() {
    let judged = |result: &Result<(), KafkaError>, clean| {
        let text = "after 0.1 s".to_owned();
        let asked = true;
        judge(result, &Circumstances { clean, asked, text })
    };
    assert_eq!(judged(&Ok(()), true), Ok(()));
    let doubtful = judged(&Ok(()), false);
    let Err(CommitError::Unclear(text)) = doubtful else {
        panic!("{doubtful:?}")
    };
    assert!(text.contains("says that it was, after 0.1 s"), "{text}");
    for (code, clean) in [
        (RDKafkaErrorCode::OperationTimedOut, false),
        (RDKafkaErrorCode::OperationTimedOut, true),
        (RDKafkaErrorCode::BrokerTransportFailure, true),
    ] {
        let outcome = judged(&global(code), clean);
        assert!(
            matches!(outcome, Err(CommitError::Unclear(_))),
            "{outcome:?}"
        );
    }
    for code in [
        RDKafkaErrorCode::Fenced,
        RDKafkaErrorCode::ProducerFenced,
        RDKafkaErrorCode::InvalidProducerEpoch,
    ] {
        let outcome = judged(&global(code), true);
        assert!(
            matches!(outcome, Err(CommitError::Fenced(_))),
            "{outcome:?}"
        );
    }
}

#[test]
fn what_fails_on_every_try_is_told_from_what_may_pass() {
    let undelivered = |code| Failure::Undelivered {
        topic: "t".to_owned(),
        partition: 0,
        reason: String::new(),
        code,
    };
    for code in [
        RDKafkaErrorCode::MessageSizeTooLarge,
        RDKafkaErrorCode::InvalidTimestamp,
        RDKafkaErrorCode::TopicAuthorizationFailed,
    ] {
        assert!(undelivered(code).is_permanent(), "{code}");
    }
    for code in [
        RDKafkaErrorCode::MessageTimedOut,
        RDKafkaErrorCode::NotEnoughReplicas,
        RDKafkaErrorCode::UnknownTopicOrPartition,
    ] {
        assert!(!undelivered(code).is_permanent(), "{code}");
    }
    assert!(undelivered(RDKafkaErrorCode::TopicAuthorizationFailed).is_unauthorized());
    assert!(!Failure::Fenced(String::new()).is_permanent());
}

#[test]
fn a_sender_gives_up_when_it_is_told_to_although_no_broker_is_there() {
    let connection = KafkaConnection {
        // Nobody listens there: the port of "discard" on the loopback.
        brokers: "127.0.0.1:9".to_owned(),
        ..KafkaConnection::default()
    };
    let settings = ProducerSettings {
        queue_bytes: 64 * 1024,
        delivery_timeout: Duration::from_secs(120),
        compression: KafkaCompression::None,
        smallest_topic_limit: 1 << 20,
        largest_topic_limit: 1 << 20,
    };
    let producer =
        Producer::plain(&connection, &settings, "test").expect("it does not connect yet");
    let cancel = Cancel::default();
    let mut sender = producer.sender(&cancel);
    let record = || Record {
        topic: "t",
        partition: Some(0),
        key: None,
        value: Some(&[0; 1024]),
        timestamp: None,
        headers: None,
    };
    sender.send(record()).expect("there is room");
    let patience = Duration::from_millis(50);
    let late = sender.settle(patience).expect_err("nobody acknowledges");
    assert!(
        matches!(late, Failure::Unacknowledged { waiting: 1, .. }),
        "{late}"
    );
    let canceller = cancel.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        canceller.cancel();
    });
    let ended = loop {
        if let Err(failure) = sender.send(record()) {
            break failure;
        }
    };
    assert!(matches!(ended, Failure::Closed), "{ended}");
    assert!(sender.waiting() > 32, "the queue was full, not broken");
    assert!(matches!(
        sender.settle(Duration::from_secs(60)),
        Err(Failure::Closed)
    ));
    thread.join().expect("no panic");
    // Ends although records are queued that nobody will ever take.
    let began = clock::now();
    drop(sender);
    drop(producer);
    assert!(clock::now() - began < Duration::from_secs(5));
}

/// As librdkafka 2.12 writes them; the tests with a broker find out if another one writes something else.
#[test]
fn answers_to_a_commit_are_heard_in_the_log() {
    let reports = Reports::new(Context::new("test"));
    let says = |facility: &str, message: &str| {
        reports.log(RDKafkaLogLevel::Debug, facility, message);
    };
    let state = "in state CommittingTransaction (may_retry=true)";
    says(
        "TXNAPI",
        "[thrd:app]: Transactional API called: commit_transaction",
    );
    says(
        "ENDTXN",
        &format!("[thrd:main]: EndTxn returned _TRANSPORT {state}"),
    );
    says(
        "ENDTXN",
        &format!("[thrd:main]: EndTxn returned NO_ERROR {state}"),
    );
    let heard = *reports.heard();
    assert_eq!((heard.answers, heard.bad, heard.ended), (2, 1, 0));
    says(
        "TXNAPI",
        "[thrd:app]: Transactional API commit_transaction return at rd_kafka_commit_transaction:2617: Success",
    );
    says(
        "TXNAPI",
        "[thrd:app]: Transactional API begin_transaction return at f:1: Success",
    );
    says("TXNSTATE", "[thrd:main]: Transaction state change");
    assert_eq!(reports.heard_after(0).ended, 1);
    let began = clock::now();
    assert_eq!(reports.heard_after(1).ended, 1, "nothing more is said");
    assert!(clock::now() - began >= HEAR_WAIT);
}

#[test]
fn why_a_transaction_failed_is_found_in_the_log() {
    let line = "[thrd:main]: Current transaction failed in state InTransaction: Failed to add partition(s) to transaction on broker \
        TxnCoordinator/1: Broker: Topic authorization failed (after 1 ms) (TOPIC_AUTHORIZATION_FAILED)";
    let cause = Cause::of("TXNERR", line).expect("it says why");
    assert!(
        cause.reason.starts_with("Failed to add partition(s)"),
        "{cause:?}"
    );
    assert_eq!(cause.code, Some(RDKafkaErrorCode::TopicAuthorizationFailed));
    let other = line.replace("TOPIC_AUTHORIZATION_FAILED", "_TIMED_OUT");
    assert_eq!(Cause::of("TXNERR", &other).expect("it says why").code, None);
    assert_eq!(Cause::of("ADDPARTS", line), None);
    assert_eq!(
        Cause::of("TXNERR", "[thrd:main]: Fatal transaction error: fenced"),
        None
    );
}
