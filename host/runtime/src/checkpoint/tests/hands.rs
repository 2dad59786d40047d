//! The driver on a real directory, and the operator's hands on it: each case ends exact or in a named stop.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::commit_point::CommitPoint;
use crate::checkpoint::coordinator::Event;
use crate::checkpoint::manifest::{Header, Identity, Manifest, ManifestId, SinkEntry};
use crate::checkpoint::outputs::Adoption;
use crate::checkpoint::state_file::Label;
use crate::checkpoint::{
    ComponentEntry, ComponentFiles, Driver, LocalDirectory, Markers, OperatorSnapshot, Options,
    Outputs, PartFound, Recovered, Refusal, SourceSnapshot, TaskSnapshot, Verdict,
};
use crate::clock::Reading;
use crate::sink::StagedPart;
use crate::source::SplitState;

mod kafka;
mod open_parts;

/// Parts of a few bytes, named `<n>-<attempt>` and staged with a dot before that.
struct Files;

impl Outputs for Files {
    fn look(&self, part: &StagedPart) -> io::Result<PartFound> {
        for (name, found) in [
            (&part.staged, PartFound::Staged),
            (&part.name, PartFound::Published),
        ] {
            match fs::metadata(part.dir.join(name)) {
                Ok(metadata) if metadata.len() == part.bytes => return Ok(found),
                Ok(metadata) => {
                    return Ok(PartFound::Length {
                        found: metadata.len(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(PartFound::Missing)
    }

    fn length(&self, part: &StagedPart) -> io::Result<Option<u64>> {
        match fs::metadata(part.dir.join(&part.staged)) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn adopt(&mut self, open: &[StagedPart], attempt: u64) -> io::Result<Adoption> {
        let adopt = |part: &StagedPart| {
            let (before, _) = part.staged.split_once('-').expect("a part's name");
            let staged = format!("{before}-{attempt}");
            let contents = fs::read(part.dir.join(&part.staged))?;
            fs::write(part.dir.join(&staged), &contents[..part.bytes as usize])?;
            Ok(StagedPart {
                staged,
                ..part.clone()
            })
        };
        open.iter().map(adopt).collect::<io::Result<_>>().map(Ok)
    }

    fn publish(&mut self, parts: &[StagedPart]) -> io::Result<()> {
        for part in parts {
            match fs::rename(part.dir.join(&part.staged), part.dir.join(&part.name)) {
                Err(_) if part.dir.join(&part.name).exists() => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn sweep(&mut self, dirs: &[PathBuf], keep: &[StagedPart], attempt: u64) -> io::Result<()> {
        for dir in dirs.iter().filter(|dir| dir.is_dir()) {
            for name in names(dir) {
                let by = name.strip_prefix('.').and_then(|name| name.split_once('-'));
                let older = by.is_some_and(|(_, by)| by.parse().is_ok_and(|by: u64| by < attempt));
                if older && !keep.iter().any(|part| part.staged == name) {
                    fs::remove_file(dir.join(name))?;
                }
            }
        }
        Ok(())
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    names
}

/// When manifests are written.
const NOW: Reading = Reading {
    wall: 2_000,
    processing: 2_000,
};

/// The names that a reader of the output sees.
fn visible(dir: &Path) -> Vec<String> {
    names(dir)
        .into_iter()
        .filter(|name| !name.starts_with('.'))
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copied");
        }
    }
}

fn files_under(dir: &Path) -> Vec<PathBuf> {
    let paths = names(dir).into_iter().map(|name| dir.join(name));
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_under(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

struct Place {
    root: tempfile::TempDir,
    identity: Identity,
    component: Option<Arc<[u8]>>,
    markers: Option<Arc<dyn Markers>>,
}

/// A process: a driver and what it recovered.
struct Process {
    driver: Driver,
    recovered: Recovered,
    confirmed: u64,
    next_n: u64,
}

impl Place {
    fn new() -> Place {
        let root = tempfile::tempdir().expect("a temporary directory");
        let identity = Identity {
            job: "flights".to_owned(),
            max_parallelism: 128,
            commit_point: CommitPoint::Storage,
            topics: Vec::new(),
            sinks: vec![SinkEntry {
                id: "out".to_owned(),
                dir: root.path().join("out"),
            }],
            components: BTreeMap::new(),
        };
        Place {
            root,
            identity,
            component: None,
            markers: None,
        }
    }

    fn checkpoints(&self) -> PathBuf {
        self.root.path().join("ckpt")
    }

    fn out(&self) -> PathBuf {
        self.root.path().join("out")
    }

    fn driver(&self, options: Options) -> Driver {
        let storage = LocalDirectory::open(self.checkpoints()).expect("it opens");
        Driver::new(
            Arc::new(storage),
            Box::new(Files),
            self.markers.clone(),
            self.identity.clone(),
            ComponentFiles::new(self.component.clone()),
            options,
            3,
        )
    }

    fn try_start(&self, options: Options) -> Result<Process, Refusal> {
        let mut driver = self.driver(options);
        let recovered = driver.recover(1_000)?;
        Ok(Process {
            confirmed: recovered.confirmed,
            next_n: recovered.next_n,
            driver,
            recovered,
        })
    }

    fn start(&self) -> Process {
        self.try_start(Options::default()).expect("it starts")
    }

    #[track_caller]
    fn refused(&self, options: Options, code: &str) -> String {
        match self.try_start(options) {
            Ok(process) => panic!("started: {:?}", process.recovered.verdict),
            Err(refusal) => {
                assert_eq!(refusal.code(), code, "{refusal}");
                assert!(refusal.to_string().contains("\n  help: "), "{refusal}");
                refusal.to_string()
            }
        }
    }

    /// A job that has `count` confirmed checkpoints, in a process that has been killed.
    fn after(count: u64) -> Place {
        let place = Place::new();
        let mut process = place.start();
        (0..count).for_each(|_| process.checkpoint(&place));
        place
    }
}

impl Process {
    fn part(&self, place: &Place, n: u64) -> StagedPart {
        let name = format!("{n}-{}", self.recovered.attempt);
        let part = StagedPart {
            sink: "out".to_owned(),
            dir: match place.identity.sinks.first() {
                Some(sink) => sink.dir.clone(),
                None => place.out(),
            },
            staged: format!(".{name}"),
            bytes: name.len() as u64,
            name,
            records: 1,
        };
        fs::write(part.dir.join(&part.staged), &part.name).expect("staged");
        part
    }

    /// Stages a part, writes a state file and puts the manifest together.
    fn prepare(&mut self, place: &Place, finished: bool) -> Manifest {
        let n = self.next_n;
        self.next_n += 1;
        let label = if finished {
            Label::End
        } else {
            Label::Barrier(n)
        };
        let mut writer = self.driver.state_files().create(label).expect("started");
        write!(writer, "state at {n}").expect("written");
        let snapshot = TaskSnapshot {
            sources: vec![SourceSnapshot {
                id: "in".to_owned(),
                splits: vec![SplitState {
                    split: 0,
                    name: "f".to_owned(),
                    done: finished,
                    max_time: 0,
                    position: n.into(),
                }],
            }],
            operators: vec![OperatorSnapshot {
                id: "op".to_owned(),
                subtask: 0,
                parallelism: 1,
                watermark: 0,
                files: vec![writer.finish().expect("durable")],
                held: 0,
                finished,
            }],
            sinks: Vec::new(),
        };
        let header = Header {
            lineage: self.recovered.lineage.clone(),
            id: ManifestId {
                n,
                attempt: self.recovered.attempt,
            },
            parent: Some(self.confirmed),
            finished,
            last: finished,
        };
        let mut staged = std::mem::take(&mut self.recovered.carried);
        if place.markers.is_none() || !place.identity.sinks.is_empty() {
            staged.push(self.part(place, n));
        }
        Manifest::assemble(&place.identity, header, [&snapshot], staged)
    }

    fn store(&mut self, manifest: &Manifest) -> crate::checkpoint::snapshot::Digest {
        match self.driver.store_manifest(manifest.clone(), NOW) {
            Event::ManifestStored { digest, .. } => digest,
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, manifest: &Manifest) {
        let digest = self.store(manifest);
        if let Some((markers, marker)) = self.driver.marker(manifest.n, digest) {
            markers.commit(&marker).expect("committed");
        }
        let event = self.driver.commit(manifest.n, digest);
        assert!(matches!(event, Event::Committed { .. }), "{event:?}");
    }

    fn publish(&mut self, manifest: &Manifest) {
        let event = self.driver.publish(manifest.n, &manifest.staged);
        assert!(matches!(event, Event::Published { .. }), "{event:?}");
        self.confirmed = manifest.n;
        self.driver.collect(manifest.n).expect("collected");
    }

    fn checkpoint(&mut self, place: &Place) {
        let manifest = self.prepare(place, false);
        self.commit(&manifest);
        self.publish(&manifest);
    }

    /// The state that the restored manifest names.
    fn state(&self) -> io::Result<String> {
        let manifest = self.recovered.manifest.as_ref().expect("resumed");
        let file = manifest.files().next().expect("a file");
        let mut reader = self.driver.state_files().reader(file);
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        reader.verify()?;
        Ok(text)
    }
}

const FRESH: Options = Options {
    fresh: true,
    accept_duplicates: false,
};

const OVERRIDE: Options = Options {
    fresh: true,
    accept_duplicates: true,
};

const PLAIN: Options = Options {
    fresh: false,
    accept_duplicates: false,
};

#[test]
fn a_killed_job_resumes_where_its_last_checkpoint_was() {
    let place = Place::after(3);
    let process = place.start();
    let resumed = Verdict::Resumed {
        n: 3,
        taken_at: 2_000,
    };
    assert_eq!(process.recovered.verdict, resumed);
    assert_eq!(
        (process.recovered.attempt, process.recovered.next_n),
        (2, 4)
    );
    assert_eq!(process.state().expect("undamaged"), "state at 3");
    assert_eq!(visible(&place.out()), ["1-1", "2-1", "3-1"]);
}

#[test]
fn killed_before_its_first_checkpoint_a_job_starts_from_the_beginning_in_the_same_lineage() {
    let place = Place::new();
    let first = place.start();
    let second = place.start();
    assert_eq!(second.recovered.verdict, Verdict::Fresh);
    assert_eq!(second.recovered.manifest, None);
    assert_eq!(second.recovered.lineage, first.recovered.lineage);
    assert_eq!(second.recovered.attempt, 2);
}

#[test]
fn output_committed_but_not_published_is_published_by_the_next_start() {
    let place = Place::after(1);
    let mut process = place.start();
    let manifest = process.prepare(&place, false);
    process.commit(&manifest);
    assert_eq!(visible(&place.out()), ["1-1"]);
    let process = place.start();
    assert_eq!(process.confirmed, 2);
    assert_eq!(visible(&place.out()), ["1-1", "2-2"]);
}

#[test]
fn what_was_never_committed_is_removed_and_its_number_not_used_again() {
    let place = Place::after(1);
    let mut process = place.start();
    let manifest = process.prepare(&place, false);
    process.store(&manifest);
    let mut process = place.start();
    assert_eq!((process.confirmed, process.next_n), (1, 3));
    assert_eq!(visible(&place.out()), ["1-1"]);
    assert_eq!(names(&place.out()), [".weir-flights.json", "1-1"]);
    process.checkpoint(&place);
    assert_eq!(visible(&place.out()), ["1-1", "3-3"]);
    let manifests = names(&place.checkpoints().join("manifests"));
    assert_eq!(manifests, ["0-1.json", "1-1.json", "3-3.json"]);
    // The file of the number that never happened is gone as well.
    assert_eq!(names(&place.checkpoints().join("state")).len(), 2);
}

#[test]
fn a_finished_job_does_nothing_and_says_so() {
    let place = Place::after(1);
    let mut process = place.start();
    let manifest = process.prepare(&place, true);
    process.commit(&manifest);
    process.publish(&manifest);
    let before = files_under(place.root.path());
    let process = place.start();
    assert_eq!(process.recovered.verdict, Verdict::Finished { n: 2 });
    assert_eq!(files_under(place.root.path()), before);
}

#[test]
fn a_finished_job_that_was_killed_before_its_renames_finishes_them() {
    let place = Place::after(1);
    let mut process = place.start();
    let manifest = process.prepare(&place, true);
    process.commit(&manifest);
    assert_eq!(place.start().recovered.verdict, Verdict::Finished { n: 2 });
    assert_eq!(visible(&place.out()), ["1-1", "2-2"]);
}

#[test]
fn disk_use_does_not_grow_with_checkpoints() {
    let place = Place::after(40);
    let ckpt = place.checkpoints();
    assert_eq!(
        names(&ckpt.join("manifests")),
        ["38-1.json", "39-1.json", "40-1.json"]
    );
    assert_eq!(names(&ckpt.join("state")).len(), 3);
    // The claim and three commits.
    assert_eq!(names(&ckpt.join("log")).len(), 4);
    assert_eq!(place.start().confirmed, 40);
}

#[test]
fn an_emptied_directory_beside_output_is_not_a_fresh_start() {
    let place = Place::after(3);
    fs::remove_dir_all(place.checkpoints()).expect("removed");
    let message = place.refused(PLAIN, "W0503");
    assert!(message.starts_with(
        "refusing to start from nothing: job `flights` has committed checkpoint 3\n  lineage "
    ));
    assert!(
        message.contains("ckpt is empty. Is the volume mounted?"),
        "{message}"
    );
    // The refusal itself must not make the next start succeed.
    place.refused(PLAIN, "W0503");
    place.refused(FRESH, "W0516");
    let process = place.try_start(OVERRIDE).expect("told to");
    assert_eq!(process.recovered.verdict, Verdict::Fresh);
    assert_eq!(place.start().recovered.lineage, process.recovered.lineage);
}

#[test]
fn a_directory_rolled_back_is_noticed_by_one_checkpoint_or_many() {
    for newer in [1, 3] {
        let place = Place::after(2);
        let old = place.root.path().join("old");
        copy(&place.checkpoints(), &old);
        let mut process = place.start();
        (0..newer).for_each(|_| process.checkpoint(&place));
        fs::remove_dir_all(place.checkpoints()).expect("removed");
        copy(&old, &place.checkpoints());
        let message = place.refused(PLAIN, "W0504");
        let says = format!(
            "ends at checkpoint 2, but the witness in {}",
            place.out().display()
        );
        assert!(message.contains(&says), "{message}");
    }
}

#[test]
fn without_a_file_sink_a_log_that_lost_its_end_is_noticed_by_the_manifests() {
    let mut place = Place::new();
    place.identity.sinks.clear();
    fs::create_dir(place.out()).expect("created");
    let mut process = place.start();
    (0..2).for_each(|_| process.checkpoint(&place));
    let manifest = process.prepare(&place, false);
    process.store(&manifest);
    let log = place.checkpoints().join("log");
    let newest = names(&log).pop().expect("a slot");
    fs::remove_file(log.join(newest)).expect("removed");
    let message = place.refused(PLAIN, "W0504");
    assert!(
        message.contains("manifest 3-1.json was taken after checkpoint 2"),
        "{message}"
    );
}

#[test]
fn output_that_is_gone_or_rolled_back_is_noticed() {
    let place = Place::after(2);
    let old = place.root.path().join("old");
    copy(&place.out(), &old);
    let mut process = place.start();
    (0..2).for_each(|_| process.checkpoint(&place));
    fs::remove_dir_all(place.out()).expect("removed");
    let message = place.refused(PLAIN, "W0506");
    assert!(
        message.contains("checkpoint 4 was committed to it"),
        "{message}"
    );
    copy(&old, &place.out());
    let message = place.refused(PLAIN, "W0505");
    assert!(
        message.contains("says checkpoint 2, but checkpoint 4"),
        "{message}"
    );
    // Removing the output and starting over is what somebody who wants to start over does.
    fs::remove_dir_all(place.out()).expect("removed");
    let process = place.try_start(FRESH).expect("nothing is doubled");
    assert_eq!(process.recovered.verdict, Verdict::Fresh);
    assert_eq!(process.next_n, 5);
}

#[test]
fn readers_may_take_published_parts_away() {
    let place = Place::after(2);
    for name in visible(&place.out()) {
        fs::remove_file(place.out().join(name)).expect("taken");
    }
    assert_eq!(place.start().confirmed, 2);
}

#[test]
fn a_part_that_was_never_published_and_is_gone_or_short_is_named() {
    let place = Place::after(1);
    let mut process = place.start();
    let manifest = process.prepare(&place, false);
    process.commit(&manifest);
    let staged = place.out().join(&manifest.staged[0].staged);
    fs::write(&staged, "2").expect("cut");
    let message = place.refused(PLAIN, "W0507");
    assert!(
        message.contains("part `2-2`") && message.contains("has 1 bytes"),
        "{message}"
    );
    fs::remove_file(&staged).expect("removed");
    let message = place.refused(PLAIN, "W0507");
    assert!(message.contains("it is missing"), "{message}");
}

#[test]
fn half_deleted_directories_are_named() {
    let cases: [(&str, &str, &str); 5] = [
        ("log", "W0511", "but no commit log"),
        (
            "manifests",
            "W0508",
            "manifest 5-1.json of committed checkpoint 5",
        ),
        ("state", "W0518", "is missing"),
        ("job.json", "W0511", "`job.json` is not there"),
        (
            "log/00000000000000000005",
            "W0510",
            "slot 5 is missing, though slot 6",
        ),
    ];
    for (gone, code, says) in cases {
        let place = Place::after(5);
        let path = place.checkpoints().join(gone);
        if path.is_dir() {
            fs::remove_dir_all(path).expect("removed");
        } else {
            fs::remove_file(path).expect("removed");
        }
        let message = place.refused(PLAIN, code);
        assert!(message.contains(says), "{gone}: {message}");
    }
}

#[test]
fn a_flipped_byte_anywhere_is_found_or_does_not_matter() {
    let place = Place::after(3);
    let exact = place.start().recovered.manifest;
    let pristine = place.root.path().join("pristine");
    copy(&place.checkpoints(), &pristine);
    let (mut refused, mut unharmed, mut damaged_state) = (0, 0, 0);
    for file in files_under(&pristine) {
        let name = file.strip_prefix(&pristine).expect("under it").to_owned();
        let bytes = fs::read(&file).expect("read");
        for at in (0..bytes.len()).step_by(37) {
            fs::remove_dir_all(place.checkpoints()).expect("removed");
            copy(&pristine, &place.checkpoints());
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            fs::write(place.checkpoints().join(&name), flipped).expect("written");
            match place.try_start(PLAIN) {
                Err(_) => refused += 1,
                Ok(process) => {
                    assert_eq!(process.recovered.manifest, exact, "{name:?} byte {at}");
                    match process.state() {
                        Ok(state) => {
                            assert_eq!(state, "state at 3");
                            unharmed += 1;
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                            damaged_state += 1;
                        }
                    }
                }
            }
        }
    }
    // Log, newest manifest and owner; older manifests and states; the newest state.
    assert!(
        refused > 20 && unharmed > 20 && damaged_state > 0,
        "{refused} {unharmed}"
    );
}

#[test]
fn a_manifest_cut_to_nothing_is_a_loud_stop() {
    let place = Place::after(3);
    let path = place.checkpoints().join("manifests/3-1.json");
    fs::write(path, "").expect("cut");
    let message = place.refused(PLAIN, "W0509");
    assert!(
        message.contains("manifest 3-1.json") && message.contains("damaged"),
        "{message}"
    );
}

#[test]
fn a_manifest_of_a_later_release_is_refused_with_both_versions() {
    let place = Place::after(3);
    let path = place.checkpoints().join("manifests/3-1.json");
    fs::write(path, r#"{"format": 2, "weir": "9.0.0"}"#).expect("written");
    let message = place.refused(PLAIN, "W0509");
    assert!(
        message.contains("format 2, written by Weir 9.0.0"),
        "{message}"
    );
    assert!(message.contains("reads format 1"), "{message}");
}

#[test]
fn another_jobs_directory_is_refused_with_both_names() {
    let mut place = Place::after(1);
    place.identity.job = "other".to_owned();
    let message = place.refused(PLAIN, "W0512");
    assert!(
        message.contains("of job `flights`, not of `other`"),
        "{message}"
    );
}

#[test]
fn output_of_another_lineage_is_refused_with_both() {
    let place = Place::after(1);
    let other = Place::after(2);
    fs::remove_dir_all(place.out()).expect("removed");
    copy(&other.out(), &place.out());
    let message = place.refused(PLAIN, "W0514");
    let lineages = [&place, &other].map(|place| {
        let text = fs::read_to_string(place.checkpoints().join("manifests/1-1.json"));
        let text = text.expect("read");
        let (_, rest) = text.split_once("\"lineage\": \"").expect("a lineage");
        rest[..8].to_owned()
    });
    assert!(
        lineages.iter().all(|lineage| message.contains(lineage)),
        "{message}"
    );
}

#[test]
fn fresh_beside_committed_output_needs_the_word_of_the_user() {
    let place = Place::after(2);
    let message = place.refused(FRESH, "W0516");
    assert!(message.contains("up to checkpoint 2"), "{message}");
    let mut process = place.try_start(OVERRIDE).expect("told to");
    assert_eq!(process.recovered.verdict, Verdict::Fresh);
    // Numbers go on, so old and new parts cannot be confused.
    process.checkpoint(&place);
    assert_eq!(visible(&place.out()), ["1-1", "2-1", "3-2"]);
    // The same process restarts: it must resume, not start over again.
    let recovered = process.driver.recover(3_000).expect("resumed");
    assert_eq!(recovered.confirmed, 3);
    assert_eq!(place.start().confirmed, 3);
}

#[test]
fn fresh_before_anything_was_committed_needs_no_word() {
    let place = Place::after(0);
    let first = place.start().recovered.lineage;
    let process = place.try_start(FRESH).expect("nothing is doubled");
    assert_ne!(process.recovered.lineage, first);
}

#[test]
fn another_max_parallelism_is_refused_with_both_numbers() {
    let mut place = Place::after(1);
    place.identity.max_parallelism = 64;
    let message = place.refused(PLAIN, "W0517");
    assert!(
        message.contains("is 64") && message.contains("with 128"),
        "{message}"
    );
}

#[test]
fn a_sink_may_come_go_and_come_back() {
    let mut place = Place::after(2);
    let second = SinkEntry {
        id: "second".to_owned(),
        dir: place.root.path().join("second"),
    };
    place.identity.sinks.push(second.clone());
    let mut process = place.start();
    assert_eq!(process.confirmed, 2);
    process.checkpoint(&place);
    // It goes, and its directory with it.
    place.identity.sinks.pop();
    let kept = place.root.path().join("kept");
    fs::rename(&second.dir, &kept).expect("moved");
    let mut process = place.start();
    (0..3).for_each(|_| process.checkpoint(&place));
    // It comes back with its old witness.
    fs::rename(&kept, &second.dir).expect("moved");
    place.identity.sinks.push(second);
    let mut process = place.start();
    assert_eq!(process.confirmed, 6);
    process.checkpoint(&place);
    assert_eq!(place.start().confirmed, 7);
}

#[test]
fn the_attempt_that_was_replaced_finds_out_when_it_commits_and_does_not_take_the_job_back() {
    let place = Place::after(1);
    let mut old = place.start();
    let manifest = old.prepare(&place, false);
    let digest = old.store(&manifest);
    assert!(old.driver.taken_over().is_none());
    let mut new = place.start();
    new.checkpoint(&place);
    let refusal = old.driver.taken_over().expect("there is a newer attempt");
    assert_eq!((refusal.code(), refusal.exit_code()), ("W0502", 4));
    assert!(new.driver.taken_over().is_none());
    let event = old.driver.commit(manifest.n, digest);
    assert!(matches!(event, Event::TakenOver { by: 3 }), "{event:?}");
    let refusal = old.driver.recover(3_000).expect_err("taken over");
    assert_eq!((refusal.code(), refusal.exit_code()), ("W0502", 4));
    new.checkpoint(&place);
    assert_eq!(visible(&place.out()), ["1-1", "3-3", "4-3"]);
}

#[test]
fn a_process_restarts_itself_after_a_failure_of_its_own() {
    let place = Place::after(1);
    let mut process = place.start();
    for attempt in 3..6 {
        let recovered = process.driver.recover(3_000).expect("its own attempt");
        assert_eq!((recovered.attempt, recovered.confirmed), (attempt, 1));
    }
}

#[test]
fn a_directory_emptied_under_a_running_job_fails_its_checkpoints_and_is_not_rebuilt() {
    let place = Place::after(1);
    let mut process = place.start();
    let manifest = process.prepare(&place, false);
    fs::remove_dir_all(place.checkpoints()).expect("removed");
    let event = process.driver.store_manifest(manifest, NOW);
    assert!(
        matches!(event, Event::ManifestFailed { n: 2, .. }),
        "{event:?}"
    );
    assert!(!place.checkpoints().exists());
    let refusal = process
        .driver
        .recover(3_000)
        .expect_err("nothing to recover from");
    assert_eq!((refusal.code(), refusal.exit_code()), ("W0519", 75));
    place.refused(PLAIN, "W0503");
}

#[test]
fn a_witness_that_cannot_be_read_stops_the_job() {
    let place = Place::after(1);
    fs::write(place.out().join(".weir-flights.json"), "{").expect("written");
    let message = place.refused(PLAIN, "W0515");
    assert!(message.contains(".weir-flights.json"), "{message}");
}

fn component(contents: &[u8]) -> (Arc<[u8]>, ComponentEntry) {
    let entry = ComponentEntry {
        sha256: crate::checkpoint::Digest::of(contents),
        inputs: BTreeMap::new(),
        states: BTreeMap::new(),
        timers: BTreeMap::new(),
    };
    (contents.into(), entry)
}

impl Place {
    /// From now on the job runs this component.
    fn runs(&mut self, contents: &[u8]) {
        let (bytes, entry) = component(contents);
        self.component = Some(bytes);
        self.identity.components.insert("op".to_owned(), entry);
    }

    /// Contents of the components in checkpoint storage, by the attempts that stored them.
    fn kept(&self) -> Vec<(u64, String)> {
        let dir = self.checkpoints().join("components");
        let kept = names(&dir).into_iter().map(|name| {
            let attempt = name.split_once('-').expect("attempt and digest").0;
            let contents = fs::read_to_string(dir.join(&name)).expect("text");
            (attempt.parse().expect("a number"), contents)
        });
        kept.collect()
    }
}

#[test]
fn a_component_is_there_before_the_first_manifest_that_names_it() {
    let mut place = Place::new();
    place.runs(b"one");
    place.start();
    assert_eq!(place.kept(), [(1, "one".to_owned())]);
    // A manifest that cannot have its components is not written.
    let mut process = place.start();
    let manifest = process.prepare(&place, false);
    let dir = place.checkpoints().join("components");
    fs::remove_dir_all(&dir).expect("removed");
    let event = process.driver.store_manifest(manifest.clone(), NOW);
    assert!(
        matches!(&event, Event::ManifestFailed { n: 1, why } if why.contains("component")),
        "{event:?}"
    );
    assert_eq!(files_under(&place.checkpoints().join("manifests")).len(), 1);
    fs::create_dir(&dir).expect("created");
    process.commit(&manifest);
    process.publish(&manifest);
    assert_eq!(place.kept(), [(2, "one".to_owned())]);
}

#[test]
fn components_stay_as_long_as_a_retained_manifest_names_them() {
    let mut place = Place::new();
    place.runs(b"one");
    let mut process = place.start();
    (0..2).for_each(|_| process.checkpoint(&place));
    place.runs(b"two");
    let mut process = place.start();
    process.checkpoint(&place);
    let one_and_two = [(1, "one".to_owned()), (2, "two".to_owned())];
    assert_eq!(place.kept(), one_and_two);
    // Three are retained: the last one taken with `one` is the third from the end now.
    process.checkpoint(&place);
    assert_eq!(place.kept(), one_and_two);
    process.checkpoint(&place);
    assert_eq!(place.kept(), one_and_two[1..]);
}

#[test]
fn an_attempt_that_was_replaced_deletes_no_component_that_its_successor_needs() {
    let mut place = Place::new();
    place.runs(b"same");
    let mut first = place.start();
    first.checkpoint(&place);
    let mut old = place.start();
    (0..4).for_each(|_| old.checkpoint(&place));
    assert_eq!(place.kept(), [(2, "same".to_owned())]);
    let mut new = place.start();
    new.checkpoint(&place);
    // It wakes up in the middle of a collection.
    old.driver.collect(old.confirmed).expect("collected");
    let both = [(2, "same".to_owned()), (3, "same".to_owned())];
    assert_eq!(place.kept(), both);
    (0..3).for_each(|_| new.checkpoint(&place));
    assert_eq!(place.kept(), both[1..]);
    old.driver.collect(old.confirmed).expect("collected");
    assert_eq!(place.kept(), both[1..]);
}

#[test]
fn a_kept_component_is_found_by_operator_and_nothing_is_made_up() {
    use crate::checkpoint::kept_component;
    let mut place = Place::new();
    assert_eq!(kept_component(&place.checkpoints(), "flights", "op"), None);
    assert!(!place.checkpoints().exists());
    place.runs(b"one");
    place.start().checkpoint(&place);
    let kept = kept_component(&place.checkpoints(), "flights", "op").expect("kept");
    assert_eq!(kept.n, 1);
    assert_eq!(fs::read(&kept.file).expect("there"), b"one");
    for (job, operator) in [("flights", "other"), ("other", "op")] {
        assert_eq!(kept_component(&place.checkpoints(), job, operator), None);
    }
    fs::remove_file(&kept.file).expect("removed");
    assert_eq!(kept_component(&place.checkpoints(), "flights", "op"), None);
}

#[test]
fn what_attempts_that_failed_have_stored_does_not_add_up() {
    let place = Place::after(1);
    for _ in 0..3 {
        let mut process = place.start();
        process
            .driver
            .collect(process.confirmed)
            .expect("collected");
        // A state file, and no manifest that names it.
        process.prepare(&place, false);
        let files = names(&place.checkpoints().join("state"));
        assert_eq!(files.len(), 2, "{files:?}");
    }
    let mut process = place.start();
    process
        .driver
        .collect(process.confirmed)
        .expect("collected");
    assert_eq!(names(&place.checkpoints().join("state")).len(), 1);
    assert_eq!(process.state().expect("undamaged"), "state at 1");
}
