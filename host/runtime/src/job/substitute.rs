//! `${NAME}` and `${NAME:-default}` in the values of a job file.
//!
//! A value is replaced after YAML was parsed, so that no variable can add fields, and once: what a variable holds is not
//! looked at again. `$$` is a dollar sign; so is a `$` before anything that could not begin a name, as in `\d+$`.

use std::borrow::Cow;

/// Looks up a variable.
pub(super) type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What is wrong, and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub title: String,
    pub help: String,
}

fn problem<T>(title: String, help: String) -> Result<T, Problem> {
    Err(Problem { title, help })
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `text` with its variables replaced; borrowed where there is no dollar sign.
pub(super) fn substitute<'t>(
    text: &'t str,
    environment: &Environment<'_>,
) -> Result<Cow<'t, str>, Problem> {
    if !text.contains('$') {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(tail) = rest.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some(tail) = rest.strip_prefix('{') {
            let Some(end) = tail.find('}') else {
                return problem(
                    "a `${` that is never closed".to_owned(),
                    "write `${NAME}`, or `$${` for the text itself".to_owned(),
                );
            };
            out.push_str(&value(&tail[..end], environment)?);
            rest = &tail[end + 1..];
        } else if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let name = &rest[..end.unwrap_or(rest.len())];
            return problem(
                format!("a variable without braces: `${name}`"),
                format!("write `${{{name}}}`, or `$${name}` for the text itself"),
            );
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// The value of what stands between the braces.
fn value(inside: &str, environment: &Environment<'_>) -> Result<String, Problem> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_name(name) || default.is_some_and(|default| default.contains("${")) {
        return problem(
            format!("`${{{inside}}}` is not a variable"),
            "write `${NAME}` or `${NAME:-default}`; a name is letters, digits and `_`, a default holds no variable"
                .to_owned(),
        );
    }
    // As in a shell, `:-` also replaces a variable that is set to nothing.
    match (environment(name), default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => problem(
            format!("the environment variable `{name}` is not set"),
            format!("set it, or give a default: `${{{name}:-…}}`"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<String, String> {
        let environment = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "EMPTY" => Some(String::new()),
            "DOLLAR" => Some("${A}".to_owned()),
            _ => None,
        };
        substitute(text, &environment)
            .map(Cow::into_owned)
            .map_err(|problem| problem.title)
    }

    #[test]
    fn replaces_by_the_rules() {
        for (text, result) in [
            ("plain", "plain"),
            ("${A}", "one"),
            ("<${A}|${A}>", "<one|one>"),
            ("${B:-two}", "two"),
            ("${A:-two}", "one"),
            ("${EMPTY}", ""),
            ("${EMPTY:-two}", "two"),
            ("${B:-}", ""),
            ("${B:-a:-b}", "a:-b"),
            ("$${A}", "${A}"),
            ("$$", "$"),
            (r"^\d+$", r"^\d+$"),
            ("5$ or $5", "5$ or $5"),
            ("${DOLLAR}", "${A}"),
            ("ä${A}ö", "äoneö"),
        ] {
            assert_eq!(run(text).as_deref(), Ok(result), "{text}");
        }
    }

    #[test]
    fn refuses_by_name() {
        for (text, title) in [
            ("${B}", "the environment variable `B` is not set"),
            ("${A", "a `${` that is never closed"),
            ("${}", "`${}` is not a variable"),
            ("${1A}", "`${1A}` is not a variable"),
            ("${A-b}", "`${A-b}` is not a variable"),
            ("${B:-${A}}", "`${B:-${A}` is not a variable"),
            ("$A/x", "a variable without braces: `$A`"),
        ] {
            assert_eq!(run(text), Err(title.to_owned()), "{text}");
        }
    }
}
