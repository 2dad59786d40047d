//! Jobs that are nearly done: their sources end one after the other within a few checkpoints, and they are killed in the midst of it.

use super::super::trial::Trial;
use super::job::{self, Input, Kind, Reference};
use crate::output::Difference;
use crate::place::{Place, Start};

/// Points of a checkpoint; the passing decides which one.
const POINTS: [&str; 6] = [
    "before-prepare",
    "after-manifest",
    "after-slot",
    "mid-renames",
    "after-witness",
    "end-of-input",
];

impl Trial<'_> {
    /// Each of so many small jobs is killed once, at a point of one of its few checkpoints, and then run to its end.
    pub(super) fn endings(&mut self, reference: &Reference, jobs: u32) -> Result<(), String> {
        assert_eq!(reference.kind, Kind::Net, "several sources");
        let folder = &reference.folder;
        let input = Input {
            records: [Some(400), Some(700), Some(1_000)],
            ..Input::whole()
        };
        let undisturbed = Place::at(self.place.host(), self.place.path("undisturbed"));
        let (expected, _) = job::undisturbed(Kind::Net, &undisturbed, &input, folder, 2);
        let slow = Input {
            rate: 4_000,
            ..input
        };
        for number in 0..jobs {
            let place = Place::at(self.place.host(), self.place.path(&format!("{number:02}")));
            place.write_job(&job::text(Kind::Net, &slow, folder));
            let point = self.random.pick(&POINTS);
            let start = Start {
                fault: Some((point.to_owned(), 1 + self.random.below(6) as u32)),
                ..Start::at(self.random.pick(&[1, 2, 4]))
            };
            let exit = place.run_with(&start);
            if exit.killed() {
                self.tally.borrow_mut().killed_at(point);
            } else if exit.code() != Some(0) {
                return Err(format!("{start:?} ended by itself:\n{}", exit.log));
            }
            let exit = place.run_with(&Start::at(self.random.pick(&[1, 2, 4])));
            if exit.code() != Some(0) {
                return Err(format!("it did not finish after {start:?}:\n{}", exit.log));
            }
            for (sink, lines) in &expected {
                let difference = Difference::between(lines, &place.committed(sink));
                if !difference.is_none() {
                    self.tally.borrow_mut().differs(&difference);
                    return Err(format!(
                        "job {number}, {start:?}: sink `{sink}` differs:\n{difference}"
                    ));
                }
            }
        }
        Ok(())
    }
}
