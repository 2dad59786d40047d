use super::{Group, MINUTE};
use weir_sdk::test::{Harness, NewRecord, Scenario, record};

/// A click of Ada's at a minute, which its text is too.
fn click(minute: i64) -> NewRecord {
    record(format!(r#"{{"at":"{minute}"}}"#))
        .key("ada")
        .time(minute * MINUTE)
}

fn said(from: i64, minutes: i64, clicks: usize) -> String {
    format!(r#"{{"user":"ada","from":"{from}","minutes":{minutes},"clicks":{clicks}}}"#)
}

#[test]
fn a_session_ends_when_nothing_has_come_for_the_gap() -> weir_sdk::Result {
    let mut harness = Harness::<Group>::open(r#"{"gap_minutes": 30}"#)?;
    harness.process([click(0), click(30)])?;
    harness.advance_watermark(60 * MINUTE - 1)?;
    assert!(harness.emitted("sessions").is_empty(), "one more may come");
    harness.advance_watermark(60 * MINUTE)?;
    assert_eq!(harness.texts("sessions"), [said(0, 30, 2)]);
    assert!(harness.timers().is_empty());
    Ok(())
}

#[test]
fn a_session_has_one_timer_however_many_clicks_it_gets() -> weir_sdk::Result {
    let mut harness = Harness::<Group>::open("{}")?;
    harness.process((0..100).map(click))?;
    let due = |harness: &Harness<Group>| -> Vec<i64> {
        let timers = harness.timers();
        timers.iter().map(|timer| timer.time / MINUTE).collect()
    };
    assert_eq!(due(&harness), [30], "set by the first click");
    harness.advance_watermark(50 * MINUTE)?;
    assert_eq!(due(&harness), [129], "it looked, and waits for the new end");
    harness.finish()?;
    assert_eq!(harness.texts("sessions"), [said(0, 99, 100)]);
    Ok(())
}

#[test]
fn a_click_between_two_sessions_makes_them_one() -> weir_sdk::Result {
    let scenario = Scenario::new("{}").records([click(0), click(60)]);
    assert_eq!(scenario.check::<Group>()?.timers().len(), 2);
    let scenario = scenario.records([click(30)]);
    assert_eq!(scenario.check::<Group>()?.timers().len(), 1);
    let harness = scenario.finish().check::<Group>()?;
    assert_eq!(harness.texts("sessions"), [said(0, 60, 3)]);
    Ok(())
}

#[test]
fn what_comes_behind_the_watermark_is_late_and_goes_its_own_way() -> weir_sdk::Result {
    let harness = Scenario::new("{}")
        .records([click(0)])
        .watermark(40 * MINUTE)
        .records([click(40), click(41)])
        .finish()
        .check::<Group>()?;
    assert_eq!(harness.texts("late"), [r#"{"at":"40"}"#]);
    assert_eq!(harness.texts("sessions"), [said(0, 0, 1), said(41, 0, 1)]);
    Ok(())
}

/// All clicks, sorted and cut where the gap is, without any of the operator's cleverness.
fn by_hand(mut minutes: Vec<i64>, gap: i64) -> Vec<String> {
    minutes.sort_unstable();
    let sessions = minutes.chunk_by(|a, b| b - a <= gap);
    sessions
        .map(|of| said(of[0], of[of.len() - 1] - of[0], of.len()))
        .collect()
}

#[test]
fn whatever_the_order_the_sessions_are_the_same() -> weir_sdk::Result {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let minutes: Vec<i64> = (0..1 + random(15)).map(|_| random(300) as i64).collect();
        // Event time advances half-way, as far as it may: up to the earliest click that is still to come.
        let (before, after) = minutes.split_at(random(minutes.len() as u64) as usize);
        let earliest = after.iter().min().expect("one click at least is left");
        let harness = Scenario::new(r#"{"gap_minutes": 20}"#)
            .records(before.iter().copied().map(click))
            .watermark(earliest * MINUTE - 1)
            .records(after.iter().copied().map(click))
            .finish()
            .check::<Group>()?;
        assert_eq!(harness.texts("sessions"), by_hand(minutes, 20));
        assert!(harness.emitted("late").is_empty());
        assert!(harness.timers().is_empty());
    }
    Ok(())
}

#[test]
fn what_cannot_be_is_refused_by_name() -> weir_sdk::Result {
    let refused = Harness::<Group>::open(r#"{"gap_minutes": 0}"#).unwrap_err();
    assert!(refused.message().starts_with("gap_minutes is 0"));
    let mut harness = Harness::<Group>::open("{}")?;
    harness.process([
        record(r#"{"at":"0"}"#).key("ada"),
        record("{}").key("ada").time(1),
    ])?;
    let faults: Vec<_> = harness
        .rejected()
        .iter()
        .map(|(_, fault)| fault.message())
        .collect();
    assert!(faults[0].contains("without a time"), "{faults:?}");
    assert!(faults[1].contains("missing field `at`"), "{faults:?}");
    Ok(())
}
