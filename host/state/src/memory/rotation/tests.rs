//! Long runs of snapshots over groups that change in different ways.

use super::*;

const GROUPS: usize = 128;
const ROW: u64 = 50;
/// Rows of a group.
const ROWS: u64 = 1_000;
const STATE: u64 = GROUPS as u64 * ROWS * ROW;

struct Run {
    chains: Vec<Chain>,
    id: u64,
    /// Bytes of bases and of deltas, in all and at most in one snapshot.
    bases: u64,
    deltas: u64,
    most: u64,
    /// Files that the last snapshot needed, and the most that any did.
    needs: Vec<u64>,
    most_files: usize,
}

impl Run {
    /// Behind a first snapshot, which is full.
    fn new() -> Run {
        let section = Section {
            file: 1,
            bytes: ROWS * ROW,
            rows: ROWS,
        };
        Run {
            chains: vec![vec![section]; GROUPS],
            id: 1,
            bases: 0,
            deltas: 0,
            most: 0,
            needs: Vec::new(),
            most_files: 0,
        }
    }

    /// A snapshot of groups with so many changed rows.
    fn snapshot(&mut self, rows: impl Fn(usize) -> u64) -> Vec<Plan> {
        self.id += 1;
        let changes: Vec<_> = (0..GROUPS)
            .map(|group| match rows(group) {
                0 => Change::Nothing,
                rows => Change::Some { rows, removals: 0 },
            })
            .collect();
        let plan = plan(&self.chains, &changes);
        let (needs, origins) = needs(&self.chains, &plan);
        self.most_files = self.most_files.max(needs.len() + 1);
        let mut written = 0;
        for (group, plan) in plan.iter().enumerate() {
            let rows = match plan {
                Plan::Nothing => 0,
                Plan::Delta => rows(group),
                Plan::Base => ROWS,
            };
            let section = Section {
                file: self.id,
                bytes: rows * ROW,
                rows,
            };
            let origin = usize::from(origins[group]);
            match plan {
                Plan::Base => {
                    self.bases += section.bytes;
                    written += section.bytes;
                    assert_eq!(origin, needs.len());
                }
                Plan::Delta | Plan::Nothing => {
                    self.deltas += section.bytes;
                    assert_eq!(needs[origin], self.chains[group][0].file);
                    let chain = self.chains[group].iter();
                    assert!(chain.clone().all(|section| needs.contains(&section.file)));
                }
            }
            self.chains[group] = extend(&self.chains[group], *plan, section);
        }
        self.most = self.most.max(written);
        self.needs = needs;
        // What a restore reads beside the state.
        let deltas = |chain: &Chain| bytes(&chain[1..]);
        assert!(
            self.chains
                .iter()
                .all(|chain| deltas(chain) <= chain[0].bytes)
        );
        plan
    }
}

#[test]
fn what_does_not_change_is_not_written_and_needs_the_same_files() {
    let mut run = Run::new();
    for _ in 0..20 {
        run.snapshot(|group| 1 + group as u64 % 3);
    }
    run.snapshot(|_| 0);
    let (needs, bases) = (run.needs.clone(), run.bases);
    for _ in 0..1_000 {
        let plan = run.snapshot(|_| 0);
        assert!(plan.iter().all(|plan| *plan == Plan::Nothing));
    }
    assert_eq!((run.needs, run.bases), (needs, bases));
}

#[test]
fn a_single_group_that_changes_leaves_the_others_alone() {
    let mut run = Run::new();
    for _ in 0..1_000 {
        let plan = run.snapshot(|group| u64::from(group == 7));
        let others = plan.iter().enumerate().filter(|(group, _)| *group != 7);
        assert!(others.into_iter().all(|(_, plan)| *plan == Plan::Nothing));
    }
    assert!(run.most_files <= FILES);
    // Once for every file but the two that stay.
    let rewritten = run.bases / (ROWS * ROW);
    assert!((25..=40).contains(&rewritten), "{rewritten} times");
}

#[test]
fn groups_that_change_a_little_are_rewritten_in_rotation() {
    let mut run = Run::new();
    for _ in 0..1_000 {
        run.snapshot(|_| 1);
    }
    assert!(run.most_files <= FILES);
    assert!(run.most <= STATE / 16, "{} at once", run.most);
    let average = run.bases / 1_000;
    assert!(
        (STATE / 40..=STATE / 25).contains(&average),
        "{average} of {STATE}"
    );
}

#[test]
fn groups_that_change_much_are_rewritten_for_about_twice_their_deltas() {
    for rows in [20, 100, 250] {
        let mut run = Run::new();
        for _ in 0..400 {
            run.snapshot(|_| rows);
        }
        assert!(run.most_files <= FILES);
        assert!(
            run.bases <= 3 * run.deltas,
            "{rows} rows: {} for {}",
            run.bases,
            run.deltas
        );
        // Not all at once, though all came to the point together.
        let delta = rows * ROW * GROUPS as u64;
        assert!(run.most <= 2 * delta + STATE / 16, "{} at once", run.most);
    }
}

#[test]
fn a_delta_that_would_be_most_of_a_group_is_none() {
    let mut run = Run::new();
    let plan = run.snapshot(|group| if group < 3 { ROWS / 2 + 1 } else { 1 });
    let full = (0..GROUPS).filter(|group| plan[*group] == Plan::Base);
    let full: Vec<_> = full.collect();
    assert!([0, 1, 2].iter().all(|group| full.contains(group)));
    assert!(full.len() < 12, "{full:?}");
}

#[test]
fn what_nobody_knows_or_what_was_empty_is_written_in_full() {
    let section = Section {
        file: 4,
        bytes: 100,
        rows: 2,
    };
    let chains = [vec![section], Vec::new(), vec![section], Vec::new()];
    let some = Change::Some {
        rows: 0,
        removals: 10,
    };
    let changes = [Change::Unknown, some, Change::Nothing, Change::Nothing];
    let plan = plan(&chains, &changes);
    assert_eq!(plan, [Plan::Base, Plan::Base, Plan::Nothing, Plan::Nothing]);
    assert_eq!(needs(&chains, &plan), (vec![4], vec![1, 1, 0, 1]));
    let nothing = Section {
        file: 9,
        bytes: 0,
        rows: 0,
    };
    assert_eq!(extend(&chains[0], Plan::Base, nothing), []);
    assert_eq!(extend(&chains[0], Plan::Delta, nothing), [section]);
}

/// Whatever changes when, the files stay few, and what is written for their sake stays in bounds.
#[test]
fn files_are_bounded_however_groups_change() {
    for seed in 1..40u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut below = move |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let mut run = Run::new();
        // How many groups change at a time, and how: in turn, at random, the same ones.
        let (width, way) = (1 << below(8), below(4));
        let turns = 600;
        for turn in 0..turns {
            let first = match way {
                0 => turn * width,
                1 => 0,
                _ => below(GROUPS as u64),
            } % GROUPS as u64;
            // Now and then all of them.
            let width = if way == 3 && turn % 2 == 0 {
                GROUPS as u64
            } else {
                width
            };
            let rows = 1 + below(4);
            run.snapshot(|group| {
                let place = (group as u64 + GROUPS as u64 - first) % GROUPS as u64;
                if place < width { rows } else { 0 }
            });
            assert!(run.most_files <= FILES);
        }
        let average = run.bases / turns;
        assert!(
            average <= STATE / 16,
            "seed {seed}, {width} groups in way {way}: {average} of {STATE}, {} at once",
            run.most
        );
    }
}
