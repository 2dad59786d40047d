use super::{Join, MINUTE};
use weir_sdk::test::{Harness, NewRecord, Scenario, record};

/// An order at a minute.
fn order(number: &str, minute: i64) -> NewRecord {
    record(format!(
        r#"{{"customer":"ada","amount":5,"placed":"{minute}"}}"#
    ))
    .input("orders")
    .key(number)
    .time(minute * MINUTE)
}

/// A payment at a minute.
fn payment(number: &str, minute: i64) -> NewRecord {
    record(format!(r#"{{"method":"card","paid":"{minute}"}}"#))
        .input("payments")
        .key(number)
        .time(minute * MINUTE)
}

fn paid(number: &str, minutes: i64) -> String {
    format!(
        r#"{{"order":"{number}","customer":"ada","amount":5,"method":"card","minutes":{minutes}}}"#
    )
}

fn unmatched(number: &str, missing: &str, at: i64) -> String {
    format!(r#"{{"order":"{number}","missing":"{missing}","at":"{at}"}}"#)
}

#[test]
fn either_side_may_come_first_and_nothing_is_left() -> weir_sdk::Result {
    for records in [
        [order("A", 0), payment("A", 7)],
        [payment("A", 7), order("A", 0)],
    ] {
        let harness = Scenario::new("{}").records(records).check::<Join>()?;
        assert_eq!(harness.texts("paid"), [paid("A", 7)]);
        assert!(harness.timers().is_empty(), "none waits any more");
    }
    Ok(())
}

#[test]
fn an_hour_is_long_enough_and_a_millisecond_more_is_not() -> weir_sdk::Result {
    let harness = Scenario::new("{}")
        .records([order("A", 0), order("B", 0)])
        .records([
            payment("A", 60),
            payment("B", 60).time(60 * MINUTE + 1),
            payment("C", 5),
        ])
        .finish()
        .check::<Join>()?;
    assert_eq!(harness.texts("paid"), [paid("A", 60)]);
    let mut left = harness.texts("unmatched");
    left.sort();
    assert_eq!(
        left,
        [
            unmatched("B", "order", 60),
            unmatched("B", "payment", 0),
            unmatched("C", "order", 5)
        ]
    );
    Ok(())
}

#[test]
fn nobody_gives_up_before_event_time_says_so() -> weir_sdk::Result {
    let mut harness = Harness::<Join>::open("{}")?;
    harness.process([order("A", 0), payment("B", 10)])?;
    harness.advance_watermark(10 * MINUTE - 1)?;
    assert!(harness.emitted("unmatched").is_empty());
    harness.advance_watermark(10 * MINUTE)?;
    assert_eq!(harness.texts("unmatched"), [unmatched("B", "order", 10)]);
    harness.advance_watermark(60 * MINUTE - 1)?;
    harness.process([payment("A", 60)])?;
    harness.finish()?;
    assert_eq!(harness.texts("paid"), [paid("A", 60)]);
    assert_eq!(harness.emitted("unmatched").len(), 1);
    Ok(())
}

#[test]
fn an_order_is_paid_once_by_the_payment_that_came_first() -> weir_sdk::Result {
    for records in [
        vec![
            order("A", 0),
            payment("A", 9),
            payment("A", 9),
            payment("A", 8),
        ],
        vec![
            payment("A", 9),
            payment("A", 9),
            payment("A", 8),
            order("A", 0),
        ],
    ] {
        let harness = Scenario::new("{}")
            .records(records)
            .finish()
            .check::<Join>()?;
        assert_eq!(harness.texts("paid"), [paid("A", 9)]);
        assert_eq!(
            harness.texts("unmatched"),
            [unmatched("A", "order", 8), unmatched("A", "order", 9)]
        );
    }
    Ok(())
}

#[test]
fn what_cannot_be_is_named() -> weir_sdk::Result {
    let mut harness = Harness::<Join>::open(r#"{"within_minutes": 5}"#)?;
    harness.process([order("A", 0), order("A", 1)])?;
    let (_, fault) = &harness.rejected()[0];
    assert_eq!(fault.message(), "order A was placed already, at 0");
    let refused = Harness::<Join>::open(r#"{"within": 5}"#).unwrap_err();
    assert!(refused.message().contains("unknown field `within`"));
    Ok(())
}
