//! A wall clock that jumps does not expire state, in either direction and over restarts, until somebody says that it is right.

use std::fs;
use std::process::Command;

use weir_tests::host::{HANGS, Process};
use weir_tests::place::Place;

use crate::fixture::{SLOWEST, stop, text};

const HOUR: i64 = 3_600_000;

/// A place whose job's wall clock is shifted by the contents of a file.
struct Shifted(Place);

impl Shifted {
    fn new() -> Shifted {
        let place = Place::temporary();
        place.write_job(&text(SLOWEST));
        let shifted = Shifted(place);
        shifted.by(0);
        shifted
    }

    fn by(&self, millis: i64) {
        self.0.write("shift.tmp", millis.to_string());
        fs::rename(self.0.path("shift.tmp"), self.0.path("shift")).expect("renamed");
    }

    #[track_caller]
    fn start(&self, args: &[&str]) -> Process {
        let mut command: Command = self.0.command();
        command
            .args(["run", "job.yaml", "--no-progress"])
            .args(args)
            .env("WEIR_CLOCK_SHIFT", self.0.path("shift"));
        let mut process = self.0.spawn(&mut command);
        assert!(process.says("committed", 2, HANGS), "{}", process.log());
        process
    }

    /// The newest manifest's two clocks: the wall's, and processing time.
    fn clocks(&self) -> (i64, i64) {
        let dir = fs::read_dir(self.0.path("checkpoints/manifests")).expect("a folder");
        let newest = dir
            .map(|entry| {
                let path = entry.expect("an entry").path();
                let text = fs::read_to_string(path).expect("a manifest");
                let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                let number = |key: &str| manifest[key].as_i64().expect("a number");
                (number("n"), number("taken_at"), number("processing_time"))
            })
            .max();
        let (_, wall, processing) = newest.expect("a manifest");
        (wall, processing)
    }

    /// How far the wall clock is ahead of processing time, to the hour.
    fn ahead(&self) -> i64 {
        let (wall, processing) = self.clocks();
        (wall - processing + HOUR / 2).div_euclid(HOUR)
    }
}

#[test]
fn a_clock_that_jumps_ahead_is_held_over_restarts_until_it_is_accepted() {
    let shifted = Shifted::new();
    let mut process = shifted.start(&[]);
    assert_eq!(shifted.ahead(), 0);
    shifted.by(100 * HOUR);
    let said = process.says("[W0528] the wall clock is", 1, HANGS);
    let log = process.log();
    // The clocks are read one after the other.
    let hours = ["99h59m ahead of", "100h00m ahead of"];
    assert!(
        said && hours.iter().any(|hours| log.contains(hours)),
        "{log}"
    );
    stop(process);
    assert_eq!(shifted.ahead(), 100);

    let process = shifted.start(&[]);
    assert!(process.log().contains("[W0528]"), "{}", process.log());
    stop(process);
    assert_eq!(shifted.ahead(), 100);

    let process = shifted.start(&["--accept-clock"]);
    assert!(!process.log().contains("W0528"), "{}", process.log());
    stop(process);
    assert_eq!(shifted.ahead(), 0);
    stop(shifted.start(&[]));
    assert_eq!(shifted.ahead(), 0);
}

#[test]
fn a_clock_behind_the_checkpoint_is_held_and_one_that_is_corrected_is_followed() {
    let shifted = Shifted::new();
    shifted.by(10 * HOUR);
    stop(shifted.start(&[]));
    assert_eq!(shifted.ahead(), 0);
    let (_, before) = shifted.clocks();

    // The clock had been ahead: now it is right, and behind the checkpoint.
    shifted.by(0);
    let process = shifted.start(&[]);
    let log = process.log();
    assert!(log.contains("behind the job's processing time"), "{log}");
    stop(process);
    assert_eq!(shifted.ahead(), -10);
    let (_, after) = shifted.clocks();
    assert!(after > before, "processing time went back");

    shifted.by(10 * HOUR);
    let process = shifted.start(&[]);
    assert!(!process.log().contains("W0528"), "{}", process.log());
    stop(process);
    assert_eq!(shifted.ahead(), 0);
}
