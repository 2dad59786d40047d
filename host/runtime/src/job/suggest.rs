//! "Did you mean": the nearest of the names that would have been right.

/// More candidates than this are not looked at.
const MAX_CANDIDATES: usize = 2_000;

/// The candidate nearest to `text`, if one is near enough to be a misspelling of it. Case, `-` and `_` count for nothing.
pub(crate) fn nearest<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if text.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let text = plain(text);
    let allowed = 1 + text.chars().count() / 4;
    candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .map(|candidate| (strsim::osa_distance(&text, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_misses_are_found_and_strangers_are_not() {
        let fields = ["from", "exchange", "event_time"];
        for (text, found) in [
            ("exchang", Some("exchange")),
            ("form", Some("from")),
            ("event-time", Some("event_time")),
            ("Exchange", Some("exchange")),
            ("partition", None),
            ("x", None),
        ] {
            assert_eq!(nearest(text, fields), found, "{text}");
        }
    }
}
