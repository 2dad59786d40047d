//! A finished job does nothing more; `--fresh` starts over, but not beside committed output unless told so.

use std::fs;

use weir_tests::folders::remove;
use weir_tests::place::{Place, Start};

use crate::fixture::{UNLIMITED, expected, finish_exactly, half_done, is_exact, sorted, text};

fn finished() -> Place {
    let place = Place::temporary();
    place.write_job(&text(UNLIMITED));
    place.run().expect(0, &["finished"]);
    place
}

#[test]
fn a_finished_job_run_again_says_so_and_changes_nothing() {
    let place = finished();
    for parallelism in [1, 4] {
        let exit = place.run_with(&Start::at(parallelism));
        exit.expect(
            0,
            &[
                "finished already, at checkpoint",
                "nothing to do",
                "`--fresh` starts over",
            ],
        );
        is_exact(&place);
    }
}

#[test]
fn fresh_is_refused_beside_committed_output() {
    for place in [finished(), half_done()] {
        let before = place.committed("lines");
        let exit = place.run_with(&Start::with(&["--fresh"]));
        exit.expect(
            3,
            &[
                "error[W0516]",
                "has committed output up to checkpoint",
                "--accept-duplicates",
            ],
        );
        assert_eq!(place.committed("lines"), before);
    }
}

#[test]
fn fresh_with_duplicates_accepted_writes_everything_a_second_time() {
    let place = finished();
    let exit = place.run_with(&Start::with(&["--fresh", "--accept-duplicates"]));
    exit.expect(0, &["fresh start", "finished"]);
    let found = sorted([place.committed("lines"), place.committed("windows")].concat());
    assert_eq!(found, sorted([expected(), expected()].concat()));
    place.run().expect(0, &["finished already"]);
}

#[test]
fn fresh_with_the_output_moved_away_is_a_first_run() {
    let place = half_done();
    remove(&place.path("out"));
    fs::create_dir(place.path("out")).expect("a folder can be created");
    place.write_job(&text(UNLIMITED));
    place
        .run_with(&Start::with(&["--fresh"]))
        .expect(0, &["fresh start", "finished"]);
    is_exact(&place);
}

#[test]
fn duplicates_are_accepted_only_with_fresh() {
    let place = half_done();
    let exit = place.run_with(&Start::with(&["--accept-duplicates"]));
    exit.expect(2, &["--fresh"]);
    finish_exactly(&place);
}

#[test]
fn fresh_on_a_job_that_never_ran_is_a_first_run() {
    let place = Place::temporary();
    place.write_job(&text(UNLIMITED));
    place
        .run_with(&Start::with(&["--fresh"]))
        .expect(0, &["fresh start", "finished"]);
    is_exact(&place);
}
