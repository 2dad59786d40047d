//! Does what the recovery and the coordinator ask for: the edge between the two machines and the disk.
//!
//! One driver lives as long as the process and takes it through all its attempts; it knows which attempt it owned last, so that it
//! never takes the job back from a host that took it over.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::commit_point::Marker;
use super::component::{ComponentFiles, ComponentName};
use super::coordinator::Event;
use super::log::{Commit, Log, Slot};
use super::manifest::{Identity, Lineage, Manifest, ManifestId};
use super::markers::{Markers, Standing};
use super::outputs::Outputs;
use super::recovery::{self, Answer, Options, Recovery, Step};
use super::refusal::Refusal;
use super::retention::Retention;
use super::snapshot::Digest;
use super::state_file::{StateFiles, StateName};
use super::storage::{CheckpointStorage, Created, Folder, Key, random_bits};
use super::witness::{self, Witness, Written};
use crate::clock::Reading;
use crate::fault_point;
use crate::sink::StagedPart;

pub use read::{KeptComponent, kept_component};

/// What the first line of a run's log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job starts from the beginning of its inputs. Nothing was committed under this lineage.
    Fresh,
    /// The job goes on.
    Resumed {
        /// The checkpoint.
        n: u64,
        /// When it was taken, milliseconds since the epoch.
        taken_at: i64,
    },
    /// Nothing is left to do.
    Finished {
        /// The last checkpoint.
        n: u64,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Fresh => f.write_str("fresh start"),
            Verdict::Resumed { n, .. } => write!(f, "resumed at checkpoint {n}"),
            Verdict::Finished { n } => write!(f, "finished already, at checkpoint {n}"),
        }
    }
}

/// Where an attempt begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// This attempt.
    pub attempt: u64,
    /// The history that goes on.
    pub lineage: Lineage,
    /// The checkpoint that is confirmed; 0 for a fresh start.
    pub confirmed: u64,
    /// The first number that was never used.
    pub next_n: u64,
    /// What to restore; `None` for a fresh start.
    pub manifest: Option<Manifest>,
    /// In a word.
    pub verdict: Verdict,
    /// Committed output that becomes visible with the attempt's first checkpoint.
    pub carried: Vec<StagedPart>,
}

/// What a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Manifests.
    pub manifests: usize,
    /// State files.
    pub files: usize,
    /// Components.
    pub components: usize,
    /// Slots of the log.
    pub slots: usize,
}

/// See the module.
pub struct Driver {
    storage: Arc<dyn CheckpointStorage>,
    outputs: Box<dyn Outputs>,
    /// Where commits are decided, if that is not the log.
    markers: Option<Arc<dyn Markers>>,
    identity: Identity,
    options: Options,
    retain: u32,
    /// The attempt owned last.
    after: Option<u64>,
    lineage: Option<Lineage>,
    log: Log,
    components: ComponentFiles,
    /// State files and components that the manifests of retained checkpoints, and of one in flight, name.
    roots: BTreeMap<ManifestId, BTreeSet<String>>,
    /// The manifest that was stored last, or was to be, and the times in it: it is the same when it is stored again.
    stamped: Option<(ManifestId, Reading)>,
    /// Number of the checkpoint that is the job's last one, once its manifest is stored.
    finishing: Option<u64>,
    /// Where originals of parts that were taken over lie; no longer needed once this attempt has a checkpoint of its own.
    superseded: Vec<PathBuf>,
}

impl Driver {
    /// A driver that owns nothing yet. `components` are those that `identity` names; `markers` are there if its commit point is in Kafka.
    /// `retain` confirmed checkpoints are kept, at least one.
    pub fn new(
        storage: Arc<dyn CheckpointStorage>,
        outputs: Box<dyn Outputs>,
        markers: Option<Arc<dyn Markers>>,
        identity: Identity,
        components: ComponentFiles,
        options: Options,
        retain: u32,
    ) -> Driver {
        Driver {
            storage,
            outputs,
            markers,
            identity,
            options,
            retain: retain.max(1),
            after: None,
            lineage: None,
            log: Log::default(),
            components,
            roots: BTreeMap::new(),
            stamped: None,
            finishing: None,
            superseded: Vec::new(),
        }
    }

    /// Begins an attempt: finds out where the job stands, claims the log, finishes what was committed and clears what never
    /// happened. `now` is the wall clock in milliseconds since the epoch, recorded if a lineage begins.
    ///
    /// Once it has succeeded, `--fresh` is done with: later calls resume.
    ///
    /// # Errors
    /// [`Refusal`]. Nothing was written before the claim, apart from `job.json`.
    pub fn recover(&mut self, now: i64) -> Result<Recovered, Refusal> {
        let bits = random_bits().map_err(|error| Refusal::Storage {
            what: "cannot read /dev/urandom".to_owned(),
            error: error.to_string(),
        })?;
        let mut recovery = Recovery::new(recovery::Setup {
            identity: self.identity.clone(),
            options: self.options,
            lineage: Lineage::from_bits(bits),
            after: self.after,
            storage: self.storage.location(),
        });
        self.roots.clear();
        self.finishing = None;
        self.superseded.clear();
        let outcome = loop {
            match recovery.step().clone() {
                Step::Done(outcome) => break *outcome,
                Step::Refuse => {
                    let refusal = recovery.into_refusal();
                    return Err(refusal.expect("a refusal has its reason"));
                }
                step => {
                    let answer = self.perform(&step, now);
                    recovery.answer(answer.map_err(|error| self.refusal(&step, &error))?);
                }
            }
        };
        self.log = recovery.into_log();
        self.lineage = Some(outcome.lineage.clone());
        self.options = Options::default();
        let confirmed = outcome.manifest.as_ref().map_or(0, |manifest| manifest.n);
        let verdict = match &outcome.manifest {
            None => Verdict::Fresh,
            Some(manifest) if outcome.finished => Verdict::Finished { n: manifest.n },
            Some(manifest) => Verdict::Resumed {
                n: manifest.n,
                taken_at: manifest.taken_at,
            },
        };
        Ok(Recovered {
            attempt: outcome.attempt,
            lineage: outcome.lineage,
            confirmed,
            next_n: outcome.next_n,
            manifest: outcome.manifest,
            verdict,
            carried: outcome.carried,
        })
    }

    /// Whether a newer attempt than ours has claimed the job: of another host, then, which may be what made ours fail. What storage does not
    /// tell is found out by the next attempt.
    pub fn taken_over(&self) -> Option<Refusal> {
        let log = read::log(&*self.storage).ok()?.ok()?;
        let by = log.newest_attempt();
        let job = self.identity.job.clone();
        (by > self.after?).then_some(Refusal::TakenOver { job, by })
    }

    /// The job as it is for the attempts that follow: topics may have been created again.
    pub fn identify(&mut self, identity: &Identity) {
        self.identity.clone_from(identity);
    }

    /// Where checkpoint storage is, for messages.
    pub fn location(&self) -> String {
        self.storage.location()
    }

    /// Writes and reads this attempt's state files.
    ///
    /// # Panics
    /// Before the first [`Driver::recover`].
    pub fn state_files(&self) -> StateFiles {
        StateFiles::new(Arc::clone(&self.storage), self.attempt())
    }

    fn attempt(&self) -> u64 {
        self.after.expect("an attempt was recovered")
    }

    fn perform(&mut self, step: &Step, now: i64) -> io::Result<Answer> {
        let storage = &*self.storage;
        let job = &self.identity.job;
        Ok(match step {
            Step::ReadOwner => Answer::Owner(read::owner(storage)?),
            Step::ReadLog => Answer::Log(read::log(storage)?),
            Step::ReadManifests => {
                let manifests = read::manifests(storage)?;
                let usable = manifests.iter().filter_map(|seen| {
                    let (manifest, _) = seen.contents.as_ref().ok()?;
                    Some((seen.id, names(manifest)))
                });
                self.roots = usable.collect();
                Answer::Manifests(manifests)
            }
            Step::ReadWitnesses(dirs) => {
                let found = dirs
                    .iter()
                    .map(|dir| Ok((dir.clone(), witness::read(dir, job)?)));
                Answer::Witnesses(found.collect::<io::Result<_>>()?)
            }
            Step::Look { files, parts, open } => {
                let size = |name: &str| match Key::state(name) {
                    Some(key) => storage.size(&key),
                    None => Ok(None),
                };
                let files = files.iter().map(|file| size(&file.name));
                let parts = parts.iter().map(|part| self.outputs.look(part));
                let open = open.iter().map(|part| self.outputs.length(part));
                Answer::Looked {
                    files: files.collect::<io::Result<_>>()?,
                    parts: parts.collect::<io::Result<_>>()?,
                    open: open.collect::<io::Result<_>>()?,
                }
            }
            Step::Own => taken(storage.create(&Key::owner(), &read::encode_owner(job))?),
            Step::Claim(slot) => {
                fault_point::pass("before-claim");
                let created = storage.create(&Key::slot(slot.index), &slot.encode());
                if !matches!(created, Ok(Created::Taken)) {
                    // Also if the outcome is unknown: a claim of this attempt that turns up later is our own.
                    self.after = Some(slot.entry.attempt());
                }
                let created = created?;
                fault_point::pass("after-claim");
                taken(created)
            }
            Step::CheckTail => Answer::Highest(read::highest_slot(storage)?),
            Step::Peek(at) => Answer::Markers(vec![self.markers()?.peek(at)?]),
            Step::Fence(points) => {
                let standing = self.markers()?.fence(points)?;
                fault_point::pass("after-fence");
                answer(standing)
            }
            Step::ReadMarkers(points) => {
                let markers = self.markers()?;
                let found = points.iter().map(|at| markers.read(at));
                Answer::Markers(found.collect::<io::Result<_>>()?)
            }
            Step::Resolve(slot) => {
                let created = storage.create(&Key::slot(slot.index), &slot.encode())?;
                fault_point::pass("after-resolve");
                taken(created)
            }
            Step::WriteMarker(marker) => {
                let standing = self.markers()?.write(marker)?;
                fault_point::pass("after-claim-marker");
                answer(standing)
            }
            Step::ListManifests => Answer::Ids(read::manifest_ids(storage)?),
            Step::DeleteManifests(ids) => {
                for id in ids {
                    storage.delete(&Key::manifest(*id))?;
                }
                Answer::Done
            }
            Step::StoreManifest(manifest) => {
                let mut manifest = (**manifest).clone();
                manifest.taken_at = now;
                manifest.processing_time = now;
                self.components.store(storage, manifest.attempt)?;
                Answer::Stored(store(storage, &manifest)?)
            }
            Step::CommitMarker(slot) => {
                let created = storage.create(&Key::slot(slot.index), &slot.encode())?;
                fault_point::pass("after-marker");
                taken(created)
            }
            Step::Publish(parts) => {
                self.outputs.publish(parts)?;
                fault_point::pass("after-renames");
                Answer::Done
            }
            Step::Sweep {
                dirs,
                keep,
                attempt,
            } => {
                storage.sweep()?;
                self.outputs.sweep(dirs, keep, *attempt)?;
                for dir in dirs {
                    witness::sweep(dir, job)?;
                }
                Answer::Done
            }
            Step::Adopt { open, attempt } => {
                let adopted = self.outputs.adopt(open, *attempt)?;
                let dirs: BTreeSet<_> = open.iter().map(|part| part.dir.clone()).collect();
                self.superseded = dirs.into_iter().collect();
                fault_point::pass("after-adoption");
                Answer::Adopted(adopted)
            }
            Step::WriteWitnesses { dirs, witness } => {
                match write_witnesses(dirs.iter(), witness)? {
                    Written::Done => Answer::Done,
                    Written::Newer { attempt } => Answer::TakenOver { by: attempt },
                }
            }
            Step::Done(_) | Step::Refuse => unreachable!("nothing is left to perform"),
        })
    }

    fn markers(&self) -> io::Result<Arc<dyn Markers>> {
        self.markers
            .clone()
            .ok_or_else(|| io::Error::other("this weir was built without Kafka"))
    }

    /// What an error while a step was done comes to.
    fn refusal(&self, step: &Step, error: &io::Error) -> Refusal {
        let (what, why) = (self.describe(step), error.to_string());
        let asks_kafka = matches!(
            step,
            Step::Peek(_) | Step::Fence(_) | Step::ReadMarkers(_) | Step::WriteMarker(_)
        );
        if asks_kafka {
            let may_pass = error.kind() != io::ErrorKind::PermissionDenied;
            return Refusal::CommitPoint {
                what,
                why,
                may_pass,
            };
        }
        Refusal::Storage { what, error: why }
    }

    /// What was tried, for the message of an input or output error.
    fn describe(&self, step: &Step) -> String {
        let storage = self.storage.location();
        match step {
            Step::ReadOwner | Step::ReadLog | Step::ReadManifests => {
                format!("cannot read checkpoint storage {storage}")
            }
            Step::ReadWitnesses(_) | Step::Look { .. } => {
                format!("cannot look at output and {storage}")
            }
            Step::Peek(_) | Step::ReadMarkers(_) => {
                format!(
                    "cannot find out in Kafka what is committed ({})",
                    self.identity.commit_point
                )
            }
            Step::Fence(_) => {
                format!(
                    "cannot end what earlier attempts have open in Kafka ({})",
                    self.identity.commit_point
                )
            }
            Step::WriteMarker(_) => {
                format!(
                    "cannot claim the job in Kafka ({})",
                    self.identity.commit_point
                )
            }
            Step::Publish(_) => "cannot publish committed output".to_owned(),
            Step::Sweep { .. } => "cannot remove what earlier attempts left behind".to_owned(),
            Step::Adopt { .. } => "cannot take over the output that was begun".to_owned(),
            Step::WriteWitnesses { .. } => "cannot write the witness beside the output".to_owned(),
            _ => format!("cannot write checkpoint storage {storage}"),
        }
    }

    /// Does [`super::Action::StoreManifest`]. One that is stored again, because whether it was stored is not known, keeps its times.
    pub fn store_manifest(&mut self, mut manifest: Manifest, now: Reading) -> Event {
        let id = manifest.id();
        let first = self.stamped.filter(|(stamped, _)| *stamped == id);
        let (_, at) = *self.stamped.insert(first.unwrap_or((id, now)));
        manifest.taken_at = at.wall;
        manifest.processing_time = at.processing;
        let n = manifest.n;
        let components = self.components.store(&*self.storage, manifest.attempt);
        match components.and_then(|()| store(&*self.storage, &manifest)) {
            Ok(digest) => {
                fault_point::pass("after-manifest");
                self.roots.insert(manifest.id(), names(&manifest));
                self.finishing = manifest.finished.then_some(n);
                Event::ManifestStored { n, digest }
            }
            Err(error) => Event::ManifestFailed {
                n,
                why: format!(
                    "manifest {} in {}: {error}",
                    manifest.id(),
                    self.storage.location()
                ),
            },
        }
    }

    /// What must be committed in Kafka before [`Driver::commit`] may be called for checkpoint `n`, and where; `None` if the log
    /// decides.
    ///
    /// # Panics
    /// Before the first [`Driver::recover`].
    pub fn marker(&self, n: u64, digest: Digest) -> Option<(Arc<dyn Markers>, Marker)> {
        let markers = self.markers.clone()?;
        self.identity.commit_point.kafka()?;
        Some((
            markers,
            Marker::new(&self.commit_of(n, digest), self.attempt()),
        ))
    }

    fn commit_of(&self, n: u64, digest: Digest) -> Commit {
        Commit {
            lineage: self.lineage.clone().expect("an attempt was recovered"),
            n,
            attempt: self.attempt(),
            manifest: digest,
        }
    }

    /// Does [`super::Action::CommitSlot`].
    ///
    /// # Panics
    /// Before the first [`Driver::recover`].
    pub fn commit(&mut self, n: u64, digest: Digest) -> Event {
        let attempt = self.attempt();
        let slot = self.log.commit(self.commit_of(n, digest), self.retain);
        let location = self.storage.location();
        let unclear = |why: String| Event::CommitFailed {
            n,
            why: format!("slot {} in {location}: {why}", slot.index),
        };
        let key = Key::slot(slot.index);
        let there = match self.storage.create(&key, &slot.encode()) {
            Ok(Created::New) => None,
            Ok(Created::Taken) => match self.storage.get(&key) {
                Ok(there) => there,
                Err(error) => return unclear(error.to_string()),
            },
            Err(error) => return unclear(error.to_string()),
        };
        match there.map(|bytes| Slot::decode(slot.index, &bytes)) {
            None => {}
            Some(Ok(there)) if there == slot => {}
            Some(Ok(there)) if there.entry.attempt() > attempt => {
                return Event::TakenOver {
                    by: there.entry.attempt(),
                };
            }
            Some(Ok(there)) => return unclear(format!("it holds {:?} already", there.entry)),
            Some(Err(defect)) => return unclear(defect.to_string()),
        }
        self.log.push(slot);
        fault_point::pass("after-slot");
        if self.finishing == Some(n) {
            fault_point::pass("after-last-commit");
        }
        Event::Committed { n }
    }

    /// Does [`super::Action::Publish`].
    ///
    /// # Panics
    /// Before the first [`Driver::recover`].
    pub fn publish(&mut self, n: u64, parts: &[StagedPart]) -> Event {
        let failed = |error: io::Error| Event::PublishFailed {
            n,
            why: error.to_string(),
        };
        match self.make_visible(n, parts) {
            Ok(Written::Done) => Event::Published { n },
            Ok(Written::Newer { attempt }) => Event::TakenOver { by: attempt },
            Err(error) => failed(error),
        }
    }

    fn make_visible(&mut self, n: u64, parts: &[StagedPart]) -> io::Result<Written> {
        let mut witness = Witness {
            format: witness::FORMAT,
            job: self.identity.job.clone(),
            lineage: self.lineage.clone().expect("an attempt was recovered"),
            n,
            complete: false,
            attempt: self.attempt(),
        };
        let concerned: BTreeSet<_> = parts.iter().map(|part| &part.dir).collect();
        let written = write_witnesses(concerned.iter().copied(), &witness)?;
        if written != Written::Done {
            return Ok(written);
        }
        fault_point::pass("before-renames");
        self.outputs.publish(parts)?;
        fault_point::pass("after-renames");
        witness.complete = true;
        let all = self.identity.sinks.iter().map(|sink| &sink.dir);
        let all: BTreeSet<_> = all.chain(concerned).collect();
        let written = write_witnesses(all.into_iter(), &witness)?;
        fault_point::pass("after-witness");
        Ok(written)
    }

    /// Does [`super::Action::Collect`]: deletes manifests, state files, components and slots that no retained checkpoint needs, and parts of
    /// earlier attempts whose committed contents were taken over and are published by now. Only what this attempt
    /// or an older one wrote, and of this one only what belongs to checkpoints up to `confirmed`: a checkpoint in flight is untouched.
    ///
    /// # Errors
    /// Something may remain; the next collection finds it again.
    ///
    /// # Panics
    /// Before the first [`Driver::recover`].
    pub fn collect(&mut self, confirmed: u64) -> io::Result<Collected> {
        let attempt = self.attempt();
        let mut collected = Collected::default();
        let retention = Retention::new(&self.log, attempt, confirmed);
        for id in read::manifest_ids(&*self.storage)? {
            if retention.collects_manifest(id) {
                self.storage.delete(&Key::manifest(id))?;
                collected.manifests += 1;
                fault_point::pass("mid-collection");
            }
        }
        self.roots.retain(|id, _| !retention.collects_manifest(*id));
        let named: BTreeSet<&String> = self.roots.values().flatten().collect();
        for text in self.storage.list(Folder::State)? {
            if StateName::parse(&text).is_some_and(|name| retention.collects_file(&name))
                && !named.contains(&text)
                && let Some(key) = Key::state(&text)
            {
                self.storage.delete(&key)?;
                collected.files += 1;
                fault_point::pass("mid-collection");
            }
        }
        for text in self.storage.list(Folder::Components)? {
            if let Some(name) = ComponentName::parse(&text)
                && retention.collects_component(&name)
                && !named.contains(&text)
            {
                self.storage.delete(&Key::component(name))?;
                collected.components += 1;
                fault_point::pass("mid-collection");
            }
        }
        // Once the newest commit is this attempt's, nothing needs what older ones staged.
        let newest = self.log.newest_commit();
        if !self.superseded.is_empty() && newest.is_some_and(|commit| commit.attempt == attempt) {
            self.outputs.sweep(&self.superseded, &[], attempt)?;
            self.superseded.clear();
        }
        for index in self.log.trimmable() {
            self.storage.delete(&Key::slot(index))?;
            self.log.forget(index);
            collected.slots += 1;
        }
        Ok(collected)
    }
}

/// The state files and components that a manifest names. A component's name has a hyphen less than a state file's.
fn names(manifest: &Manifest) -> BTreeSet<String> {
    let components = manifest.components.values().map(|component| {
        ComponentName {
            attempt: manifest.attempt,
            digest: component.sha256,
        }
        .to_string()
    });
    let files = manifest.files().map(|file| file.name.clone());
    files.chain(components).collect()
}

fn taken(created: Created) -> Answer {
    match created {
        Created::New => Answer::Done,
        Created::Taken => Answer::Taken,
    }
}

fn answer(standing: Standing) -> Answer {
    match standing {
        Standing::Ours => Answer::Done,
        Standing::Fenced => Answer::Fenced,
    }
}

/// Creates a manifest. One that is there already is fine if it is the same: a repeated request.
fn store(storage: &dyn CheckpointStorage, manifest: &Manifest) -> io::Result<Digest> {
    let (bytes, digest) = manifest.encode();
    let key = Key::manifest(manifest.id());
    if storage.create(&key, &bytes)? == Created::Taken {
        let there = storage.get(&key)?.map(|there| Digest::of(&there));
        if there != Some(digest) {
            let what = format!("another manifest {} is there already", manifest.id());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
    }
    Ok(digest)
}

fn write_witnesses<'a>(
    dirs: impl Iterator<Item = &'a PathBuf>,
    witness: &Witness,
) -> io::Result<Written> {
    for dir in dirs {
        let written = witness::write(dir, witness)?;
        if written != Written::Done {
            return Ok(written);
        }
    }
    Ok(Written::Done)
}
