//! A job, as far as those must know it who disturb it and compare.

use std::collections::BTreeMap;

use crate::place::Place;

/// What sinks committed: lines by sink, sorted.
pub(super) type Lines = BTreeMap<&'static str, Vec<String>>;

/// See the module.
pub(super) trait Subject {
    /// The job file, with the input drawn out over about so many seconds, or read as fast as it goes.
    fn text(&self, seconds: Option<u64>) -> String;

    /// The fault points that the job passes, in their order.
    fn points(&self) -> Vec<&'static str>;

    /// What an undisturbed run commits.
    fn expected(&self) -> &Lines;

    /// What the job that runs in `place` has committed by now.
    fn committed(&self, place: &Place) -> Lines;

    /// The same when it has finished, seen by the most independent eyes there are, and whether it is in order, if there is one.
    fn committed_in_the_end(&self, place: &Place) -> (Lines, Result<(), String>) {
        (self.committed(place), Ok(()))
    }

    /// How much longer everything takes than with files.
    fn slowness(&self) -> u32 {
        1
    }
}
