use super::{Decline, Declines, SECOND};
use weir_sdk::Json;
use weir_sdk::test::{Harness, NewRecord, Scenario, record};

fn payment(card: &str, second: i64, outcome: &str) -> NewRecord {
    record(format!(
        r#"{{"id":"{card}-{second}","account":"A","amount":{second},"outcome":"{outcome}","at":"{second}"}}"#
    ))
    .key(card)
    .time(second * SECOND)
}

fn declined(card: &str, second: i64) -> NewRecord {
    payment(card, second, "declined")
}

fn remembers(harness: &Harness<Declines>, card: &str) -> bool {
    harness
        .value::<Json<Vec<Decline>>>("recent", card)
        .is_some()
}

/// The alert that declined payments at these seconds make.
fn alert(card: &str, seconds: [i64; 3]) -> String {
    let [from, between, to] = seconds;
    let amount = from + between + to;
    format!(
        r#"{{"card":"{card}","declined":3,"amount":{amount},"from":"{from}","to":"{to}","payments":["{card}-{from}","{card}-{between}","{card}-{to}"]}}"#
    )
}

#[test]
fn three_in_a_minute_are_an_alert_in_whatever_order_they_come() -> weir_sdk::Result {
    let seconds = [10, 30, 70];
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let harness = Scenario::new("{}")
            .records(order.map(|at| declined("C", seconds[at])))
            .watermark(70 * SECOND)
            .check::<Declines>()?;
        assert_eq!(harness.texts("alerts"), [alert("C", seconds)]);
        let key = harness.emitted("alerts")[0].key.clone();
        assert_eq!(key.as_deref(), Some(&b"A"[..]), "for the account");
    }
    Ok(())
}

#[test]
fn a_millisecond_more_than_a_minute_is_too_much() -> weir_sdk::Result {
    let harness = Scenario::new("{}")
        .records([
            declined("C", 10),
            declined("C", 20),
            declined("C", 70).time(70 * SECOND + 1),
        ])
        .finish()
        .check::<Declines>()?;
    assert!(harness.emitted("alerts").is_empty());
    Ok(())
}

#[test]
fn cards_and_approved_payments_are_kept_apart() -> weir_sdk::Result {
    let harness = Scenario::new("{}")
        .records([
            declined("C", 10),
            declined("D", 11),
            payment("C", 12, "approved"),
            declined("C", 13),
            declined("D", 14),
        ])
        .finish()
        .check::<Declines>()?;
    assert!(harness.emitted("alerts").is_empty());
    Ok(())
}

#[test]
fn each_decline_counts_for_one_alert() -> weir_sdk::Result {
    let harness = Scenario::new("{}")
        .records((1..=7).map(|second| declined("C", second)))
        .finish()
        .check::<Declines>()?;
    assert_eq!(
        harness.texts("alerts"),
        [alert("C", [1, 2, 3]), alert("C", [4, 5, 6])]
    );
    Ok(())
}

#[test]
fn nothing_is_said_before_what_is_older_must_have_come() -> weir_sdk::Result {
    let mut harness = Harness::<Declines>::open("{}")?;
    harness.process([declined("C", 20), declined("C", 30), declined("C", 40)])?;
    harness.advance_watermark(40 * SECOND - 1)?;
    assert!(harness.emitted("alerts").is_empty());
    harness.advance_watermark(40 * SECOND)?;
    assert_eq!(harness.texts("alerts"), [alert("C", [20, 30, 40])]);
    Ok(())
}

#[test]
fn a_card_is_forgotten_when_its_minute_is_over() -> weir_sdk::Result {
    let mut harness = Harness::<Declines>::open("{}")?;
    harness.process([declined("C", 20), declined("C", 30)])?;
    harness.advance_watermark(90 * SECOND)?;
    assert!(remembers(&harness, "C"), "the second one counts still");
    harness.advance_watermark(90 * SECOND + 1)?;
    assert!(!remembers(&harness, "C"));
    assert!(harness.timers().is_empty());
    Ok(())
}

#[test]
fn what_is_late_is_apart_and_changes_nothing() -> weir_sdk::Result {
    let mut harness = Harness::<Declines>::open("{}")?;
    harness.process([declined("C", 20), declined("C", 30)])?;
    harness.advance_watermark(25 * SECOND)?;
    harness.process([declined("C", 25)])?;
    harness.finish()?;
    assert!(harness.emitted("alerts").is_empty());
    assert_eq!(harness.emitted("late").len(), 1);
    Ok(())
}

#[test]
fn what_cannot_be_is_named() -> weir_sdk::Result {
    let refused = Harness::<Declines>::open(r#"{"declines": 0}"#).unwrap_err();
    assert!(refused.message().contains("declines is 0"));
    let refused = Harness::<Declines>::open(r#"{"within": 5}"#).unwrap_err();
    assert!(refused.message().contains("unknown field `within`"));
    let mut harness = Harness::<Declines>::open("{}")?;
    harness.process([payment("C", 1, "reversed")])?;
    let (_, fault) = &harness.rejected()[0];
    assert!(fault.message().contains("reversed"), "{fault:?}");
    Ok(())
}
