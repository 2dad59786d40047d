//! Every interleaving of two hosts within bounds.
//!
//! A depth-first search over worlds, each visited once. In each world the disk must keep the promise; and from each disk that occurs, if
//! everything crashed at that very moment, one host started alone must bring the job to its end with every record visible exactly
//! once. The mutations show that the search sees what it should.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::model::{Bounds, Host, Move, Mutation, Sinks, Violation, World};

/// A search that needs more is a mistake in the bounds.
const WORLDS: usize = 3_000_000;

#[derive(Debug, Default)]
struct Coverage {
    worlds: usize,
    disks: usize,
    /// Worlds in which both hosts run an attempt at once: one is replaced and does not know it.
    both_running: usize,
    finished: usize,
    /// Codes of all refused starts.
    refused: BTreeSet<&'static str>,
}

struct Found {
    violation: Violation,
    way: Vec<Move>,
}

impl Found {
    fn new(violation: Violation, way: Vec<Move>) -> Found {
        Found { violation, way }
    }
}

/// How a world was reached first: from where, by which move.
type Reached = HashMap<u128, (u128, Option<Move>)>;

fn way(reached: &Reached, mut at: u128, last: Option<Move>) -> Vec<Move> {
    let mut way: Vec<Move> = last.into_iter().collect();
    while let Some((from, Some(how))) = reached.get(&at) {
        way.push(*how);
        at = *from;
    }
    way.reverse();
    way
}

fn explore(bounds: Bounds, mutation: Mutation) -> Result<Coverage, Found> {
    let start = World::new(bounds, mutation);
    let mut reached = Reached::new();
    let mut disks: HashSet<u128> = HashSet::new();
    let mut coverage = Coverage::default();
    reached.insert(start.key(), (0, None));
    let mut stack = vec![start];
    while let Some(world) = stack.pop() {
        let key = world.key();
        coverage.worlds += 1;
        let running = |host: &Host| matches!(host, Host::Running(_));
        if world.hosts.iter().all(|host| running(&host.value)) {
            coverage.both_running += 1;
        }
        for host in &world.hosts {
            if let Host::Over {
                refused: Some(code),
            } = &*host.value
            {
                coverage.refused.insert(code);
            }
        }
        let disk = &world.disk.value;
        if disk.history.last().is_some_and(|last| last.finished) {
            coverage.finished += 1;
        }
        if let Err(violation) = disk.check() {
            return Err(Found::new(violation, way(&reached, key, None)));
        }
        if disks.insert(world.disk.hash()) && !disk.tampered {
            coverage.disks += 1;
            if let Err(violation) = alone_to_the_end(&world, bounds.records) {
                let violation = format!("after a crash of everything: {violation}");
                return Err(Found::new(violation, way(&reached, key, None)));
            }
        }
        for what in world.moves() {
            let mut next = world.clone();
            if let Err(violation) = next.apply(what) {
                return Err(Found::new(violation, way(&reached, key, Some(what))));
            }
            let next_key = next.key();
            if let Entry::Vacant(place) = reached.entry(next_key) {
                place.insert((key, Some(what)));
                stack.push(next);
            }
        }
        assert!(reached.len() < WORLDS, "more than {WORLDS} worlds");
    }
    println!("{mutation:?} {bounds:?}: {coverage:?}");
    Ok(coverage)
}

/// One host starts on the disk as it is and is not disturbed. Requests that are still under way arrive after its end, or before.
fn alone_to_the_end(world: &World, records: u64) -> Result<(), Violation> {
    let world = world.after_the_end();
    let mut arrived = world.clone();
    while arrived.under_way() {
        arrived.apply(Move::Arrive(0))?;
    }
    if world.under_way() {
        to_the_end(arrived, records)?;
    }
    to_the_end(world, records)
}

fn to_the_end(mut world: World, records: u64) -> Result<(), Violation> {
    while let Some(what) = world.moves().first().copied() {
        world.apply(what)?;
        world.disk.value.check()?;
    }
    let disk = &world.disk.value;
    for visible in disk.visible(world.sinks) {
        if !visible.iter().copied().eq(0..records) {
            return Err(format!("records {visible:?} are visible of {records}"));
        }
    }
    Ok(())
}

const TWO_HOSTS: Bounds = Bounds {
    hosts: 2,
    records: 2,
    slow_collection: true,
    starts: 2,
    crashes: 0,
    declines: 0,
    hands: 0,
    sinks: Sinks::File,
    faults: 0,
};

/// One host that crashes and starts again, and somebody who empties storage or puts an old copy back while it is down.
const HANDS: Bounds = Bounds {
    hosts: 1,
    records: 2,
    slow_collection: true,
    starts: 4,
    crashes: 2,
    declines: 1,
    hands: 1,
    sinks: Sinks::File,
    faults: 0,
};

/// As [`KAFKA`], with a checkpoint behind it when two hosts start at once.
const KAFKA_RESUMED: Bounds = Bounds {
    records: 1,
    starts: 3,
    crashes: 1,
    faults: 0,
    ..KAFKA
};

/// A job whose output goes to Kafka, and one request of it that goes wrong.
const KAFKA: Bounds = Bounds {
    slow_collection: false,
    sinks: Sinks::Kafka,
    faults: 1,
    ..TWO_HOSTS
};

#[track_caller]
fn holds(bounds: Bounds) -> Coverage {
    holds_with(Mutation::Faithful, bounds)
}

#[track_caller]
fn holds_with(mutation: Mutation, bounds: Bounds) -> Coverage {
    match explore(bounds, mutation) {
        Ok(coverage) => coverage,
        Err(found) => panic!("{}\n{:?}", found.violation, found.way),
    }
}

#[test]
fn two_hosts_at_once_lose_and_double_nothing() {
    let coverage = holds(TWO_HOSTS);
    assert!(
        coverage.both_running > 1_000 && coverage.finished > 10_000,
        "{coverage:?}"
    );
    assert!(coverage.disks > 1_000, "{coverage:?}");
    // The one that is replaced says so, and nothing else is ever refused.
    assert_eq!(coverage.refused, BTreeSet::from(["W0502"]), "{coverage:?}");
}

#[test]
fn a_declined_checkpoint_loses_and_doubles_nothing() {
    let coverage = holds(Bounds {
        records: 1,
        declines: 2,
        ..TWO_HOSTS
    });
    assert!(coverage.disks > 1_000, "{coverage:?}");
}

#[test]
fn three_starts_with_a_crash_or_a_failed_attempt_between_lose_and_double_nothing() {
    let coverage = holds(Bounds {
        records: 1,
        slow_collection: false,
        starts: 3,
        crashes: 1,
        ..TWO_HOSTS
    });
    assert!(
        coverage.both_running > 1_000 && coverage.disks > 1_000,
        "{coverage:?}"
    );
    assert_eq!(coverage.refused, BTreeSet::from(["W0502"]), "{coverage:?}");
}

#[test]
fn emptied_or_rolled_back_storage_never_leads_to_a_silent_fresh_start_or_a_double() {
    let coverage = holds(HANDS);
    // Emptied beside output, and rolled back behind it.
    for code in ["W0503", "W0504"] {
        assert!(coverage.refused.contains(code), "{code} {coverage:?}");
    }
}

/// A broken rule must be noticed; returns how.
#[track_caller]
fn noticed(mutation: Mutation, bounds: Bounds) -> Violation {
    match explore(bounds, mutation) {
        Err(found) => found.violation,
        Ok(coverage) => panic!("{mutation:?} went unnoticed in {coverage:?}"),
    }
}

#[test]
fn a_commit_under_its_number_instead_of_the_next_slot_is_noticed() {
    noticed(Mutation::CommitPerNumber, TWO_HOSTS);
}

#[test]
fn trimming_claims_is_noticed() {
    noticed(Mutation::TrimClaims, TWO_HOSTS);
}

#[test]
fn trusting_a_claim_in_a_trimmed_hole_is_noticed() {
    noticed(Mutation::NoTailCheck, TWO_HOSTS);
}

#[test]
fn deleting_what_was_not_committed_before_the_claim_is_noticed() {
    let violation = noticed(Mutation::DeleteBeforeClaim, TWO_HOSTS);
    assert!(
        violation.contains("whose manifest is not there"),
        "{violation}"
    );
}

#[test]
fn sweeping_a_newer_attempts_staged_files_is_noticed() {
    let violation = noticed(Mutation::SweepNewer, TWO_HOSTS);
    assert!(violation.contains("lost"), "{violation}");
}

#[test]
fn turning_a_witness_back_is_noticed() {
    let violation = noticed(Mutation::WitnessBackwards, TWO_HOSTS);
    assert!(violation.contains("refused without reason"), "{violation}");
}

#[test]
fn refusing_without_a_second_look_is_noticed() {
    let violation = noticed(Mutation::NoSecondLook, TWO_HOSTS);
    assert!(violation.contains("refused without reason"), "{violation}");
}

#[test]
fn publishing_before_the_slot_is_noticed() {
    noticed(Mutation::PublishBeforeSlot, TWO_HOSTS);
}

#[test]
fn forgetting_the_parts_of_late_acknowledgements_is_noticed() {
    let bounds = Bounds {
        declines: 1,
        ..TWO_HOSTS
    };
    let violation = noticed(Mutation::ForgetLateParts, bounds);
    assert!(violation.contains("commits records"), "{violation}");
}

#[test]
fn not_publishing_again_after_a_crash_is_noticed() {
    noticed(Mutation::NoRedo, TWO_HOSTS);
}

#[test]
fn sharing_names_between_state_files_of_equal_contents_is_noticed() {
    let bounds = Bounds {
        records: 3,
        ..TWO_HOSTS
    };
    let violation = noticed(Mutation::SharedStateNames, bounds);
    assert!(violation.contains("state"), "{violation}");
}

#[test]
fn taking_an_open_part_over_by_a_rename_is_noticed() {
    let violation = noticed(Mutation::AdoptByRename, TWO_HOSTS);
    // Its old writer wakes up and goes on.
    let seen = ["doubled", "were committed", "commits records", "lost"];
    assert!(
        seen.iter().any(|text| violation.contains(text)),
        "{violation}"
    );
}

#[test]
fn removing_the_original_of_a_part_before_its_copy_is_committed_is_noticed() {
    let violation = noticed(Mutation::DropOriginals, TWO_HOSTS);
    assert!(violation.contains("lost"), "{violation}");
}

#[test]
fn sweeping_an_open_part_is_noticed() {
    let violation = noticed(Mutation::SweepOpen, TWO_HOSTS);
    assert!(violation.contains("lost"), "{violation}");
}

#[test]
fn not_publishing_what_was_taken_over_is_noticed() {
    let violation = noticed(Mutation::ForgetAdopted, TWO_HOSTS);
    assert!(violation.contains("commits records"), "{violation}");
}

#[test]
fn removing_an_open_part_when_an_attempt_fails_is_noticed() {
    let bounds = Bounds {
        crashes: 1,
        ..TWO_HOSTS
    };
    let violation = noticed(Mutation::DiscardOpen, bounds);
    assert!(violation.contains("lost"), "{violation}");
}

#[test]
fn writing_the_witness_only_afterwards_is_noticed() {
    let violation = noticed(Mutation::WitnessAfterwards, HANDS);
    assert!(violation.contains("doubled"), "{violation}");
}

#[test]
fn not_looking_at_the_witness_is_noticed() {
    let violation = noticed(Mutation::BlindToWitness, HANDS);
    assert!(violation.contains("from nothing"), "{violation}");
}

#[test]
fn two_hosts_that_commit_in_kafka_lose_and_double_nothing() {
    let coverage = holds(KAFKA);
    assert!(
        coverage.both_running > 1_000 && coverage.disks > 1_000,
        "{coverage:?}"
    );
    // Nothing that happens by itself is ever refused but for a newer attempt.
    assert_eq!(coverage.refused, BTreeSet::from(["W0502"]), "{coverage:?}");
}

#[test]
fn three_starts_with_a_crash_or_a_failed_attempt_between_commit_in_kafka_exactly() {
    let coverage = holds(KAFKA_RESUMED);
    assert!(
        coverage.both_running > 1_000 && coverage.disks > 1_000,
        "{coverage:?}"
    );
    assert_eq!(coverage.refused, BTreeSet::from(["W0502"]), "{coverage:?}");
}

#[test]
fn a_file_sink_beside_a_kafka_sink_commits_with_it() {
    let coverage = holds(Bounds {
        records: 1,
        sinks: Sinks::Both,
        ..KAFKA
    });
    assert!(coverage.disks > 1_000, "{coverage:?}");
}

#[test]
fn emptied_or_rolled_back_storage_beside_a_marker_never_leads_to_a_silent_fresh_start() {
    let coverage = holds(Bounds {
        sinks: Sinks::Kafka,
        declines: 0,
        slow_collection: false,
        ..HANDS
    });
    for code in ["W0503", "W0504"] {
        assert!(coverage.refused.contains(code), "{code} {coverage:?}");
    }
}

#[test]
fn fencing_no_producer_is_noticed() {
    noticed(Mutation::NoFence, KAFKA);
}

#[test]
fn fencing_one_producer_of_two_is_noticed() {
    noticed(Mutation::FenceOne, KAFKA);
}

#[test]
fn reading_the_marker_before_the_fence_is_noticed() {
    noticed(Mutation::ReadBeforeFence, KAFKA);
}

#[test]
fn a_marker_in_a_transaction_of_its_own_is_noticed() {
    noticed(Mutation::MarkerAfterwards, KAFKA);
}

#[test]
fn going_on_after_a_commit_that_was_sent_twice_is_noticed() {
    noticed(Mutation::GoOnAfterUnclear, KAFKA);
}

#[test]
fn creating_the_slot_before_the_transaction_is_committed_is_noticed() {
    noticed(Mutation::SlotBeforeTransaction, KAFKA);
}

#[test]
fn trusting_the_log_without_the_marker_is_noticed() {
    noticed(Mutation::TrustLog, KAFKA);
}

#[test]
fn not_looking_for_a_newer_attempt_after_the_claim_is_noticed() {
    let violation = noticed(Mutation::NoLastCheck, KAFKA_RESUMED);
    // The marker names a manifest that the newer attempt has deleted.
    assert!(violation.contains("was rolled back"), "{violation}");
}

#[test]
fn skipping_a_checkpoint_whose_records_are_in_a_transaction_is_noticed() {
    let bounds = Bounds {
        declines: 1,
        ..KAFKA
    };
    noticed(Mutation::SkipWithRecords, bounds);
}

#[test]
fn one_producer_for_all_checkpoints_is_noticed() {
    noticed(Mutation::OneProducer, KAFKA);
}

/// What it is for is to move a job to another commit point: see `docs/checkpoints.md`.
#[test]
fn at_one_and_the_same_commit_point_the_claim_needs_no_marker() {
    holds_with(Mutation::NoClaimMarker, KAFKA);
    holds_with(Mutation::NoClaimMarker, KAFKA_RESUMED);
}
