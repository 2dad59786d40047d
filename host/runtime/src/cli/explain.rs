//! `weir explain`: what a code means, what usually causes it, what to do.

use super::{print, say};
use crate::diagnostic::ExitCode;
use crate::diagnostic::code::CODES;
use crate::diagnostic::explain;
use crate::job::suggest;

/// Prints the explanation of `code`, or the list of all codes if there is none asked for.
pub(super) fn explain(code: Option<&str>) -> ExitCode {
    let Some(asked) = code else {
        let list: String = CODES
            .iter()
            .map(|(code, meaning)| format!("{code}  {meaning}\n"))
            .collect();
        return print(&list);
    };
    let code = canonical(asked);
    match explain::explain(&code) {
        Some(text) => print(&text),
        None => {
            say(&unknown(asked, &code));
            ExitCode::InvalidJob
        }
    }
}

/// A code as it may be typed or copied, as the table has it: `w401`, `[W0401]`, `error[W0401]:`.
fn canonical(asked: &str) -> String {
    let asked = asked
        .trim_end_matches([':', ']'])
        .rsplit('[')
        .next()
        .unwrap_or(asked);
    let digits = asked.strip_prefix(['w', 'W']).unwrap_or(asked);
    if !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("W{digits:0>4}")
    } else {
        asked.to_uppercase()
    }
}

fn unknown(asked: &str, code: &str) -> String {
    let nearest = suggest::nearest(code, CODES.iter().map(|(code, _)| *code));
    let suggestion = match nearest.and_then(|code| CODES.iter().find(|(known, _)| *known == code)) {
        Some((code, meaning)) => format!("did you mean {code}? ({meaning})"),
        None => "codes look like W0401".to_owned(),
    };
    format!(
        "error: there is no code `{}`\n  {suggestion}\n  help: `weir explain` lists all codes\n",
        asked.escape_debug()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_understood_as_they_are_copied() {
        for typed in ["W0401", "w0401", "401", "0401", "[W0401]", "error[W0401]:"] {
            assert_eq!(canonical(typed), "W0401", "{typed}");
        }
        assert_eq!(canonical("nonsense"), "NONSENSE");
    }

    #[test]
    fn an_unknown_code_gets_a_suggestion() {
        let near = unknown("W0402x", "W0402X");
        assert!(near.contains("did you mean W0402?"), "{near}");
        let far = unknown("nonsense", "NONSENSE");
        assert!(far.contains("codes look like W0401"), "{far}");
    }
}
