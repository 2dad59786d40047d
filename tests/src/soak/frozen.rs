//! A host that stands still while another one takes its job over, and then goes on.

use std::fs;

use super::trial::{COMMITTED, Fate, Trial, freeze, thaw};
use crate::host::HANGS;

/// About so long the input lasts at the least.
const SECONDS: u64 = 6;

impl Trial<'_> {
    /// Freezes the job at a random moment, starts it elsewhere, and lets the first go on while the second runs. The first must notice
    /// before it commits anything. Locks do not reach between machines that share a file system; here they are made not to by
    /// removing their files, so that the second process locks others.
    pub(super) fn frozen(&mut self, times: u32) -> Result<(), String> {
        self.feed_slowly(SECONDS);
        for time in 0..times {
            let start = self.parallelism();
            let mut old = self.place.start(&start);
            if !old.says(COMMITTED, 1 + time as usize % 2, HANGS) {
                return Err(format!("the job does not run:\n{}", old.log()));
            }
            let moment = self.random.time(std::time::Duration::from_millis(200));
            old.within(moment);
            freeze(&mut old);
            fs::remove_file(self.place.path("checkpoints/lock"))
                .map_err(|error| format!("no lock file: {error}"))?;

            let mut start = self.parallelism();
            start.args = vec![
                "--data-dir".to_owned(),
                self.place
                    .path(&format!("host-{time}"))
                    .display()
                    .to_string(),
            ];
            let mut new = self.place.start(&start);
            if !new.says("attempt ", 1, HANGS) {
                return Err(format!("it was not taken over:\n{}", new.log()));
            }
            let moment = self.random.time(std::time::Duration::from_millis(150));
            new.within(moment);
            thaw(&mut old);
            let exit = old.end();
            let said = exit.log.contains("another host has taken");
            if exit.code() != Some(4) || !said {
                return Err(format!(
                    "the frozen host did not notice that it was replaced:\n{}",
                    exit.log
                ));
            }
            let exit = new.kill();
            if self.judge(&exit)? == Fate::Finished {
                break;
            }
        }
        self.finish()
    }
}
