//! The contract of keyed state.

use std::io::Read;

use crate::column::Column;
use crate::snapshot::STANDALONE;
use crate::{
    ColumnRef, Error, Nullable, NullableRef, RestoreFile, RestoreSummary, Snapshot, TimeDomain,
};

/// Bytes that one read may return, that all writes of one call may hold, and that one list may grow
/// to.
///
/// Wasmtime lifts no more in one host call, so a larger result could never reach a guest.
pub const CALL_BUDGET: usize = 128 << 20;

/// How many timers in a row, each set when the one before it fired, may fire for a key within one
/// advance.
pub const MAX_TIMER_GENERATIONS: u32 = 1_000;

/// The cells that an operation is about: keys of the current call, each with an optional namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells<'a> {
    /// Indices into the current call's distinct keys. May repeat.
    pub keys: &'a [u32],
    /// One a key index. No namespace is the empty namespace.
    pub namespaces: Option<ColumnRef<'a>>,
}

impl<'a> Cells<'a> {
    /// Whether an argument has a row a cell, `found` rows that it has.
    pub(crate) fn check_rows(&self, what: &'static str, found: usize) -> Result<(), Error> {
        let expected = self.keys.len();
        if found == expected {
            Ok(())
        } else {
            Err(Error::Shape {
                what,
                found,
                expected,
            })
        }
    }

    /// The namespace of a cell, `None` for the empty one.
    pub fn namespace(&self, cell: usize) -> Option<&'a [u8]> {
        self.namespaces
            .map(|namespaces| namespaces.get(cell))
            .filter(|namespace| !namespace.is_empty())
    }
}

/// Lists, one a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemLists {
    /// For each cell the number of items up to and with its own.
    pub ends: Vec<u32>,
    /// The items of all cells, in the order in which they were appended.
    pub items: Column,
}

/// A page of entries a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// For each cell the number of entries up to and with its own.
    pub ends: Vec<u32>,
    /// Names of the entries, in the order asked for.
    pub names: Column,
    /// Their values.
    pub values: Column,
    /// A byte a cell: 1 if its range holds entries beyond this page.
    pub more: Vec<u8>,
}

/// Timers that fire together: a row each, in firing order, no key twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firing {
    /// The keys; row i is key index i of the call.
    pub keys: Column,
    /// Their hashes.
    pub hashes: Vec<u64>,
    /// Which declared timer fires.
    pub timers: Vec<u32>,
    /// The namespaces; empty for a timer set without one.
    pub namespaces: Column,
    /// The times the timers were set for.
    pub times: Vec<i64>,
}

impl Firing {
    /// The number of timers.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

/// The dictionary of a call, owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyDictionary {
    /// The distinct keys in order of first appearance.
    pub distinct: Column,
    /// For each row the index of its key.
    pub index: Vec<u32>,
}

/// How far a snapshot has come.
#[derive(Debug)]
pub enum Progress {
    /// Rows are left to visit.
    More,
    /// All that was frozen.
    Done(Snapshot),
}

/// What an instance holds, applied calls only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Values, items and entries, expired ones that were not yet cleaned up included.
    pub entries: u64,
    /// Registered timers of both domains.
    pub timers: u64,
    /// Bytes of keys, namespaces, names and values, without the overhead of the structures that
    /// hold them.
    pub bytes: u64,
}

/// One operator subtask's keyed state and timers.
///
/// # A call
/// [`intern`](Self::intern) or [`pop_due`](Self::pop_due) makes the keys of the call,
/// [`begin`](Self::begin) opens it, reads and writes follow, [`apply`](Self::apply) or
/// [`discard`](Self::discard) ends it. Writes and timers go to an overlay that reads of the same
/// call see; `apply` makes them real, all or nothing. Everything between `begin` and the end
/// answers [`Error::Misuse`] outside of a call. The same keys may be begun again after the end, but
/// not as a firing: that is over when it is applied, and popped again when it is discarded. An
/// error leaves the call open, except that of `apply`; the caller discards it.
///
/// Operations are columns: row i of every argument belongs to cell i of `at`. Cells may repeat;
/// rows take effect in order, so the last wins.
///
/// # Expiry
/// Judged by the processing time of `begin`: a value with expiry e is invisible to a call at time ≥
/// e. Writing sets the expiry of that value, item or entry. [`touch`](Self::touch) renews all of a
/// cell, if the state's TTL is renewed on access; a renewal that would move the expiry by less than
/// a sixteenth of the TTL is not made, so that reading a value all day does not write it all day.
/// Items and entries expire one by one.
///
/// # Timers
/// A timer's identity is (declared timer, key, namespace, time); no namespace is the empty
/// namespace here. Setting is idempotent, the last call wins. Timers fire at advances, one at a
/// time: [`begin_advance`](Self::begin_advance), a call for each [`pop_due`](Self::pop_due) until
/// it gives `None`, [`end_advance`](Self::end_advance). Timers fire in the order (time, key hash,
/// key, timer, namespace), cut into firings in which no key repeats, so that a call may cancel any
/// timer of its keys that has not fired. A timer is gone when its call starts, and setting it again
/// registers a new one.
///
/// Of the timers that a firing sets in its own domain, one that is due (time ≤ until) and whose
/// time is greater than that of the key's firing timer belongs to the same advance. One that is due
/// and not later waits for the next advance, so no timer can hold an advance up. Everything that is
/// not due, is of the other domain, or is set outside of a firing, is simply registered.
///
/// A *generation* is a firing that was set by the one before it within one advance. A chain of more
/// than [`MAX_TIMER_GENERATIONS`] is [`Error::TimerGenerations`] at `apply`. Advances with the same
/// `until`, one after the other, count as one here: at the end of the input, where the watermark is
/// at its maximum, all there is to do with waiting timers is to advance again, and that must end.
///
/// A snapshot may be taken between firings. It holds which timers still belong to the advance in
/// progress, and the restored instance goes on with `begin_advance` at the same `until`.
///
/// # Snapshots
/// [`freeze`](Self::freeze) fixes what has been applied at that instant; a call that is open is not
/// in it, and the timers it popped are. It takes no time to speak of, whatever the instance holds.
/// [`advance_snapshot`](Self::advance_snapshot) then collects what is frozen, step by step; calls
/// and advances may go on in between, and the snapshot does not see them.
///
/// A snapshot may be *incremental*: based on an earlier one of the same instance that is durable,
/// it holds what changed since, and [`Snapshot::needs`] says which earlier files a restore reads
/// besides. How much of the state it nevertheless writes in full is the implementation's business,
/// within these bounds: few files are needed, however many snapshots were taken; the rows of all
/// files needed are a small multiple of the state; and what does not change is not written again
/// for ever. A snapshot that comes to nothing needs no undoing: later ones do not build on it,
/// because nobody will call it durable.
///
/// [`snapshot`](Self::snapshot) freezes and collects at once a snapshot that stands alone.
pub trait KeyedState: Send {
    /// Builds the dictionary of a batch: the distinct keys in order of first appearance and an
    /// index a row. Hashes are those of [`key_hash`](crate::hash::key_hash), carried from where the
    /// key was made.
    ///
    /// # Errors
    /// [`Error::NotOwned`] if a key belongs to another subtask, [`Error::Shape`], [`Error::Misuse`]
    /// in an open call.
    fn intern(&mut self, keys: ColumnRef<'_>, hashes: &[u64]) -> Result<(), Error>;
    /// The distinct keys of the current call.
    fn distinct(&self) -> ColumnRef<'_>;
    /// Their hashes.
    fn distinct_hashes(&self) -> &[u64];
    /// For each row of the current call the index of its key.
    fn index(&self) -> &[u32];

    /// Swaps the dictionary of the current call for `with`, whose memory the next
    /// [`intern`](Self::intern) may use. For callers that lend the keys out while they use the
    /// instance; until the next intern [`distinct`](Self::distinct) and [`index`](Self::index) may
    /// answer anything, and all else, [`distinct_hashes`](Self::distinct_hashes) included, goes on
    /// as before.
    fn swap_dictionary(&mut self, with: &mut KeyDictionary) {
        let distinct = self.distinct();
        with.distinct.offsets.clear();
        with.distinct.offsets.extend_from_slice(distinct.offsets);
        with.distinct.data.clear();
        with.distinct.data.extend_from_slice(distinct.data);
        with.index.clear();
        with.index.extend_from_slice(self.index());
    }

    /// Opens a call on the current keys. `processing_time` judges expiry. An open call starts anew.
    fn begin(&mut self, processing_time: i64);
    /// Makes the call's writes and timers real and removes the timers that fired.
    ///
    /// # Errors
    /// [`Error::TimerGenerations`]; nothing was applied then, the call is discarded.
    fn apply(&mut self) -> Result<(), Error>;
    /// Drops the call's writes and timers. Popped timers are registered as before and will be
    /// popped again. Nothing happens outside of a call.
    fn discard(&mut self);

    /// Reads values; null where there is none.
    fn get(&mut self, state: u32, at: Cells<'_>) -> Result<Nullable, Error>;
    /// Writes values; null deletes.
    fn put(&mut self, state: u32, at: Cells<'_>, values: NullableRef<'_>) -> Result<(), Error>;

    /// Appends an item to each cell's list; a cell that repeats gets several.
    fn append(&mut self, state: u32, at: Cells<'_>, items: ColumnRef<'_>) -> Result<(), Error>;
    /// Reads whole lists.
    fn get_items(&mut self, state: u32, at: Cells<'_>) -> Result<ItemLists, Error>;

    /// Reads an entry a row; null where there is none.
    fn get_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
    ) -> Result<Nullable, Error>;
    /// Writes an entry a row; null deletes.
    fn put_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), Error>;
    /// Reads up to `limit` entries a cell whose names lie in `start..end`, in byte order or from
    /// the end. A null bound is open. To go on, ascending starts at the last name + 0x00,
    /// descending ends at the last name.
    fn scan(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
        descending: bool,
        limit: u32,
    ) -> Result<Page, Error>;
    /// Deletes the entries of each cell whose names lie in `start..end`; a null bound is open.
    fn clear_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
    ) -> Result<(), Error>;

    /// Deletes all that the cells hold, whatever the state's kind.
    fn clear(&mut self, state: u32, at: Cells<'_>) -> Result<(), Error>;
    /// Renews the expiry of all that the cells hold, if the state's TTL is renewed on access; see
    /// the trait.
    fn touch(&mut self, state: u32, at: Cells<'_>) -> Result<(), Error>;

    /// Registers a timer a row.
    fn set_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), Error>;
    /// Cancels a timer a row; what is not registered is ignored.
    fn cancel_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), Error>;

    /// The earliest time for which a timer of the domain is registered; those that wait for the
    /// next advance count, what an open call did does not.
    fn next_timer(&self, domain: TimeDomain) -> Option<i64>;
    /// Begins an advance of the domain's clock to `until`, or continues the one that a restored
    /// snapshot was taken in. An advance in progress is ended first.
    fn begin_advance(&mut self, domain: TimeDomain, until: i64);
    /// Makes a call of the timers that fire next in this advance, at most `limit` (at least one is
    /// tried), or `None` if none is left. The firing's keys become the current keys.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside of an advance or in an open call.
    fn pop_due(&mut self, limit: usize) -> Result<Option<Firing>, Error>;
    /// Ends the advance: timers that waited for the next one wait no longer. Nothing happens
    /// outside of an advance.
    fn end_advance(&mut self);
    /// Removes all timers of the domain and says how many; for what is still pending in processing
    /// time when the input has ended.
    fn drop_timers(&mut self, domain: TimeDomain) -> u64;

    /// Freezes all that has been applied, for [`advance_snapshot`](Self::advance_snapshot) to
    /// collect. One snapshot at a time: what is left of the last one is given up.
    ///
    /// `id` names the snapshot, from 1 on and higher each time. `base` is the id of the newest
    /// snapshot of this instance that is known to be durable, and from now on no older one may be;
    /// the snapshot may then need that one's file and those that it needs. With no base, or with
    /// one that the instance does not know, as after a restore, it needs no other file.
    fn freeze(&mut self, id: u64, base: Option<u64>);
    /// Collects about `budget` more of the frozen rows, in an open call or not. Whoever calls it in
    /// turn with batches keeps its steps as short as a batch: about 1,000 rows.
    ///
    /// # Errors
    /// [`Error::Misuse`] if nothing is frozen, as it is after the snapshot is done.
    fn advance_snapshot(&mut self, budget: usize) -> Result<Progress, Error>;
    /// Freezes all that has been applied and collects it at once, in place of a snapshot that is
    /// under way. Its id is 0, it needs no other file, and no other is based on it.
    fn snapshot(&mut self) -> Snapshot {
        self.freeze(STANDALONE, None);
        loop {
            let progress = self.advance_snapshot(usize::MAX);
            if let Progress::Done(snapshot) = progress.expect("it was frozen just now") {
                return snapshot;
            }
        }
    }
    /// Adds the entries and timers of one snapshot that belong to groups this instance owns. Called
    /// before the first call, once a snapshot, for every snapshot of the operator that may hold such
    /// a group: that of each old subtask whose groups overlap. `files` are those that the snapshot
    /// [needs](Snapshot::needs), in that order, and its own last. Snapshots of any implementation
    /// will do.
    ///
    /// All files are verified whole, groups of other subtasks included, before any of it counts.
    /// Beside what is restored, little memory is used.
    ///
    /// # Errors
    /// The instance is unchanged by a restore that fails.
    fn restore_files(&mut self, files: &mut [RestoreFile<'_>]) -> Result<RestoreSummary, Error>;
    /// Restores a snapshot that needs no other file than its own; see
    /// [`restore_files`](Self::restore_files). `name` is the file's in errors.
    ///
    /// # Errors
    /// As there.
    fn restore(&mut self, reader: &mut dyn Read, name: &str) -> Result<RestoreSummary, Error> {
        self.restore_files(&mut [RestoreFile { reader, name }])
    }
    /// What the instance holds.
    fn stats(&self) -> Stats;
}
