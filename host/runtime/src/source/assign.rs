//! Deals splits to the subtasks of a source.

use super::SplitState;

/// Deals `splits` to `parallelism` subtasks (at least 1): the same way each time, whatever order they come in.
///
/// Half-read splits are dealt first, so that they are spread over the subtasks; then the unread ones in order. The numbers of
/// unfinished splits of two subtasks differ by one at most. Finished ones stay with subtask 0, to be part of the next checkpoint.
/// In which order a subtask reads what it was dealt is the connector's business.
pub(super) fn assign(mut splits: Vec<SplitState>, parallelism: usize) -> Vec<Vec<SplitState>> {
    assert!(parallelism > 0, "a source has at least one subtask");
    splits.sort_by_key(|split| (split.done, !split.is_begun(), split.split));
    let mut dealt = vec![Vec::new(); parallelism];
    for (i, split) in splits.into_iter().enumerate() {
        let subtask = if split.done { 0 } else { i % parallelism };
        dealt[subtask].push(split);
    }
    dealt
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(split: u32, at: u64, done: bool) -> SplitState {
        SplitState {
            split,
            name: format!("file {split}"),
            done,
            max_time: 0,
            position: serde_json::json!({ "at": at }),
        }
    }

    fn numbers(dealt: &[Vec<SplitState>]) -> Vec<Vec<u32>> {
        dealt
            .iter()
            .map(|splits| splits.iter().map(|split| split.split).collect())
            .collect()
    }

    #[test]
    fn half_read_first_then_in_order_and_done_with_the_first() {
        let splits = vec![
            split(0, 9, true),
            split(1, 5, false),
            split(2, 9, true),
            split(3, 0, false),
            split(4, 7, false),
            split(5, 0, false),
            split(6, 0, false),
        ];
        assert_eq!(
            numbers(&assign(splits.clone(), 2)),
            [vec![1, 3, 6, 0, 2], vec![4, 5]]
        );
        assert_eq!(numbers(&assign(splits, 1)), [[1, 4, 3, 5, 6, 0, 2]]);
        assert_eq!(
            numbers(&assign(vec![split(0, 0, false)], 3)),
            [vec![0], vec![], vec![]]
        );
    }

    proptest! {
        #[test]
        fn each_split_once_and_balanced(shape in prop::collection::vec((0..3_u64, any::<bool>()), 0..40), parallelism in 1..9_usize, seed in any::<u64>()) {
            let splits: Vec<_> = shape.iter().enumerate().map(|(i, &(at, done))| split(i as u32, at, done)).collect();
            let dealt = assign(splits.clone(), parallelism);
            let mut all: Vec<_> = dealt.concat();
            all.sort_by_key(|split| split.split);
            prop_assert_eq!(&all, &splits);
            let counts = |wanted: fn(&SplitState) -> bool| -> Vec<usize> {
                dealt.iter().map(|splits| splits.iter().filter(|split| wanted(split)).count()).collect()
            };
            for counts in [counts(|split| !split.done), counts(|split| !split.done && split.is_begun())] {
                prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
            }
            // What was dealt is dealt again the same way from any order.
            let mut shuffled = splits;
            let len = shuffled.len().max(1);
            shuffled.rotate_left(seed as usize % len);
            prop_assert_eq!(assign(shuffled, parallelism), dealt);
        }
    }
}
