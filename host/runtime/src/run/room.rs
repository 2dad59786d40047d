//! Watches how much space is left where the job writes, and says when it is too little.
//!
//! Below the reserve the job makes no more work for the disk: sources pause and no checkpoint is begun, so that the last good one stays
//! whole, and there is room for a last one at a stop, for other programs, and for whoever clears the disk. It goes on by itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::log::{self, Level, Line};
use crate::units::ByteSize;

/// How often the file systems are asked.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is repeated that there is too little.
const REPEAT: Duration = Duration::from_secs(30);

/// The largest reserve that nobody asked for.
const MOST: u64 = 1 << 30;

/// The share of a file system that is its reserve, if that is less: a twentieth.
const SHARE: u64 = 20;

/// More than the reserve by this share of it is enough again: a job must not stop and go with every file.
const SLACK: u64 = 8;

/// What a file system says of itself, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Space {
    free: u64,
    whole: u64,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// There is too little: where, how much, and how much it should be.
    Low(String),
    /// There is enough again.
    Enough,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Room {
    watched: Vec<PathBuf>,
    /// Asked for; else by the size of each file system.
    reserve: Option<u64>,
    low: bool,
    looked: Option<Instant>,
    said: Option<Instant>,
}

impl Room {
    /// Watches the file systems of these directories, which need not be there.
    pub(super) fn new(watched: Vec<PathBuf>, reserve: Option<u64>) -> Room {
        Room {
            watched,
            reserve,
            low: false,
            looked: None,
            said: None,
        }
    }

    /// Asks the file systems, if they were not asked just now. Logs what there is to say (W0525).
    pub(super) fn look(&mut self, now: Instant) -> Option<Change> {
        let just_now = |at: Instant| now.saturating_duration_since(at) < EVERY;
        if self.looked.is_some_and(just_now) {
            return None;
        }
        self.looked = Some(now);
        let found: Vec<_> = self
            .watched
            .iter()
            // What cannot be asked cannot be written either, and that says more.
            .filter_map(|path| Some((path.clone(), space(path)?)))
            .collect();
        let change = self.judge(&found);
        let repeat = |at: Instant| now.saturating_duration_since(at) >= REPEAT;
        match &change {
            Some(Change::Enough) => {
                self.said = None;
                log::info("enough space again: sources go on");
            }
            _ if self.low && self.said.is_none_or(repeat) => {
                self.said = Some(now);
                if let Some(what) = self.too_little(&found, false) {
                    let text = format!(
                        "too little {what}\n  sources pause and no checkpoint is begun until there is more; the last good one stays\n  \
                         help: free some space, or lower `checkpoint.reserve`"
                    );
                    log::write(Line::new(Level::Warn, text).code("W0525"));
                }
            }
            _ => {}
        }
        change
    }

    fn judge(&mut self, found: &[(PathBuf, Space)]) -> Option<Change> {
        match (self.low, self.too_little(found, self.low)) {
            (false, Some(what)) => {
                self.low = true;
                Some(Change::Low(what))
            }
            (true, None) => {
                self.low = false;
                Some(Change::Enough)
            }
            _ => None,
        }
    }

    /// The first place with too little space, in words.
    fn too_little(&self, found: &[(PathBuf, Space)], slack: bool) -> Option<String> {
        found.iter().find_map(|(path, space)| {
            let reserve = self.reserve(*space);
            let wanted = if slack {
                reserve + reserve / SLACK
            } else {
                reserve
            };
            (space.free < wanted).then(|| {
                format!(
                    "space in {}: {} free, and the reserve is {}",
                    path.display(),
                    ByteSize(space.free).rounded(),
                    ByteSize(reserve).rounded()
                )
            })
        })
    }

    fn reserve(&self, space: Space) -> u64 {
        self.reserve
            .unwrap_or_else(|| (space.whole / SHARE).min(MOST))
    }
}

fn space(path: &Path) -> Option<Space> {
    let of = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(of.f_frsize);
    Some(Space {
        free: bytes(of.f_bavail),
        whole: bytes(of.f_blocks),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn found(free: u64, whole: u64) -> Vec<(PathBuf, Space)> {
        vec![(PathBuf::from("/ckpt"), Space { free, whole })]
    }

    #[test]
    fn the_reserve_is_a_gibibyte_or_a_twentieth_of_less() {
        let room = Room::new(Vec::new(), None);
        for (whole, reserve) in [
            (4_096 * GIB, GIB),
            (100 * GIB, GIB),
            (20 * GIB, GIB),
            (10 * GIB, GIB / 2),
            (2 << 20, (2 << 20) / 20),
            (0, 0),
        ] {
            assert_eq!(room.reserve(Space { free: 0, whole }), reserve, "{whole}");
        }
        let asked = Room::new(Vec::new(), Some(5));
        assert_eq!(
            asked.reserve(Space {
                free: 0,
                whole: GIB
            }),
            5
        );
    }

    #[test]
    fn it_is_low_below_the_reserve_and_enough_only_well_above_it() {
        let mut room = Room::new(Vec::new(), Some(800));
        assert_eq!(room.judge(&found(800, 10_000)), None);
        let Some(Change::Low(what)) = room.judge(&found(799, 10_000)) else {
            panic!("not low");
        };
        assert_eq!(what, "space in /ckpt: 799B free, and the reserve is 800B");
        for free in [799, 0, 800, 899] {
            assert_eq!(room.judge(&found(free, 10_000)), None, "{free}");
        }
        assert_eq!(room.judge(&found(900, 10_000)), Some(Change::Enough));
        assert_eq!(room.judge(&found(800, 10_000)), None);
    }

    #[test]
    fn every_place_counts_and_no_reserve_is_never_too_little() {
        let mut room = Room::new(Vec::new(), Some(10));
        let mut both = found(100, 1_000);
        both.extend(found(9, 1_000));
        assert!(matches!(room.judge(&both), Some(Change::Low(_))));
        let mut none = Room::new(Vec::new(), Some(0));
        assert_eq!(none.judge(&found(0, 1_000)), None);
    }

    #[test]
    fn a_real_file_system_is_asked_once_a_second() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let watched = vec![dir.path().join("gone"), dir.path().to_owned()];
        let mut room = Room::new(watched, Some(u64::MAX / 2));
        let now = crate::clock::now();
        assert!(matches!(room.look(now), Some(Change::Low(_))));
        room.reserve = Some(0);
        assert_eq!(room.look(now + EVERY / 2), None);
        assert_eq!(room.look(now + EVERY), Some(Change::Enough));
    }
}
