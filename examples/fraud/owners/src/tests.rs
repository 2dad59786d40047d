use super::{Account, Alert, MINUTE, Owners};
use weir_sdk::Json;
use weir_sdk::test::{Harness, NewRecord, Scenario, null_record, record};

/// An alert at a minute.
fn alert(account: &str, minute: i64) -> NewRecord {
    record(format!(
        r#"{{"card":"C","declined":3,"amount":6,"from":"{minute}","to":"{minute}","payments":["P"]}}"#
    ))
    .input("alerts")
    .key(account)
    .time(minute * MINUTE)
}

/// An account that was changed at a minute.
fn account(account: &str, owner: &str, minute: i64) -> NewRecord {
    record(format!(
        r#"{{"owner":"{owner}","email":"{owner}@example.com","changed":"{minute}"}}"#
    ))
    .input("accounts")
    .key(account)
    .time(minute * MINUTE)
}

fn said(account: &str, owner: Option<&str>, minute: i64) -> String {
    let owner = match owner {
        Some(owner) => format!(r#""{owner}","email":"{owner}@example.com""#),
        None => r#"null,"email":null"#.to_owned(),
    };
    format!(
        r#"{{"account":"{account}","owner":{owner},"card":"C","declined":3,"amount":6,"from":"{minute}","to":"{minute}","payments":["P"]}}"#
    )
}

fn waits(harness: &Harness<Owners>, account: &str) -> bool {
    let waiting = harness.value::<Json<Vec<Alert>>>("waiting", account);
    waiting.is_some() || !harness.timers().is_empty()
}

#[test]
fn either_side_may_come_first() -> weir_sdk::Result {
    for records in [
        vec![account("A", "ada", 0), alert("A", 7), alert("A", 7)],
        vec![alert("A", 7), alert("A", 7), account("A", "ada", 0)],
        vec![alert("A", 7), account("A", "ada", 8), alert("A", 7)],
    ] {
        let harness = Scenario::new("{}").records(records).check::<Owners>()?;
        let expected = said("A", Some("ada"), 7);
        assert_eq!(harness.texts("alerts"), [expected.clone(), expected]);
        assert!(!waits(&harness, "A"), "nothing waits any more");
    }
    Ok(())
}

#[test]
fn the_newest_record_of_an_account_counts() -> weir_sdk::Result {
    let harness = Scenario::new("{}")
        .records([
            account("A", "ada", 0),
            account("A", "bob", 1),
            account("B", "cyd", 1),
            alert("A", 2),
        ])
        .check::<Owners>()?;
    assert_eq!(harness.texts("alerts"), [said("A", Some("bob"), 2)]);
    Ok(())
}

#[test]
fn an_alert_goes_out_without_its_account_in_the_end() -> weir_sdk::Result {
    let mut harness = Harness::<Owners>::open("{}")?;
    harness.process([alert("A", 1), alert("A", 2), alert("B", 1)])?;
    harness.advance_watermark(11 * MINUTE - 1)?;
    assert!(harness.emitted("alerts").is_empty());
    harness.process([account("B", "bob", 11)])?;
    assert_eq!(harness.texts("alerts"), [said("B", Some("bob"), 1)]);
    harness.advance_watermark(11 * MINUTE)?;
    assert_eq!(harness.texts("alerts")[1..], [said("A", None, 1)]);
    // Too late for the first one, not for the second.
    harness.process([account("A", "ada", 11)])?;
    assert_eq!(harness.texts("alerts")[2..], [said("A", Some("ada"), 2)]);
    harness.finish()?;
    assert_eq!(harness.emitted("alerts").len(), 3);
    assert!(!waits(&harness, "A"));
    Ok(())
}

#[test]
fn an_account_without_a_value_is_removed() -> weir_sdk::Result {
    let mut harness = Harness::<Owners>::open(r#"{"wait_minutes": 0}"#)?;
    harness.process([
        account("A", "ada", 0),
        null_record().input("accounts").key("A").time(MINUTE),
        alert("A", 2),
    ])?;
    assert!(harness.value::<Json<Account>>("account", "A").is_none());
    harness.finish()?;
    assert_eq!(harness.texts("alerts"), [said("A", None, 2)]);
    Ok(())
}

#[test]
fn what_cannot_be_is_named() -> weir_sdk::Result {
    let refused = Harness::<Owners>::open(r#"{"wait": 5}"#).unwrap_err();
    assert!(refused.message().contains("unknown field `wait`"));
    let mut harness = Harness::<Owners>::open("{}")?;
    harness.process([record(r#"{"owner":"ada"}"#).input("accounts").key("A")])?;
    let (_, fault) = &harness.rejected()[0];
    assert!(fault.message().contains("email"), "{fault:?}");
    Ok(())
}
