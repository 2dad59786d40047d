use super::offsets::{Range, judge};
use super::*;
use crate::job::model::KafkaGap;

const RANGE: Range = Range {
    oldest: 100,
    end: 200,
};

fn by(next: i64, on_gap: KafkaGap) -> Result<Option<i64>, String> {
    match judge("source `s`: t-3", next, RANGE, on_gap) {
        Ok(None) => Ok(None),
        Ok(Some((to, warning))) => {
            assert!(warning.contains(&next.to_string()), "{warning}");
            Ok(Some(to))
        }
        Err(error) => {
            assert_eq!(error.code(), "W0603");
            Err(error.to_string())
        }
    }
}

#[test]
fn what_is_left_is_read_and_the_end_is_left_too() {
    for next in [100, 150, 200] {
        for on_gap in [KafkaGap::Fail, KafkaGap::Earliest, KafkaGap::Latest] {
            assert_eq!(by(next, on_gap), Ok(None));
        }
    }
}

#[test]
fn a_gap_is_judged_by_the_policy_and_beyond_the_end_by_none() {
    assert_eq!(by(99, KafkaGap::Earliest), Ok(Some(100)));
    assert_eq!(by(99, KafkaGap::Latest), Ok(Some(200)));
    let message = by(60, KafkaGap::Fail).unwrap_err();
    for part in ["t-3", "offset 60", "left is 100", "up to 40 records"] {
        assert!(message.contains(part), "{message}");
    }
    for on_gap in [KafkaGap::Fail, KafkaGap::Earliest, KafkaGap::Latest] {
        let message = by(201, on_gap).unwrap_err();
        assert!(
            message.contains("offset 201") && message.contains("offset 200"),
            "{message}"
        );
    }
}

#[test]
fn partitions_that_appear_have_one_owner_and_are_spread_evenly() {
    for of in 1..9 {
        let mut counts = vec![0; of as usize];
        for partition in 0..of as i32 * 3 {
            counts[owner("orders", partition, of) as usize] += 1;
        }
        assert_eq!(counts, vec![3; of as usize]);
    }
}

#[test]
fn a_position_is_begun_by_its_first_record_and_read_as_written() {
    let id: TopicId = "AAAAAAAAAAAAAAAAAAAAAA".parse().expect("any text is an id");
    let mut position = Position::begin("orders", &id, 3, 500);
    position.stop = Some(501);
    let mut split = SplitState {
        split: 0,
        name: position.name(),
        done: false,
        max_time: 0,
        position: position.to_json(),
    };
    assert_eq!(split.name, "orders-3");
    assert!(!split.is_begun() && !position.is_at_stop());
    (position.at, position.next) = (1, 501);
    split.position = position.to_json();
    assert!(split.is_begun() && position.is_at_stop());
    let source = NodeId::new("in").expect("a name");
    assert_eq!(Position::of(&source, &split).expect("it is one"), position);
    split.position = serde_json::json!({"at": 1, "line": 2});
    assert!(Position::of(&source, &split).is_err());
}
