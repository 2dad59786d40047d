//! What the documentation shows is so: its jobs are valid, its commands exist, its code is that of the examples, its links lead
//! somewhere, and every code that stops a job at night is explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use weir::diagnostic::code::{CODES, meaning};
use weir_tests::documents::{Document, documents, root};
use weir_tests::place::Place;

#[test]
fn every_job_shown_is_valid() {
    let place = Place::temporary();
    let mut shown = 0;
    for document in documents() {
        for block in document.blocks() {
            if block.language != "yaml" || block.lines.first() != Some(&"version: 1") {
                continue;
            }
            shown += 1;
            place.write("job.yaml", block.lines.join("\n"));
            let exit = place.weir(&["check", "--offline", "job.yaml"]);
            assert_eq!(exit.code(), Some(0), "{}:\n{}", block.at, exit.log);
        }
    }
    assert!(shown >= 8, "only {shown} jobs were found");
}

/// The arguments of a shown command, up to a comment, a pipe or a redirection; `None` if it is not one of `weir`.
fn arguments(line: &str) -> Option<Vec<&str>> {
    let command = line.strip_prefix("$ ").unwrap_or(line);
    let arguments = command.strip_prefix("weir ")?;
    let ends = |word: &&str| !matches!(*word, "#" | "|" | "<" | ">" | "2>" | "&&" | "&" | ";");
    Some(arguments.split_whitespace().take_while(ends).collect())
}

#[test]
fn every_command_shown_exists() {
    let place = Place::temporary();
    let mut shown = BTreeSet::new();
    for document in documents() {
        for block in document.blocks() {
            if block.language != "console" {
                continue;
            }
            for line in &block.lines {
                let Some(arguments) = arguments(line) else {
                    continue;
                };
                // Help comes instead of the deed, but only if what stands before it is understood.
                let exit = place.weir(&[&arguments[..], &["--help"]].concat());
                assert_eq!(exit.code(), Some(0), "{}: {line}\n{}", block.at, exit.log);
                shown.extend(arguments.first().map(|verb| (*verb).to_owned()));
            }
        }
    }
    let verbs: Vec<_> = shown.iter().map(String::as_str).collect();
    assert_eq!(
        verbs,
        [
            "build", "check", "explain", "inspect", "kafka", "new", "run", "schema", "status",
            "stop", "try"
        ]
    );
}

/// Whether `lines` stand in `file` one after the other, whatever their indentation.
fn stand_in(file: &str, lines: &[&str]) -> bool {
    let trimmed = |line: &&str| line.trim().to_owned();
    let wanted: Vec<_> = lines.iter().map(trimmed).collect();
    let there: Vec<_> = file.lines().map(|line| line.trim().to_owned()).collect();
    there.windows(wanted.len()).any(|window| window == wanted)
}

/// Code in the documents is quoted, so it compiles and is tested where it stands: a comment before the block names the file; a
/// line `// …`, or `# …` in Python, stands for what is left out.
#[test]
fn code_shown_is_that_of_the_files_it_is_from() {
    let mut quoted = 0;
    for document in documents() {
        for block in document.blocks() {
            if !["rust", "python", "javascript"].contains(&block.language) {
                continue;
            }
            let from = block
                .before
                .strip_prefix("<!-- from ")
                .and_then(|rest| rest.strip_suffix(" -->"))
                .unwrap_or_else(|| panic!("{}: the line before names no file", block.at));
            let file = fs::read_to_string(root().join(from))
                .unwrap_or_else(|error| panic!("{}: {from}: {error}", block.at));
            for piece in block
                .lines
                .split(|line| ["// …", "# …"].contains(&line.trim()))
            {
                assert!(
                    piece.is_empty() || stand_in(&file, piece),
                    "{}: not in {from}:\n{}",
                    block.at,
                    piece.join("\n")
                );
            }
            quoted += 1;
        }
    }
    assert!(quoted >= 5, "only {quoted} pieces of code were found");
}

/// A service unit that people copy from the documentation is the one that is shipped.
#[test]
fn the_unit_shown_is_the_one_shipped() {
    let shipped = fs::read_to_string(root().join("packaging/weir@.service")).expect("it is there");
    let documents = documents();
    let shown = documents.iter().flat_map(Document::blocks);
    let units: Vec<_> = shown.filter(|block| block.language == "ini").collect();
    assert_eq!(units.len(), 1, "one unit is shown");
    assert_eq!(units[0].lines.join("\n") + "\n", shipped, "{}", units[0].at);
    for setting in [
        "Type=notify",
        "RestartPreventExitStatus=2 3 4 5",
        "StateDirectory=weir/%i",
    ] {
        assert!(shipped.lines().any(|line| line == setting), "{setting}");
    }
}

/// Metrics that the documentation explains are those that there are.
#[test]
fn every_metric_is_explained() {
    let documents = documents();
    let operating = documents
        .iter()
        .find(|document| document.name == "docs/operating.md")
        .expect("docs/operating.md is there");
    let source = root().join("host/runtime/src/control/exposition.rs");
    let source = fs::read_to_string(source).expect("the metrics are there");
    let (source, _) = source.split_once("#[cfg(test)]").expect("tests follow");
    let metrics: BTreeSet<_> = source
        .split('"')
        .filter(|text| text.starts_with("weir_"))
        .collect();
    assert!(metrics.len() > 25, "{metrics:?}");
    for metric in &metrics {
        assert!(
            operating.text.contains(&format!("`{metric}`")),
            "docs/operating.md does not explain {metric}"
        );
    }
    let named = operating
        .text
        .split('`')
        .filter(|text| text.starts_with("weir_"));
    for name in named {
        let name = name.split('{').next().expect("a name");
        let name = name.trim_end_matches("_sum").trim_end_matches("_count");
        assert!(metrics.contains(name), "there is no metric {name}");
    }
}

#[test]
fn links_lead_somewhere() {
    let mut followed = 0;
    for document in documents() {
        let folder = Path::new(&document.name).parent().unwrap_or(Path::new(""));
        for link in document.links() {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => root().join(&document.name),
                path => root().join(folder).join(path),
            };
            assert!(target.exists(), "{}: {link} leads nowhere", document.name);
            if !heading.is_empty() {
                let name = match path {
                    "" => document.name.clone(),
                    path => folder.join(path).display().to_string(),
                };
                let anchors = Document::named(&name).anchors();
                assert!(
                    anchors.iter().any(|anchor| anchor == heading),
                    "{}: {link}: no such heading",
                    document.name
                );
            }
            followed += 1;
        }
    }
    assert!(followed >= 20, "only {followed} links were found");
}

/// Every `W` and four digits in a text.
fn codes(text: &str) -> BTreeSet<&str> {
    let starts = text.match_indices('W').map(|(at, _)| at);
    starts
        .filter_map(|at| text.get(at..at + 5))
        .filter(|code| code[1..].bytes().all(|byte| byte.is_ascii_digit()))
        .collect()
}

#[test]
fn codes_named_exist_and_those_of_the_night_are_explained() {
    let documents = documents();
    for document in &documents {
        for code in codes(&document.text) {
            assert!(meaning(code).is_some(), "{}: {code}", document.name);
        }
    }
    let operating = documents
        .iter()
        .find(|document| document.name == "docs/operating.md")
        .expect("docs/operating.md is there");
    let explained = codes(&operating.text);
    for (code, meaning) in CODES.iter().filter(|(code, _)| code.starts_with("W05")) {
        assert!(
            explained.contains(code),
            "docs/operating.md does not say what to do about {code}: {meaning}"
        );
    }
}

#[test]
fn what_a_kill_does_is_said_for_every_fault_point() {
    let page = Document::named("docs/exactly-once.md");
    for point in weir::fault_point::ALL {
        let name = format!("`{point}`");
        assert!(
            page.text.contains(&name),
            "docs/exactly-once.md does not say it of {name}"
        );
    }
}
