//! Memory: how much the process may use, and whether the state of its operators fits.
//!
//! State in memory grows with the data, and whoever runs a job learns of it from the kernel, which kills the process without a word. So what
//! operators keep is counted: the bytes of keys and values, exactly, and what the structures around them cost, as an
//! estimate. Past its share the job fails and says which operator it was. The share is three quarters of the memory of the
//! process; the rest is for guests, channels and connectors.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_state::Stats;

use crate::units::ByteSize;

/// What a value, item or entry costs beside its bytes: slot, directory, allocation.
const ENTRY_BYTES: u64 = 64;

/// What a timer costs beside its bytes: it is in a queue and in the slot of its key.
const TIMER_BYTES: u64 = 96;

/// Used where the system does not say how much memory there is.
const UNKNOWN: u64 = 1 << 30;

/// What state may take up, for all subtasks of a process together.
#[derive(Debug)]
pub struct StateBudget {
    process: u64,
    limit: u64,
    used: AtomicU64,
}

/// State does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its state takes up about {}, that of all subtasks {}, and the limit is {} (three quarters of `memory`)",
    ByteSize(*own).rounded(), ByteSize(*all).rounded(), ByteSize(*limit).rounded()
)]
pub struct Outgrown {
    /// Bytes of the subtask that noticed it.
    pub own: u64,
    /// Bytes of all subtasks.
    pub all: u64,
    /// The limit.
    pub limit: u64,
}

/// A subtask's part of what is counted; given back when it is dropped.
#[derive(Debug)]
pub struct StateAccount {
    budget: Arc<StateBudget>,
    counted: u64,
}

/// Bytes that state takes up, as the limit is judged by.
pub fn held(stats: Stats) -> u64 {
    stats
        .bytes
        .saturating_add(stats.entries.saturating_mul(ENTRY_BYTES))
        .saturating_add(stats.timers.saturating_mul(TIMER_BYTES))
}

impl StateBudget {
    /// Of a process that may use `memory` bytes; `None`: three quarters of what its cgroup or machine has.
    pub fn new(memory: Option<u64>) -> StateBudget {
        let memory =
            memory.unwrap_or_else(|| available(Path::new("/")).map_or(UNKNOWN, three_quarters));
        StateBudget {
            process: memory,
            limit: three_quarters(memory),
            used: AtomicU64::new(0),
        }
    }

    /// Bytes that the process may use.
    pub fn process(&self) -> u64 {
        self.process
    }

    /// Bytes that state may take up.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// An account with nothing in it.
    pub fn account(self: &Arc<StateBudget>) -> StateAccount {
        StateAccount {
            budget: self.clone(),
            counted: 0,
        }
    }
}

impl StateAccount {
    /// Counts what a subtask holds now.
    ///
    /// # Errors
    /// It is more than is left. It is counted all the same.
    pub fn count(&mut self, stats: Stats) -> Result<(), Outgrown> {
        let own = held(stats);
        if own == self.counted {
            return Ok(());
        }
        let used = &self.budget.used;
        let all = if own > self.counted {
            let more = own - self.counted;
            used.fetch_add(more, Ordering::Relaxed).saturating_add(more)
        } else {
            let less = self.counted - own;
            used.fetch_sub(less, Ordering::Relaxed).saturating_sub(less)
        };
        let grew = own > self.counted;
        self.counted = own;
        let limit = self.budget.limit;
        if grew && all > limit {
            return Err(Outgrown { own, all, limit });
        }
        Ok(())
    }
}

impl Drop for StateAccount {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

/// Of what there is, for the process; and of that, for state.
fn three_quarters(bytes: u64) -> u64 {
    bytes - bytes / 4
}

/// Bytes that the process can have at most: the least limit of its cgroups, or the machine's memory. `root` is `/`.
fn available(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let machine = read("proc/meminfo").and_then(|text| mem_total(&text));
    let groups = read("proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (folder, file) = match (number, controllers) {
            ("0", "") => ("sys/fs/cgroup", "memory.max"),
            (_, controllers) if controllers.split(',').any(|it| it == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // A group is bound by those around it. In a container the path may not be there, but its root is the container's own group.
        let folder = root.join(folder);
        let path = Path::new(path.trim_start_matches('/'));
        path.ancestors()
            .filter_map(|group| fs::read_to_string(folder.join(group).join(file)).ok())
            .filter_map(|text| text.trim().parse::<u64>().ok())
            .min()
    });
    // Without a limit the file says `max`, or a number beyond any machine.
    limits.chain(machine).min()
}

fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(entries: u64, timers: u64, bytes: u64) -> Stats {
        Stats {
            entries,
            timers,
            bytes,
        }
    }

    #[test]
    fn subtasks_share_a_budget_and_give_back_what_they_held() {
        let budget = Arc::new(StateBudget::new(Some(4_000)));
        assert_eq!(budget.limit(), 3_000);
        let (mut one, mut two) = (budget.account(), budget.account());
        one.count(stats(10, 0, 1_000)).expect("1,640 fit");
        two.count(stats(0, 1, 1_264)).expect("3,000 fit");
        let outgrown = two.count(stats(0, 1, 1_265)).expect_err("3,001 do not");
        assert_eq!(
            outgrown,
            Outgrown {
                own: 1_361,
                all: 3_001,
                limit: 3_000
            }
        );
        // Shrinking is never refused.
        two.count(stats(0, 1, 1_264)).expect("3,000 fit");
        drop(one);
        two.count(stats(0, 0, 3_000)).expect("it is alone now");
        drop(two);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_message_says_all_three() {
        let outgrown = Outgrown {
            own: 2 << 30,
            all: (3 << 30) + 5_000_000,
            limit: 3 << 30,
        };
        assert_eq!(
            outgrown.to_string(),
            "its state takes up about 2GiB, that of all subtasks 3076MiB, and the limit is 3GiB (three quarters of `memory`)"
        );
    }

    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(path, text).expect("written");
        }
        available(root.path())
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       16000 kB\nMemFree:         1000 kB\n",
    );

    #[test]
    fn the_least_limit_of_the_groups_counts_else_the_machine() {
        assert_eq!(machine(&[MEMINFO]), Some(16_000 * 1024));
        let group = ("proc/self/cgroup", "0::/jobs.slice/one.service\n");
        let max = |path, text| (path, text);
        assert_eq!(
            machine(&[
                MEMINFO,
                group,
                max("sys/fs/cgroup/jobs.slice/memory.max", "5000000\n"),
                max("sys/fs/cgroup/jobs.slice/one.service/memory.max", "max\n"),
            ]),
            Some(5_000_000)
        );
        // In a container the group's path is that of the host, and the root is its own.
        assert_eq!(
            machine(&[MEMINFO, group, max("sys/fs/cgroup/memory.max", "4000000")]),
            Some(4_000_000)
        );
        let first = ("proc/self/cgroup", "5:cpu:/x\n4:blkio,memory:/a/b\n0::/\n");
        let limit = "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes";
        assert_eq!(
            machine(&[MEMINFO, first, (limit, "3000000\n")]),
            Some(3_000_000)
        );
        assert_eq!(
            machine(&[MEMINFO, first, (limit, "9223372036854771712\n")]),
            Some(16_000 * 1024)
        );
        assert_eq!(machine(&[]), None);
        assert_eq!(machine(&[("proc/meminfo", "MemTotal: many\n")]), None);
    }

    #[test]
    fn this_machine_says_what_it_has() {
        assert!(StateBudget::new(None).limit() > 1 << 20);
    }
}
