//! The long text of every code: what it means, what usually causes it, what to do.
//!
//! The texts are Markdown files, one a range of codes, with a section a code; they are part of the binary, so that they are at hand
//! where a job fails at night.

use super::code;

/// The files, by what their codes begin with.
const FILES: &[(&str, &str)] = &[
    ("W01", include_str!("explain/job_file.md")),
    ("W02", include_str!("explain/components.md")),
    ("W03", include_str!("explain/start.md")),
    ("W04", include_str!("explain/operators.md")),
    ("W05", include_str!("explain/checkpoints.md")),
    ("W06", include_str!("explain/sources.md")),
    ("W07", include_str!("explain/sinks.md")),
    ("W08", include_str!("explain/authors.md")),
    ("W09", include_str!("explain/kafka.md")),
];

/// Columns that a text is wrapped to.
const WIDTH: usize = 80;

/// The sections of a file: code and text.
fn sections(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    file.split("\n## ").skip(1).map(|section| {
        let (code, text) = section.split_once('\n').unwrap_or((section, ""));
        (code, text.trim())
    })
}

/// The explanation of `code` for a terminal, its meaning first; `None` if there is no such code.
pub fn explain(code: &str) -> Option<String> {
    let meaning = code::meaning(code)?;
    let (_, text) = FILES
        .iter()
        .filter(|(range, _)| code.starts_with(range))
        .flat_map(|(_, file)| sections(file))
        .find(|(known, _)| *known == code)?;
    let mut out = format!("{code}: {meaning}\n");
    for paragraph in text.split("\n\n") {
        out.push('\n');
        wrap(paragraph, &mut out);
    }
    Some(out)
}

/// Appends `paragraph` in lines of at most [`WIDTH`] characters, unless a word is longer.
fn wrap(paragraph: &str, out: &mut String) {
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            column = 0;
        }
        if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::code::CODES;

    #[test]
    fn every_code_is_explained_once_in_its_file_and_nothing_else_is() {
        let explained: Vec<_> = FILES
            .iter()
            .flat_map(|(range, file)| sections(file).map(move |(code, _)| (*range, code)))
            .collect();
        for (range, code) in &explained {
            assert!(code.starts_with(range), "{code} is in the file of {range}");
        }
        let explained: Vec<_> = explained.into_iter().map(|(_, code)| code).collect();
        let codes: Vec<_> = CODES.iter().map(|(code, _)| *code).collect();
        assert_eq!(explained, codes, "in the order of the table");
    }

    #[test]
    fn every_text_says_what_it_means_what_causes_it_and_what_to_do() {
        for (code, text) in FILES.iter().flat_map(|(_, file)| sections(file)) {
            let paragraphs: Vec<_> = text.split("\n\n").collect();
            let [meaning, causes, remedy] = paragraphs[..] else {
                panic!("{code} has {} paragraphs", paragraphs.len())
            };
            assert!(meaning.len() > 20, "{code}");
            assert!(causes.starts_with("Usual causes: "), "{code}");
            assert!(remedy.starts_with("What to do: "), "{code}");
        }
    }

    #[test]
    fn texts_are_wrapped_and_begin_with_the_meaning() {
        for (code, meaning) in CODES {
            let text = explain(code).expect("each has one");
            let (first, rest) = text.split_once('\n').expect("a line and more");
            assert_eq!(first, format!("{code}: {meaning}"));
            for line in rest.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
            let words = |text: &str| text.split_whitespace().count();
            assert!(words(rest) > 30, "{text}");
        }
        assert_eq!(explain("W9999"), None);
    }
}
