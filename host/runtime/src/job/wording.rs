//! How messages name a place in a job file: `` `exchange` of operator `daily` ``.

/// The sections whose entries have ids, and what an entry of each is called.
const NODES: [(&str, &str); 3] = [
    ("sources", "source"),
    ("operators", "operator"),
    ("sinks", "sink"),
];

/// The node that `path` leads into, and the rest of the path.
fn split<'p, 's>(path: &'p [&'s str]) -> Option<(&'static str, &'s str, &'p [&'s str])> {
    let [section, id, rest @ ..] = path else {
        return None;
    };
    let (_, kind) = NODES.iter().find(|(name, _)| name == section)?;
    Some((kind, id, rest))
}

/// `a.b[0]`.
fn join(path: &[&str]) -> String {
    let mut text = String::new();
    for segment in path {
        if !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit()) {
            text.push_str(&format!("[{segment}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(segment);
        }
    }
    text
}

/// The value at `path`: keys, and decimal numbers for places in a list.
pub(super) fn subject(path: &[&str]) -> String {
    match split(path) {
        Some((kind, id, [])) => format!("{kind} `{id}`"),
        Some((kind, id, rest)) => format!("`{}` of {kind} `{id}`", join(rest)),
        None if path.is_empty() => "the job file".to_owned(),
        None => format!("`{}`", join(path)),
    }
}

/// What the fields at `path` are fields of: an input's are its operator's or sink's.
pub(super) fn owner(path: &[&str]) -> String {
    match split(path) {
        Some((_, _, ["input" | "inputs", ..])) => subject(&path[..2]),
        _ => subject(path),
    }
}

/// `` `a`, `b` and `c` ``.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
