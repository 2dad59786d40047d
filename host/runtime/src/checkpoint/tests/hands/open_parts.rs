//! Parts that went on beyond the last checkpoint: what of them is committed is taken over, and nothing else.

use super::*;

/// Committed of an open part, and what came after the barrier.
const COMMITTED: &str = "committed";
const BEYOND: &str = " and more";

impl Process {
    /// A checkpoint that finds a part open.
    fn checkpoint_with_open_part(&mut self, place: &Place) -> StagedPart {
        let mut manifest = self.prepare(place, false);
        let attempt = self.recovered.attempt;
        let open = StagedPart {
            sink: "out".to_owned(),
            dir: place.out(),
            staged: format!(".90-{attempt}"),
            name: format!("90-{attempt}"),
            bytes: COMMITTED.len() as u64,
            records: 1,
        };
        let contents = format!("{COMMITTED}{BEYOND}");
        fs::write(open.dir.join(&open.staged), contents).expect("written");
        manifest.open.push(open.clone());
        self.commit(&manifest);
        self.publish(&manifest);
        open
    }
}

fn with_open_part() -> (Place, StagedPart) {
    let place = Place::after(1);
    let open = place.start().checkpoint_with_open_part(&place);
    (place, open)
}

#[test]
fn what_is_committed_of_it_is_published_with_the_next_checkpoint_however_many_starts_that_takes() {
    let (place, _) = with_open_part();
    for attempt in 3..5 {
        let process = place.start();
        assert_eq!(process.recovered.carried.len(), 1);
        let staged: Vec<String> = names(&place.out())
            .into_iter()
            .filter(|name| name.starts_with(".9"))
            .collect();
        // The original stays for the next start, a copy of a start that came to nothing does not.
        assert_eq!(staged, [".90-2".to_owned(), format!(".90-{attempt}")]);
        assert_eq!(visible(&place.out()), ["1-1", "2-2"]);
    }
    let mut process = place.start();
    process.checkpoint(&place);
    assert_eq!(visible(&place.out()), ["1-1", "2-2", "3-5", "90-2"]);
    let published = fs::read_to_string(place.out().join("90-2")).expect("published");
    assert_eq!(published, COMMITTED);
    assert_eq!(
        names(&place.out()).len(),
        5,
        "nothing is left but the witness: {:?}",
        names(&place.out())
    );
    // Readers may take it away.
    fs::remove_file(place.out().join("90-2")).expect("removed");
    let mut process = place.start();
    assert!(process.recovered.carried.is_empty());
    process.checkpoint(&place);
    assert!(!place.out().join("90-2").exists());
}

#[test]
fn committed_and_not_yet_published_it_is_published_by_the_next_start() {
    let (place, _) = with_open_part();
    let mut process = place.start();
    let manifest = process.prepare(&place, false);
    process.commit(&manifest);
    let process = place.start();
    assert!(process.recovered.carried.is_empty());
    let published = fs::read_to_string(place.out().join("90-2")).expect("published");
    assert_eq!(published, COMMITTED);
}

#[test]
fn missing_or_shorter_it_is_refused_with_its_name_and_both_lengths() {
    for (contents, found) in [(None, "is missing"), (Some("commi"), "has only 5 bytes")] {
        let (place, open) = with_open_part();
        let path = place.out().join(&open.staged);
        let whole = fs::read(&path).expect("it is there");
        match contents {
            Some(contents) => fs::write(&path, contents).expect("written"),
            None => fs::remove_file(&path).expect("removed"),
        }
        let message = place.refused(PLAIN, "W0507");
        for text in [".90-2", found, "9 bytes", "checkpoint 2"] {
            assert!(message.contains(text), "{message}");
        }
        fs::write(&path, whole).expect("written");
        assert_eq!(place.start().recovered.carried.len(), 1);
    }
}

#[test]
fn of_a_sink_that_the_job_no_longer_has_it_is_published_once_all_the_same() {
    let (mut place, _) = with_open_part();
    let old = place.out();
    place.identity.sinks[0].id = "other".to_owned();
    place.identity.sinks[0].dir = place.root.path().join("elsewhere");
    let mut process = place.start();
    let manifest = process.prepare(&place, false);
    process.commit(&manifest);
    assert!(!old.join("90-2").exists());
    // The commit stands; only the next start sees to it.
    place.start();
    let published = fs::read_to_string(old.join("90-2")).expect("published");
    assert_eq!(published, COMMITTED);
    fs::remove_file(old.join("90-2")).expect("a reader takes it");
    place.start().checkpoint(&place);
    place.start();
    assert!(!old.join("90-2").exists());
}

#[test]
fn a_job_that_never_completes_a_part_goes_on_after_more_checkpoints_than_are_kept() {
    let (place, open) = with_open_part();
    let mut process = place.start();
    let carried = std::mem::take(&mut process.recovered.carried);
    for _ in 0..10 {
        let mut manifest = process.prepare(&place, false);
        manifest.open.clone_from(&carried);
        process.commit(&manifest);
        process.publish(&manifest);
    }
    assert_eq!(names(&place.checkpoints().join("manifests")).len(), 3);
    let mut process = place.start();
    assert_eq!(process.confirmed, 12);
    process.checkpoint(&place);
    let published = fs::read_to_string(place.out().join(&open.name)).expect("published");
    assert_eq!(published, COMMITTED);
}
