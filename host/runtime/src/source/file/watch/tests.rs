use std::time::Duration;

use super::super::Files;
use super::super::tests::source;
use super::*;
use crate::job::model::{self, Format, SourceConnector};
use crate::source::collected::{Collected, resume};
use crate::source::{Progress, Reader, deal, discover};

struct Inbox {
    dir: tempfile::TempDir,
    source: model::Source,
}

impl Inbox {
    /// Watches `pattern` in a directory of its own.
    fn new(pattern: &str) -> Inbox {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(pattern);
        let mut source = source(&[path.to_str().unwrap()], Format::Raw);
        let SourceConnector::File { watch, .. } = &mut source.connector else {
            unreachable!("it is a file source");
        };
        *watch = Some(Duration::from_nanos(1));
        Inbox { dir, source }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn open(&self, splits: Vec<SplitState>) -> Files {
        Files::open(&self.source, splits, 0).unwrap()
    }

    fn deal(&self, splits: Vec<SplitState>, of: usize) -> Vec<Vec<SplitState>> {
        deal(&self.source, splits, of)
    }

    fn fresh(&self) -> Files {
        let splits = discover(&self.source).unwrap();
        self.open(self.deal(splits, 1).remove(0))
    }
}

/// Reads until two looks in a row have found nothing.
fn drain(reader: &mut Files, into: &mut Collected) -> Result<(), Error> {
    into.allowance = usize::MAX;
    let mut looks = 0;
    while looks < 3 {
        if let Some(watch) = &mut reader.watch {
            watch.next_look = None;
        }
        match reader.read(into)? {
            Progress::Idle | Progress::Waiting => looks += 1,
            Progress::More => looks = 0,
            Progress::Ended => panic!("what is watched has no end"),
        }
    }
    Ok(())
}

fn read(reader: &mut Files) -> Vec<String> {
    let mut rows = Collected::default();
    drain(reader, &mut rows).unwrap();
    rows.texts().into_iter().map(str::to_owned).collect()
}

fn refused(reader: &mut Files) -> Error {
    drain(reader, &mut Collected::default()).unwrap_err()
}

fn known(reader: &Files) -> usize {
    reader.watch.as_ref().unwrap().ledger.text().len() / 64
}

#[test]
fn what_appears_is_read_once_in_order_and_after_two_equal_looks() {
    let inbox = Inbox::new("*.txt");
    let mut reader = inbox.fresh();
    assert_eq!(read(&mut reader), [""; 0]);
    inbox.write("b.txt", "3\n4");
    inbox.write("a.txt", "1\n2\n");
    inbox.write(".hidden.txt", "no");
    inbox.write("other", "no");
    let watch = reader.watch.as_mut().unwrap();
    watch.next_look = None;
    assert!(watch.next().unwrap().is_none(), "one look is not enough");
    inbox.write("b.txt", "3\n4\n5");
    watch.next_look = None;
    let first = watch.next().unwrap().unwrap();
    assert!(first.name.ends_with("a.txt"));
    watch.next_look = clock::now().checked_add(Duration::from_secs(3_600));
    assert!(watch.next().unwrap().is_none(), "b has changed");
    watch.pending.push_front((first.name, first.dir));
    assert_eq!(read(&mut reader), ["1", "2", "3", "4", "5"]);
    assert_eq!(read(&mut reader), [""; 0]);
    inbox.write("c.txt", "6\n");
    assert_eq!(read(&mut reader), ["6"]);
    assert_eq!(reader.share(), None);
}

#[test]
fn a_checkpoint_holds_what_was_begun_and_what_was_read_and_goes_on_at_any_parallelism() {
    let inbox = Inbox::new("*");
    for file in 0..20 {
        inbox.write(&format!("{file:02}"), &format!("{file} a\n{file} b\n"));
    }
    let mut splits = discover(&inbox.source).unwrap();
    let mut all = Vec::new();
    for of in [2, 3, 1, 4] {
        let dealt = inbox.deal(splits, of);
        let numbers: BTreeSet<u32> = dealt.iter().flatten().map(|split| split.split).collect();
        assert_eq!(numbers.len(), dealt.iter().flatten().count());
        splits = Vec::new();
        for dealt in dealt {
            let mut reader = inbox.open(dealt);
            let mut rows = Collected::default();
            // Stops in the midst of a file.
            for _ in 0..50 {
                rows.allowance = 3;
                reader.watch.as_mut().unwrap().next_look = None;
                reader.read(&mut rows).unwrap();
            }
            all.extend(rows.texts().into_iter().map(str::to_owned));
            splits.extend(reader.splits());
        }
        assert_eq!(resume(&inbox.source, &splits).unwrap(), [""; 0]);
    }
    for dealt in inbox.deal(splits, 2) {
        all.extend(read(&mut inbox.open(dealt)));
    }
    all.sort();
    let mut expected: Vec<_> = (0..20)
        .flat_map(|file| [format!("{file} a"), format!("{file} b")])
        .collect();
    expected.sort();
    assert_eq!(all, expected);
}

#[test]
fn what_is_gone_is_forgotten_where_its_directory_is_there_without_it() {
    let inbox = Inbox::new("in/*");
    fs::create_dir(inbox.path("in")).unwrap();
    inbox.write("in/a", "1\n");
    inbox.write("in/b", "2\n");
    let mut reader = inbox.fresh();
    assert_eq!(read(&mut reader), ["1", "2"]);
    fs::remove_file(inbox.path("in/a")).unwrap();
    assert_eq!(read(&mut reader), [""; 0]);
    assert_eq!(known(&reader), 1);
    // Not mounted: another directory stands in its place.
    fs::rename(inbox.path("in"), inbox.path("away")).unwrap();
    assert_eq!(read(&mut reader), [""; 0]);
    assert_eq!(reader.watch.as_ref().unwrap().troubles.len(), 1);
    fs::create_dir(inbox.path("in")).unwrap();
    assert_eq!(read(&mut reader), [""; 0]);
    let mut reader = inbox.open(inbox.deal(reader.splits(), 1).remove(0));
    assert_eq!(read(&mut reader), [""; 0]);
    assert_eq!(known(&reader), 1);
    fs::remove_dir(inbox.path("in")).unwrap();
    fs::rename(inbox.path("away"), inbox.path("in")).unwrap();
    inbox.write("in/a", "3\n");
    assert_eq!(read(&mut reader), ["3"]);
    // A restart later the directory is still known.
    fs::remove_file(inbox.path("in/b")).unwrap();
    let mut reader = inbox.open(inbox.deal(reader.splits(), 1).remove(0));
    assert_eq!(read(&mut reader), [""; 0]);
    assert_eq!(known(&reader), 1);
}

#[test]
fn below_a_pattern_of_directories_nothing_is_forgotten() {
    let inbox = Inbox::new("*/x");
    for dir in ["1", "2"] {
        fs::create_dir(inbox.path(dir)).unwrap();
        inbox.write(&format!("{dir}/x"), dir);
    }
    let mut reader = inbox.fresh();
    assert_eq!(read(&mut reader), ["1", "2"]);
    fs::rename(inbox.path("1"), inbox.path(".1")).unwrap();
    assert_eq!(read(&mut reader), [""; 0]);
    fs::rename(inbox.path(".1"), inbox.path("1")).unwrap();
    assert_eq!(read(&mut reader), [""; 0]);
    assert_eq!(known(&reader), 2);
}

#[test]
fn a_known_name_is_judged_by_what_is_in_the_file() {
    let inbox = Inbox::new("*");
    inbox.write("a", "one\n");
    let mut reader = inbox.fresh();
    assert_eq!(read(&mut reader), ["one"]);
    // Touched, and a copy.
    inbox.write("a", "one\n");
    assert_eq!(read(&mut reader), [""; 0]);
    // Another one, longer, shorter and as long.
    for other in ["another\n", "it\n", "is\n"] {
        inbox.write("new", other);
        fs::rename(inbox.path("new"), inbox.path("a")).unwrap();
        assert_eq!(read(&mut reader), [other.trim()]);
    }
    inbox.write("empty", "");
    assert_eq!(read(&mut reader), [""; 0]);
    inbox.write("empty", "not any more\n");
    assert_eq!(read(&mut reader), ["not any more"]);
    // Known from a checkpoint taken before it was replaced: judged the same way.
    let splits = reader.splits();
    inbox.write("a", "more\n");
    let mut reader = inbox.open(inbox.deal(splits, 1).remove(0));
    assert_eq!(read(&mut reader), ["more"]);
    inbox.write("a", "more\nand more\n");
    let error = refused(&mut reader);
    assert_eq!(error.code(), "W0603");
    let text = error.to_string();
    assert!(
        text.contains("grew from 5 to 14 bytes") && text.contains("rename"),
        "{text}"
    );
}

#[test]
fn a_file_that_goes_before_it_is_opened_is_no_matter_and_one_that_goes_half_read_is() {
    let inbox = Inbox::new("*");
    inbox.write("a", "1\n");
    inbox.write("b", "2\n3\n4\n");
    let mut reader = inbox.fresh();
    let watch = reader.watch.as_mut().unwrap();
    watch.look().unwrap();
    watch.look().unwrap();
    assert_eq!(watch.pending.len(), 2);
    fs::remove_file(inbox.path("a")).unwrap();
    let mut rows = Collected {
        allowance: 1,
        ..Collected::default()
    };
    reader.read(&mut rows).unwrap();
    assert_eq!(rows.texts(), ["2"]);
    let splits = reader.splits();
    assert_eq!(splits.len(), 2, "what was begun, and what was read");
    fs::rename(inbox.path("b"), inbox.path(".b")).unwrap();
    let error = resume(&inbox.source, &splits).unwrap_err();
    assert_eq!(error.code(), "W0603");
    assert!(
        error.to_string().contains("was not read to its end"),
        "{error}"
    );
    fs::rename(inbox.path(".b"), inbox.path("b")).unwrap();
    let mut reader = inbox.open(inbox.deal(splits, 1).remove(0));
    assert_eq!(read(&mut reader), ["3", "4"]);
}

#[test]
fn settled_files_become_watched_ones() {
    let mut inbox = Inbox::new("*");
    inbox.write("a", "1\n");
    inbox.write("b", "2\n3\n");
    inbox.write("c", "4\n");
    let watched = inbox.source.connector.clone();
    if let SourceConnector::File { watch, .. } = &mut inbox.source.connector {
        *watch = None;
    }
    let splits = discover(&inbox.source).unwrap();
    let mut reader = inbox.open(inbox.deal(splits, 1).remove(0));
    let mut rows = Collected::default();
    rows.read(&mut reader, 2).unwrap();
    inbox.source.connector = watched;
    let splits = reader.splits();
    assert_eq!(resume(&inbox.source, &splits).unwrap(), [""; 0]);
    let mut reader = inbox.open(inbox.deal(splits, 1).remove(0));
    assert_eq!(read(&mut reader), ["3", "4"]);
    assert_eq!(known(&reader), 3);
    if let SourceConnector::File { watch, .. } = &mut inbox.source.connector {
        *watch = None;
    }
    let error = resume(&inbox.source, &reader.splits()).unwrap_err();
    assert_eq!(error.code(), "W0604");
}

#[test]
fn other_directories_than_those_that_were_read_are_refused_and_further_ones_are_not() {
    let inbox = Inbox::new("in/*");
    fs::create_dir(inbox.path("in")).unwrap();
    let empty = inbox.fresh().splits();
    inbox.write("in/a", "1\n");
    let mut reader = inbox.fresh();
    read(&mut reader);
    let splits = reader.splits();
    let with = |paths: &[&str]| {
        let mut source = inbox.source.clone();
        if let SourceConnector::File { paths: old, .. } = &mut source.connector {
            let paths = paths.iter().map(|path| inbox.path(path));
            *old = paths.map(|path| path.display().to_string()).collect();
        }
        source
    };
    let error = resume(&with(&["other/*"]), &splits).unwrap_err();
    assert_eq!(error.code(), "W0603");
    assert!(error.to_string().contains("would be read again"), "{error}");
    for paths in [&["in/*.txt"][..], &["in/*", "other/*"]] {
        resume(&with(paths), &splits).unwrap();
    }
    resume(&with(&["other/*"]), &empty).unwrap();
    let mut damaged = splits;
    damaged[0].position["watch"]["finished"] = "?".into();
    let error = resume(&inbox.source, &damaged).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn a_directory_that_is_missing_is_a_mistake_at_the_first_start_only() {
    let inbox = Inbox::new("in/*");
    let error = discover(&inbox.source).unwrap_err();
    assert_eq!(error.code(), "W0604");
    assert!(error.to_string().contains("no directory"), "{error}");
    let mut reader = inbox.open(inbox.deal(Vec::new(), 1).remove(0));
    assert_eq!(resume(&inbox.source, &reader.splits()).unwrap(), [""; 0]);
    assert_eq!(read(&mut reader), [""; 0]);
    fs::create_dir(inbox.path("in")).unwrap();
    inbox.write("in/a", "1\n");
    assert_eq!(read(&mut reader), ["1"]);
    assert!(reader.watch.as_ref().unwrap().troubles.is_empty());
}

#[test]
fn what_is_no_file_is_told_of_and_left_out() {
    let inbox = Inbox::new("*");
    let mut reader = inbox.fresh();
    fs::create_dir(inbox.path("folder")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(inbox.path("socket")).unwrap();
    inbox.write("a", "1\n");
    // The first start refuses what can never be read; what comes later must not stop the job.
    assert_eq!(read(&mut reader), ["1"]);
    let troubles = &reader.watch.as_ref().unwrap().troubles;
    assert_eq!(troubles.len(), 1);
    assert!(troubles.first().unwrap().contains("not a regular file"));
}

#[test]
fn where_a_pattern_begins_to_look() {
    for (pattern, dir, is_all_in_it) in [
        ("/data/*.csv", "/data", true),
        ("/data/x.csv", "/data", true),
        ("/data/2?/x.csv", "/data", false),
        ("/data/**/*.csv", "/data", false),
        ("/[d]ata/x", "/", false),
        ("/*", "/", true),
    ] {
        assert_eq!(
            base(pattern),
            (PathBuf::from(dir), is_all_in_it),
            "{pattern}"
        );
    }
}

#[test]
fn a_file_is_read_once_whatever_leads_to_it() {
    let inbox = Inbox::new("*");
    inbox.write("a.txt", "1\n2\n");
    std::os::unix::fs::symlink(inbox.path("a.txt"), inbox.path("b.txt")).unwrap();
    fs::hard_link(inbox.path("a.txt"), inbox.path("c.txt")).unwrap();
    let mut reader = inbox.fresh();
    assert_eq!(read(&mut reader), ["1", "2"]);
    let troubles = &reader.watch.as_ref().unwrap().troubles;
    assert_eq!(troubles.len(), 2, "{troubles:?}");
}

#[test]
fn under_another_path_what_was_begun_is_refused_as_what_was_read_is() {
    for records in [1, 3] {
        let mut inbox = Inbox::new("in/*");
        fs::create_dir(inbox.path("in")).unwrap();
        inbox.write("in/a.txt", "1\n2\n");
        std::os::unix::fs::symlink(inbox.path("in"), inbox.path("link")).unwrap();
        let mut reader = inbox.fresh();
        let mut rows = Collected {
            allowance: records,
            ..Collected::default()
        };
        for _ in 0..4 {
            reader.watch.as_mut().unwrap().next_look = None;
            reader.read(&mut rows).unwrap();
        }
        assert_eq!(rows.rows.len(), records.min(2));
        let splits = reader.splits();
        resume(&inbox.source, &splits).unwrap();
        let SourceConnector::File { paths, .. } = &mut inbox.source.connector else {
            unreachable!("it is a file source");
        };
        paths[0] = paths[0].replace("/in/", "/link/");
        let error = resume(&inbox.source, &splits).unwrap_err();
        assert!(
            error.to_string().contains("give them their old path back"),
            "{error}"
        );
    }
}
