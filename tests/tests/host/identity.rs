//! What a checkpoint belongs to: a job that is another one, or lacks what the checkpoint holds, is refused.

use crate::fixture::{SLOW, finish_exactly, half_done, is_refused, text};

/// The job with something in its file changed is refused; changed back, it ends exact.
#[track_caller]
fn refused(from: &str, to: &str, code: &str, said: &[&str]) {
    let place = half_done();
    let changed = text(SLOW).replace(from, to);
    assert_ne!(changed, text(SLOW));
    place.write_job(&changed);
    is_refused(&place, code, said);
    finish_exactly(&place);
}

#[test]
fn max_parallelism_is_fixed_for_a_jobs_life() {
    refused(
        "max_parallelism: 16",
        "max_parallelism: 32",
        "W0517",
        &[
            "`max_parallelism` is 32",
            "was taken with 16",
            "set `max_parallelism: 16`",
        ],
    );
}

#[test]
fn an_operator_with_state_keeps_its_id() {
    let place = half_done();
    place.write_job(
        &text(SLOW)
            .replace("  ledger:\n", "  book:\n")
            .replace("ledger.", "book."),
    );
    is_refused(
        &place,
        "W0526",
        &["holds state of operator `ledger`, which the job does not have"],
    );
    finish_exactly(&place);
}

#[test]
fn a_source_keeps_its_id() {
    let place = half_done();
    place.write_job(&text(SLOW).replace("numbers", "figures"));
    is_refused(
        &place,
        "W0526",
        &["holds the position of source `numbers`, which the job does not have"],
    );
    finish_exactly(&place);
}

#[test]
fn a_source_keeps_its_input() {
    refused(
        "records: 4000",
        "records: 5000",
        "W0603",
        &["the job began with `records` at 4000, now it is 5000"],
    );
}

#[test]
fn another_job_does_not_get_a_jobs_checkpoints() {
    refused(
        "job: ledger",
        "job: other",
        "W0512",
        &[
            "holds the checkpoints of job `ledger`, not of `other`",
            "its own `checkpoint.dir`",
        ],
    );
}

#[test]
fn two_jobs_do_not_share_an_output_directory_unnoticed() {
    // One job's checkpoints, another one's output: neither lineage nor witness fits.
    let place = half_done();
    let other = half_done();
    weir_tests::folders::copy(&other.path("checkpoints"), &place.path("checkpoints"));
    is_refused(&place, "W0514", &["belongs to lineage", "holds lineage"]);
}
