//! Mutated job files: whatever they have become, they are read or refused with a place; never a panic, never a hang.

use super::good::GOOD;
use super::parse_text;
use crate::diagnostic::render;
use crate::job::print_resolved;

const MUTANTS_OF_EACH: u64 = 1_200;

/// SplitMix64: a seed names a mutant for good.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}

/// What job files are made of, and what has a meaning in YAML.
const PIECES: &[&str] = &[
    "\n",
    "  ",
    "\t",
    ":",
    ": ",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "|",
    ">",
    "|-\n",
    "'",
    "\"",
    "\\",
    "\\u0000",
    "%YAML 1.2\n",
    "---\n",
    "...\n",
    "@",
    "`",
    "~",
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "99999999999999999999",
    ".nan",
    "10s",
    "2GiB",
    "${NAME}",
    "${NOT_SET}",
    "${X:-",
    "$",
    "\u{feff}",
    "\u{0}",
    "é",
    "日本",
    "\u{2028}",
    "version: 2",
    "kafka: {}",
    "kafka: {brokers: 'k:9092', topic: t}",
    "offsets: {t: {0: 1}}",
    "topics: [a, b]",
    "{pattern: 'a.*('}",
    "password: hunter2",
    "{env: X}",
    "never",
    "latest",
    "input: clean",
    "by-key",
    "clean",
    "daily",
    "/",
    "/a~",
    "**/",
    "[!",
    "..",
    "\r",
    "\r\n",
];

fn mutate(text: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(6) {
        let at = random.below(chars.len() + 1);
        let end = (at + random.below(12)).min(chars.len());
        match random.below(6) {
            0 => {
                chars.drain(at..end);
            }
            1 => {
                let piece = PIECES[random.below(PIECES.len())];
                chars.splice(at..at, piece.chars());
            }
            2 => {
                let piece = PIECES[random.below(PIECES.len())];
                chars.splice(at..end, piece.chars());
            }
            3 => {
                let copy: Vec<char> = chars[at..end].to_vec();
                let to = random.below(chars.len() + 1);
                chars.splice(to..to, copy);
            }
            4 => chars.truncate(at),
            _ => {
                // A line moved: keeps the syntax, breaks the meaning.
                let text: String = chars.iter().collect();
                let mut lines: Vec<&str> = text.lines().collect();
                if !lines.is_empty() {
                    let line = lines.remove(random.below(lines.len()));
                    lines.insert(random.below(lines.len() + 1), line);
                }
                chars = lines.join("\n").chars().collect();
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn mutants_are_read_or_refused_with_a_place() {
    let (mut good, mut bad) = (0, 0);
    for (number, text) in GOOD.iter().enumerate() {
        for seed in 0..MUTANTS_OF_EACH {
            let mut random = Random((number as u64) << 32 | seed);
            let mutant = mutate(text, &mut random);
            match parse_text(&mutant) {
                Ok(job) => {
                    // What is accepted can be printed, and is accepted again.
                    let printed = print_resolved(&job);
                    let again = parse_text(&printed).map_err(|errors| render(&errors));
                    assert!(
                        again.is_ok(),
                        "seed {seed} of {number}: {printed}\n{again:?}"
                    );
                    good += 1;
                }
                Err(errors) => {
                    assert!(!errors.is_empty(), "seed {seed} of {number}");
                    for error in &errors {
                        let place = error.place.as_ref().expect("every error has a place");
                        assert!(
                            place.line > 0 && place.column > 0,
                            "seed {seed} of {number}: {error}"
                        );
                        assert!(
                            place.line as usize
                                <= mutant.split('\n').count() + 1 + mutant.matches('\r').count(),
                            "seed {seed} of {number}: {error}"
                        );
                    }
                    bad += 1;
                }
            }
        }
    }
    // Mutation is neither harmless nor hopeless.
    assert!(good > 100 && bad > 1_000, "{good} good, {bad} bad");
}

#[test]
fn large_and_deep_files_are_refused_quickly() {
    let deep = |open: &str| open.repeat(20_000);
    let many = |entry: fn(usize) -> String| (0..20_000).map(entry).collect::<String>();
    let aliases = "a: &a [x,x,x,x,x,x,x,x]\n".to_owned()
        + &(0..20)
            .map(|level| {
                let before = if level == 0 {
                    "a".to_owned()
                } else {
                    format!("b{}", level - 1)
                };
                format!(
                    "b{level}: &b{level} [{}]\n",
                    vec![format!("*{before}"); 8].join(",")
                )
            })
            .collect::<String>();
    for text in [
        deep("["),
        deep("{a: "),
        deep("- "),
        deep("? "),
        deep("a:\n "),
        format!("x: {}", deep("[a, ")),
        many(|number| format!("k{number}: v\n")),
        format!(
            "sources:\n{}",
            many(|number| format!("  s{number}: {{stdin: {{}}}}\n"))
        ),
        format!(
            "version: 1\njob: j\nsources: {{s: {{stdin: {{}}}}}}\nsinks:\n{}",
            many(|n| format!(" k{n}: {{input: s, stdout: {{}}}}\n"))
        ),
        format!("x: {}", "${NAME}".repeat(100_000)),
        aliases,
        "x".repeat(super::super::MAX_FILE_BYTES as usize + 1),
    ] {
        let errors = parse_text(&text).map(|_| ()).expect_err("refused");
        assert!(!errors.is_empty() && errors.len() <= 20);
    }
}
