use std::path::PathBuf;

use super::*;

const RAW: PartKind = PartKind {
    format: SinkFormat::Raw,
    compression: SinkCompression::None,
};

const JSON: PartKind = PartKind {
    format: SinkFormat::Json,
    compression: SinkCompression::Zstd { level: 3 },
};

/// Subtask 1 in attempt 3, before checkpoint `next_n`.
fn author(next_n: u64) -> Author {
    Author {
        lineage: "7c1e0000".to_owned(),
        attempt: 3,
        subtask: 1,
        next_n,
    }
}

/// A part of checkpoint `number`, staged in `dir` with `content`.
fn stage(dir: &Path, number: u64, content: &str) -> StagedPart {
    let staged = staged_name(&author(number), number, &RAW);
    fs::write(dir.join(&staged), content).unwrap();
    StagedPart {
        sink: "out".to_owned(),
        dir: dir.to_owned(),
        staged,
        name: final_name(&author(number), 1, &RAW),
        bytes: content.len() as u64,
        records: 1,
    }
}

/// What is in `dir`, name and content, sorted.
fn listing(dir: &Path) -> Vec<(String, String)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (
                entry.file_name().into_string().unwrap(),
                fs::read_to_string(entry.path()).unwrap(),
            )
        })
        .collect();
    all.sort();
    all
}

fn published(contents: &[(u64, &str)]) -> Vec<(String, String)> {
    contents
        .iter()
        .map(|&(number, content)| (final_name(&author(number), 1, &RAW), content.to_owned()))
        .collect()
}

#[test]
fn names() {
    assert_eq!(
        staged_name(&author(1), 45, &JSON),
        ".part-7c1e0000-3-001-000045.jsonl.zst"
    );
    assert_eq!(
        final_name(&author(12), 3, &RAW),
        "part-7c1e0000-000012-001-003.txt"
    );
    let large = Author {
        subtask: 1_000,
        ..author(1_234_567)
    };
    assert_eq!(
        final_name(&large, 1_000, &RAW),
        "part-7c1e0000-1234567-1000-1000.txt"
    );
    for (name, staged) in [
        (".part-7c1e0000-12-003-000045.jsonl", true),
        (".part-7c1e0000-12-003-000045.txt", true),
        (".part-7c1e0000-12-003-000045.txt.gz", true),
        (".part-7c1e0000-12-003-000045.jsonl.zst", true),
        (".part-7c1e0000-12-003-000045.jsonl.bz2", false),
        (".part-7c1e0000-12-003-000045.gz", false),
        (".part-probe-123.txt", true),
        ("part-7c1e0000-000012-003-001.txt", false),
        (".part-7c1e0000-12-003-000045.txt.txt", false),
        (".part-7c1e0000-12-003-000045.csv", true),
        (".part-7c1e0000-12-003-000045.tsv", false),
        (".part-7c1e0000-12-003.txt", false),
        (".part-7c1e0000-12-003-.txt", false),
        (".part-user-12-003-000045.txt", false),
        (".part-probe-x.txt", false),
        (".bashrc", false),
        (".weir-witness.json", false),
    ] {
        assert_eq!(staged_by(name).is_some(), staged, "{name}");
    }
}

#[test]
fn publishing_is_idempotent() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [stage(dir.path(), 1, "a\n"), stage(dir.path(), 2, "b\nc\n")];
    for _ in 0..3 {
        publish(&parts).unwrap();
        assert_eq!(listing(dir.path()), published(&[(1, "a\n"), (2, "b\nc\n")]));
    }
    publish(&[]).unwrap();
}

#[test]
fn a_crash_after_any_rename_is_mended_by_doing_it_again() {
    for renamed in 0..=3 {
        let dir = tempfile::tempdir().unwrap();
        let parts = [
            stage(dir.path(), 1, "a\n"),
            stage(dir.path(), 2, "b\n"),
            stage(dir.path(), 3, "c\n"),
        ];
        publish(&parts[..renamed]).unwrap();
        publish(&parts).unwrap();
        assert_eq!(
            listing(dir.path()),
            published(&[(1, "a\n"), (2, "b\n"), (3, "c\n")])
        );
    }
}

#[test]
fn what_is_not_as_recorded_stops_by_name_and_changes_nothing() {
    type Damage = fn(&Path, &StagedPart);
    let cases: [(&str, Damage); 6] = [
        ("neither staged nor published", |dir, part| {
            fs::remove_file(dir.join(&part.staged)).unwrap()
        }),
        ("has 1 bytes where the checkpoint has 2", |dir, part| {
            fs::write(dir.join(&part.staged), "x").unwrap();
        }),
        ("has 3 bytes where the checkpoint has 2", |dir, part| {
            fs::remove_file(dir.join(&part.staged)).unwrap();
            fs::write(dir.join(&part.name), "xyz").unwrap();
        }),
        ("another file has its name", |dir, part| {
            fs::write(dir.join(&part.name), "xyz").unwrap()
        }),
        ("another file has its name", |dir, part| {
            fs::write(dir.join(&part.name), "x\n").unwrap()
        }),
        ("has 3 bytes", |dir, part| {
            fs::write(dir.join(&part.staged), "xyz").unwrap();
            fs::write(dir.join(&part.name), "a\n").unwrap();
        }),
    ];
    for (what, damage) in cases {
        let dir = tempfile::tempdir().unwrap();
        let part = stage(dir.path(), 1, "a\n");
        damage(dir.path(), &part);
        let before = listing(dir.path());
        let error = publish(std::slice::from_ref(&part)).unwrap_err();
        assert_eq!(error.code(), "W0704");
        let text = error.to_string();
        assert!(
            text.contains(what) && text.contains("`out`") && text.contains(&part.name),
            "{text}"
        );
        assert_eq!(listing(dir.path()), before);
    }
}

#[test]
fn what_is_committed_of_an_open_part_is_copied_and_the_original_stays() {
    let dir = tempfile::tempdir().unwrap();
    let part = stage(dir.path(), 7, "committed\nand not\n");
    let open = StagedPart {
        bytes: 10,
        ..part.clone()
    };
    let taken = adopt(std::slice::from_ref(&open), 12).unwrap().unwrap();
    let expected = StagedPart {
        staged: ".part-7c1e0000-12-001-0000007.txt".to_owned(),
        ..open.clone()
    };
    assert_eq!(taken, std::slice::from_ref(&expected));
    assert_eq!(
        listing(dir.path()),
        [
            (expected.staged.clone(), "committed\n".to_owned()),
            (part.staged.clone(), "committed\nand not\n".to_owned()),
        ]
    );
    // Of a start that came to nothing, the next one removes the copy and takes the original over again.
    assert_eq!(
        sweep(dir.path(), std::slice::from_ref(&open), 13).unwrap(),
        1
    );
    publish(&adopt(&[open], 13).unwrap().unwrap()).unwrap();
    assert_eq!(sweep(dir.path(), &[], 13).unwrap(), 1);
    assert_eq!(
        listing(dir.path()),
        [(part.name.clone(), "committed\n".to_owned())]
    );
}

#[test]
fn an_open_part_that_is_not_as_recorded_is_not_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let part = stage(dir.path(), 7, "short\n");
    let longer = StagedPart {
        bytes: 7,
        ..part.clone()
    };
    assert_eq!(
        adopt(std::slice::from_ref(&longer), 12).unwrap(),
        Err(longer)
    );
    let gone = StagedPart {
        staged: ".part-7c1e0000-3-001-000008.txt".to_owned(),
        ..part.clone()
    };
    assert_eq!(adopt(&[part.clone(), gone.clone()], 13).unwrap(), Err(gone));
    for staged in ["in", ".part-probe-1.txt", ".part-7c1e0000-3-001-../x.txt"] {
        let elsewhere = StagedPart {
            staged: staged.to_owned(),
            ..part.clone()
        };
        assert_eq!(adopt(&[elsewhere], 12).unwrap_err().code(), "W0704");
    }
}

#[test]
fn a_copy_of_a_published_part_is_no_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(100_000);
    let part = stage(dir.path(), 1, &long);
    publish(std::slice::from_ref(&part)).unwrap();
    fs::copy(dir.path().join(&part.name), dir.path().join(&part.staged)).unwrap();
    publish(&[part]).unwrap();
    assert_eq!(listing(dir.path()), published(&[(1, &long)]));
}

#[test]
fn a_removed_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let part = stage(dir.path(), 1, "a\n");
    fs::remove_dir_all(dir.path()).unwrap();
    let error = publish(&[part]).unwrap_err().to_string();
    assert!(
        error.contains(&dir.path().display().to_string()) && error.contains("volume"),
        "{error}"
    );
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let part = stage(dir.path(), 1, "a\n");
    for part in [
        StagedPart {
            name: "../out".to_owned(),
            ..part.clone()
        },
        StagedPart {
            staged: ".x/../../in".to_owned(),
            ..part.clone()
        },
        StagedPart {
            staged: "in".to_owned(),
            ..part.clone()
        },
    ] {
        assert_eq!(publish(&[part]).unwrap_err().code(), "W0704");
    }
}

#[test]
fn sweeping_spares_what_is_promised_published_or_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [
        stage(dir.path(), 1, "a\n"),
        stage(dir.path(), 2, "b\n"),
        stage(dir.path(), 3, "c\n"),
    ];
    publish(&parts[..1]).unwrap();
    fs::write(
        dir.path().join(".part-0123abcd-9-000-000001.jsonl"),
        "old lineage",
    )
    .unwrap();
    fs::write(dir.path().join(".hidden"), "someone's").unwrap();
    // The caller is attempt 10 and may have been replaced by 11 without knowing.
    let newer = dir.path().join(".part-0123abcd-11-000-000001.jsonl");
    fs::write(&newer, "the successor's").unwrap();
    // The same name in another directory keeps nothing here.
    let elsewhere = StagedPart {
        dir: PathBuf::from("/elsewhere"),
        ..parts[2].clone()
    };
    assert_eq!(
        sweep(dir.path(), &[parts[1].clone(), elsewhere], 10).unwrap(),
        2
    );
    assert_eq!(fs::read_to_string(&newer).unwrap(), "the successor's");
    fs::remove_file(&newer).unwrap();
    let names: Vec<String> = listing(dir.path())
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, [".hidden", &parts[1].staged, &parts[0].name]);
    assert_eq!(sweep(dir.path(), &parts, 10).unwrap(), 0);
    assert_eq!(sweep(&dir.path().join("missing"), &parts, 10).unwrap(), 0);
}

#[test]
fn the_directory_is_created_or_refused_with_the_remedy() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("out");
    check_dir("out", &dir, true).unwrap();
    assert_eq!(listing(&dir), []);
    check_dir("out", &dir, true).unwrap();

    let error = check_dir("out", &base.path().join("no/out"), true).unwrap_err();
    assert_eq!(error.code(), "W0703");
    let text = error.to_string();
    assert!(
        text.contains("`out`") && text.contains("no does not exist; create it"),
        "{text}"
    );

    fs::write(base.path().join("file"), "").unwrap();
    for (path, what) in [
        ("file", "it is a file"),
        ("file/out", "it cannot be looked at"),
    ] {
        let error = check_dir("out", &base.path().join(path), true)
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{error}");
    }
    // Whoever only looks is refused the same, and changes nothing.
    for (path, what) in [
        ("no/out", "no does not exist; create it"),
        ("file", "it is a file"),
    ] {
        let error = check_dir("out", &base.path().join(path), false)
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{error}");
    }
    check_dir("out", &base.path().join("later"), false).unwrap();
    assert!(!base.path().join("no").exists() && !base.path().join("later").exists());

    // Nobody, root included, can write here.
    let error = check_dir("out", Path::new("/proc/self"), true)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot be written to") && error.contains("write access"),
        "{error}"
    );
}
