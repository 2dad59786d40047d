//! A model of the world: checkpoint storage, an output directory, and two hosts that run the same job.
//!
//! The hosts run the real machines ([`Recovery`], [`Coordinator`]) and the real decisions on slots and retention; the model does what
//! [`crate::checkpoint::driver`] does on a disk, one atomic operation a move. A host that is not moved is frozen. A crash
//! loses what a host knows and nothing that storage has.
//!
//! The job: a source with a file sink reads one record before each barrier and adds it to a part, which goes on over one barrier and is
//! complete at the next or at the end; an operator behind it acknowledges or declines. After the last record both end. With a Kafka sink
//! the record that follows a barrier is in the next transaction before anything else happens.

mod broker;
mod disk;
mod running;
mod starting;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::rc::Rc;

use xxhash_rust::xxh3::Xxh3;

use self::broker::Broker;
pub(super) use self::broker::Fate;
use self::disk::Disk;
use self::running::Running;
use self::starting::{Progress, Starting};
use crate::checkpoint::commit_point::CommitPoint;
use crate::checkpoint::coordinator::TaskId;
use crate::checkpoint::manifest::{Identity, Lineage, Manifest, SinkEntry};
use crate::checkpoint::recovery::{self, Options, Recovery, Step};
use crate::checkpoint::refusal::Refusal;
use crate::sink::StagedPart;

const JOB: &str = "j";
const SOURCE: TaskId = TaskId(0);
const OPERATOR: TaskId = TaskId(1);

/// A protocol with one rule broken. The search must find what goes wrong with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// None: the protocol as it is.
    Faithful,
    /// A commit is created under its checkpoint's number, not in the next slot of a dense log.
    CommitPerNumber,
    /// Trimming deletes claims too.
    TrimClaims,
    /// A claim counts although higher slots are there.
    NoTailCheck,
    /// What was not committed is deleted before the claim.
    DeleteBeforeClaim,
    /// Staged files of newer attempts are swept as well.
    SweepNewer,
    /// A witness may be turned back by an older attempt.
    WitnessBackwards,
    /// Refused on what was seen at different moments, without reading the log again.
    NoSecondLook,
    /// Parts become visible when the manifest is stored, before the slot.
    PublishBeforeSlot,
    /// Parts acknowledged for a checkpoint that failed already are forgotten.
    ForgetLateParts,
    /// Recovery does not publish what was committed.
    NoRedo,
    /// State files of equal contents share a name.
    SharedStateNames,
    /// The witness is written only when all parts are visible.
    WitnessAfterwards,
    /// The witness is not looked at when there is no log.
    BlindToWitness,
    /// An open part is taken over by a rename instead of a copy.
    AdoptByRename,
    /// The original of an open part goes as soon as it is taken over.
    DropOriginals,
    /// Open parts are swept.
    SweepOpen,
    /// What was taken over is not published.
    ForgetAdopted,
    /// An attempt that fails removes the part that it has open.
    DiscardOpen,
    /// Recovery goes on with the producers as they are.
    NoFence,
    /// Recovery fences only the producer of even numbers.
    FenceOne,
    /// The marker is read before the producers are fenced.
    ReadBeforeFence,
    /// The marker is committed in a transaction of its own, after the output.
    MarkerAfterwards,
    /// After a commit that was sent twice the attempt goes on, because the marker says that it succeeded.
    GoOnAfterUnclear,
    /// The slot is created before the transaction is committed.
    SlotBeforeTransaction,
    /// Recovery does not read the marker.
    TrustLog,
    /// Recovery does not write the marker as its own.
    NoClaimMarker,
    /// Recovery does not check that no newer attempt has claimed since.
    NoLastCheck,
    /// A checkpoint is skipped although its records are in a transaction.
    SkipWithRecords,
    /// All checkpoints use one producer.
    OneProducer,
}

/// Where the job's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sinks {
    File,
    Kafka,
    Both,
}

impl Sinks {
    fn file(self) -> bool {
        self != Sinks::Kafka
    }

    fn kafka(self) -> bool {
        self != Sinks::File
    }
}

/// How far the search goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Hosts, 1 or 2.
    pub(super) hosts: u8,
    /// Records that the source has.
    pub(super) records: u64,
    /// Times that a host starts, over both hosts.
    pub(super) starts: u8,
    /// Whether each deletion of a collection is a move of its own; else a collection is one move.
    pub(super) slow_collection: bool,
    /// Crashes of a running host and failures of its attempt.
    pub(super) crashes: u8,
    /// Checkpoints that the operator declines.
    pub(super) declines: u8,
    /// Times that somebody empties checkpoint storage, or puts an old copy back, while no host runs.
    pub(super) hands: u8,
    /// Where output goes.
    pub(super) sinks: Sinks,
    /// Requests to commit that are not simply answered, and transactions that time out.
    pub(super) faults: u8,
}

/// A value with its hash, which is computed at most once a change: most of the world stays the same from move to move.
#[derive(Clone)]
pub(super) struct Hashed<T> {
    pub(super) value: Rc<T>,
    hash: OnceCell<u128>,
}

impl<T: fmt::Debug> Hashed<T> {
    fn new(value: T) -> Hashed<T> {
        Hashed {
            value: Rc::new(value),
            hash: OnceCell::new(),
        }
    }

    pub(super) fn hash(&self) -> u128 {
        *self.hash.get_or_init(|| self.compute())
    }

    fn compute(&self) -> u128 {
        struct Sink(Xxh3);
        impl fmt::Write for Sink {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.update(text.as_bytes());
                Ok(())
            }
        }
        let mut sink = Sink(Xxh3::new());
        write!(sink, "{:?}", self.value).expect("hashing does not fail");
        sink.0.digest128()
    }
}

/// What a host is doing.
#[derive(Clone, Debug)]
pub(super) enum Host {
    /// Nothing; it owned this attempt last if the process lives on.
    Down { after: Option<u64> },
    /// Starting.
    Recovering(Box<Starting>),
    /// Running an attempt.
    Running(Box<Running>),
    /// Stopped for good; with a code if its start was refused.
    Over { refused: Option<&'static str> },
}

const OVER: Host = Host::Over { refused: None };

/// A move of the world: host and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Start(usize),
    /// The next operation of the driver or the recovery.
    Work(usize),
    /// The source takes a barrier, or ends.
    Source(usize),
    Operator(usize),
    Decline(usize),
    Crash(usize),
    /// The attempt fails, the process lives.
    Fail(usize),
    /// As `Work`, which commits a transaction, but the request does not simply succeed.
    Commit(usize, Fate),
    /// A request that was under way arrives.
    Arrive(usize),
    /// A transaction times out.
    Expire(usize),
    Empty,
    Save,
    RollBack,
}

/// The whole world.
#[derive(Clone)]
pub(super) struct World {
    pub(super) disk: Hashed<Disk>,
    saved: Option<Hashed<Disk>>,
    pub(super) hosts: [Hashed<Host>; 2],
    starts: u8,
    crashes: u8,
    declines: u8,
    hands: u8,
    faults: u8,
    pub(super) mutation: Mutation,
    records: u64,
    pub(super) sinks: Sinks,
    slow_collection: bool,
}

/// What the model found wrong.
pub(super) type Violation = String;

fn identity(sinks: Sinks) -> Identity {
    let file = SinkEntry {
        id: "out".to_owned(),
        dir: dir(),
    };
    Identity {
        job: JOB.to_owned(),
        max_parallelism: 8,
        commit_point: if sinks.kafka() {
            CommitPoint::Kafka(broker::point())
        } else {
            CommitPoint::Storage
        },
        topics: Vec::new(),
        sinks: sinks.file().then_some(file).into_iter().collect(),
        components: BTreeMap::new(),
    }
}

fn dir() -> PathBuf {
    PathBuf::from("/out")
}

/// A part that is begun before barrier `n`, empty. A byte is a record.
fn part(attempt: u64, n: u64) -> StagedPart {
    StagedPart {
        sink: "out".to_owned(),
        dir: dir(),
        staged: format!(".{n}-{attempt}"),
        name: format!("{n}-{attempt}"),
        bytes: 0,
        records: 0,
    }
}

fn attempt_of(staged: &str) -> u64 {
    let (_, attempt) = staged
        .split_once('-')
        .expect("names of parts have a hyphen");
    attempt.parse().expect("an attempt")
}

/// What a staged part is called once `attempt` has taken it over.
fn adopted(staged: &str, attempt: u64) -> String {
    let (before, _) = staged
        .split_once('-')
        .expect("names of parts have a hyphen");
    format!("{before}-{attempt}")
}

/// The position that a manifest records.
pub(super) fn position(manifest: &Manifest) -> u64 {
    match manifest.sources.first() {
        Some(source) => source.splits[0].position.as_u64().expect("a number"),
        None => 0,
    }
}

impl World {
    pub(super) fn new(bounds: Bounds, mutation: Mutation) -> World {
        let down = Hashed::new(Host::Down { after: None });
        World {
            disk: Hashed::new(Disk {
                broker: bounds.sinks.kafka().then(Broker::default),
                ..Disk::default()
            }),
            saved: None,
            hosts: [
                down.clone(),
                if bounds.hosts == 2 {
                    down
                } else {
                    Hashed::new(OVER)
                },
            ],
            starts: bounds.starts,
            crashes: bounds.crashes,
            declines: bounds.declines,
            hands: bounds.hands,
            faults: bounds.faults,
            mutation,
            records: bounds.records,
            sinks: bounds.sinks,
            slow_collection: bounds.slow_collection,
        }
    }

    /// A world on the same disk in which both hosts have crashed and one may start.
    pub(super) fn after_the_end(&self) -> World {
        let mut world = self.clone();
        let down = Hashed::new(Host::Down { after: None });
        world.hosts = [down.clone(), Hashed::new(OVER)];
        (world.starts, world.crashes, world.declines) = (1, 0, 0);
        (world.hands, world.faults) = (0, 0);
        world
    }

    /// Whether a request to commit is under way.
    pub(super) fn under_way(&self) -> bool {
        let broker = self.disk.value.broker.as_ref();
        broker.is_some_and(|broker| broker.under_way() > 0)
    }

    /// Equal for worlds that behave alike; the two hosts are interchangeable.
    pub(super) fn key(&self) -> u128 {
        let [a, b] = [self.hosts[0].hash(), self.hosts[1].hash()];
        let mut hasher = Xxh3::new();
        for part in [
            self.disk.hash(),
            self.saved.as_ref().map_or(0, |saved| saved.hash()),
            a.min(b),
            a.max(b),
        ] {
            hasher.update(&part.to_le_bytes());
        }
        hasher.update(&[self.starts, self.crashes, self.declines]);
        hasher.update(&[self.hands, self.faults]);
        hasher.digest128()
    }

    pub(super) fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        let mut idle = true;
        for (i, host) in self.hosts.iter().enumerate() {
            match &*host.value {
                Host::Over { .. } => {}
                Host::Down { .. } => {
                    if self.starts > 0 {
                        moves.push(Move::Start(i));
                    }
                }
                Host::Recovering(starting) => {
                    idle = false;
                    // A crash here is no different from being frozen for ever, followed by another start.
                    moves.push(Move::Work(i));
                    if starting.commits_in_kafka() {
                        self.commits(i, &mut moves);
                    }
                }
                Host::Running(running) => {
                    idle = false;
                    running.moves(i, self.declines > 0, &mut moves);
                    if running.commits_in_kafka() {
                        self.commits(i, &mut moves);
                    }
                    if self.crashes > 0 {
                        moves.extend([Move::Crash(i), Move::Fail(i)]);
                    }
                }
            }
        }
        if self.hands > 0 && idle {
            moves.push(Move::Empty);
            moves.push(match self.saved {
                None => Move::Save,
                Some(_) => Move::RollBack,
            });
        }
        if let Some(broker) = &self.disk.value.broker {
            if self.faults > 0 {
                let open = (0..2).filter(|id| broker.is_open(*id));
                moves.extend(open.map(Move::Expire));
            }
            moves.extend((0..broker.under_way()).map(Move::Arrive));
        }
        moves
    }

    fn commits(&self, host: usize, moves: &mut Vec<Move>) {
        if self.faults > 0 {
            let fates = [Fate::Lost, Fate::Late, Fate::Repeated];
            moves.extend(fates.map(|fate| Move::Commit(host, fate)));
        }
    }

    /// Makes a move.
    ///
    /// # Errors
    /// It broke the promise.
    pub(super) fn apply(&mut self, what: Move) -> Result<(), Violation> {
        let mut disk = (*self.disk.value).clone();
        match what {
            Move::Empty => {
                self.hands -= 1;
                disk = Disk {
                    witness: disk.witness,
                    staged: disk.staged,
                    published: disk.published,
                    files: disk.files,
                    broker: disk.broker,
                    tampered: true,
                    ..Disk::default()
                };
            }
            Move::Save => self.saved = Some(self.disk.clone()),
            Move::RollBack => {
                self.hands -= 1;
                let old = self.saved.take().expect("it was saved");
                disk = Disk {
                    witness: disk.witness,
                    staged: disk.staged,
                    published: disk.published,
                    files: disk.files,
                    broker: disk.broker,
                    tampered: true,
                    ..(*old.value).clone()
                };
            }
            Move::Arrive(k) => disk.arrives(k)?,
            Move::Expire(id) => {
                self.faults -= 1;
                disk.broker.as_mut().expect("it has an open one").init(id);
            }
            Move::Start(i)
            | Move::Work(i)
            | Move::Commit(i, _)
            | Move::Source(i)
            | Move::Operator(i)
            | Move::Decline(i)
            | Move::Crash(i)
            | Move::Fail(i) => {
                let host = (*self.hosts[i].value).clone();
                let host = self.host(host, what, &mut disk)?;
                self.hosts[i] = Hashed::new(host);
            }
        }
        self.disk = Hashed::new(disk);
        Ok(())
    }

    fn host(&mut self, host: Host, what: Move, disk: &mut Disk) -> Result<Host, Violation> {
        match (host, what) {
            (_, Move::Crash(_)) => {
                self.crashes -= 1;
                Ok(Host::Down { after: None })
            }
            (Host::Running(running), Move::Fail(_)) => {
                self.crashes -= 1;
                if self.mutation == Mutation::DiscardOpen {
                    running.discard(disk);
                }
                let after = Some(running.attempt);
                Ok(Host::Down { after })
            }
            (Host::Down { after }, Move::Start(_)) => {
                self.starts -= 1;
                let recovery = Recovery::new(recovery::Setup {
                    identity: identity(self.sinks),
                    options: Options::default(),
                    lineage: Lineage::from_bits(self.starts.into()),
                    after,
                    storage: "ckpt".to_owned(),
                });
                Ok(Host::Recovering(Box::new(Starting::new(recovery))))
            }
            (Host::Recovering(mut starting), what) => {
                let fate = self.fate(what);
                if let Progress::Failed { attempt } =
                    disk.recover(&mut starting, self.mutation, fate)?
                {
                    let after = Some(attempt);
                    return Ok(Host::Down { after });
                }
                // What touches no disk cannot be told from being done at once.
                while starting.nothing_to_see(disk) {
                    disk.recover(&mut starting, self.mutation, Fate::Answered)?;
                }
                match starting.recovery.step() {
                    Step::Refuse => {
                        let refusal = starting.recovery.into_refusal().expect("refused");
                        self.refused(disk, &refusal)?;
                        Ok(Host::Over {
                            refused: Some(refusal.code()),
                        })
                    }
                    Step::Done(outcome) if outcome.finished => Ok(OVER),
                    Step::Done(outcome) => {
                        let outcome = (**outcome).clone();
                        let running = Running::new(outcome, *starting, self.sinks, self.mutation);
                        Ok(running.begin(disk, self.records, self.mutation))
                    }
                    _ => Ok(Host::Recovering(starting)),
                }
            }
            (Host::Running(mut running), what) => {
                let fate = self.fate(what);
                let mut ended = match what {
                    Move::Source(_) => running.source(disk, self.records, self.mutation),
                    Move::Operator(_) => running.operator(disk, self.mutation),
                    Move::Decline(_) => {
                        self.declines -= 1;
                        running.decline()
                    }
                    _ => running.work(disk, self.mutation, fate)?,
                };
                while ended.is_none() && running.next_is_one_with_the_last(self.slow_collection) {
                    ended = running.work(disk, self.mutation, Fate::Answered)?;
                }
                Ok(ended.unwrap_or(Host::Running(running)))
            }
            (host, what) => unreachable!("{host:?} cannot {what:?}"),
        }
    }

    fn fate(&mut self, what: Move) -> Fate {
        match what {
            Move::Commit(_, fate) => {
                self.faults -= 1;
                fate
            }
            _ => Fate::Answered,
        }
    }

    /// A start may be refused because another host took over, and because somebody laid hands on storage; else never.
    fn refused(&self, disk: &Disk, refusal: &Refusal) -> Result<(), Violation> {
        if disk.tampered || matches!(refusal, Refusal::TakenOver { .. }) {
            return Ok(());
        }
        Err(format!("refused without reason: {refusal}"))
    }
}
