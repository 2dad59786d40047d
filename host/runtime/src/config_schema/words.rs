//! What a schema allows, in words.

use serde_json::Value;

use super::{ConfigSchema, brief};

/// Alternatives and constants that are spelled out; a schema may have any number.
const SPELLED_OUT: usize = 12;

impl ConfigSchema {
    /// What `schema` allows: `an integer from 0 to 14`.
    pub(super) fn words(&self, schema: &Value) -> String {
        self.words_within(schema, 0)
    }

    fn words_within(&self, schema: &Value, depth: usize) -> String {
        /// Enough for a list of optional things.
        const DEPTH: usize = 4;
        let schema = self.resolved(schema);
        let Some(keywords) = schema.as_object() else {
            let allowed = schema.as_bool() == Some(true);
            return if allowed { "anything" } else { "left out" }.to_owned();
        };
        if let Some(constant) = keywords.get("const") {
            return brief(constant);
        }
        if let Some(values) = keywords.get("enum").and_then(Value::as_array) {
            return alternatives(values.iter().map(brief));
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if let Some(schemas) = keywords.get(key).and_then(Value::as_array)
                && depth < DEPTH
                && !keywords.contains_key("type")
            {
                let words = schemas.iter().map(|it| self.words_within(it, depth + 1));
                return if key == "allOf" {
                    words.collect::<Vec<_>>().join(" and ")
                } else {
                    alternatives(words)
                };
            }
        }
        let types: Vec<&str> = match keywords.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            _ => return "something else".to_owned(),
        };
        alternatives(types.into_iter().map(|name| match name {
            "integer" => format!("an integer{}", range(keywords)),
            "number" => format!("a number{}", range(keywords)),
            "boolean" => "true or false".to_owned(),
            "null" => "null".to_owned(),
            "string" => {
                let bounds = bounds(keywords, "minLength", "maxLength", "characters");
                format!("text{bounds}")
            }
            "array" => {
                let mut bounds = bounds(keywords, "minItems", "maxItems", "items");
                if keywords.get("uniqueItems").and_then(Value::as_bool) == Some(true) {
                    bounds.push_str(" without repetitions");
                }
                match keywords.get("items") {
                    Some(items) if depth < DEPTH && items.is_object() => {
                        let items = self.words_within(items, depth + 1);
                        format!("a list{bounds}, each item {items}")
                    }
                    _ => format!("a list{bounds}"),
                }
            }
            _ => {
                let bounds = bounds(keywords, "minProperties", "maxProperties", "fields");
                format!("a mapping{bounds}")
            }
        }))
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn alternatives(words: impl IntoIterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    if all.len() > SPELLED_OUT {
        let more = all.len() - SPELLED_OUT;
        all.truncate(SPELLED_OUT);
        all.push(format!("one of {more} more"));
    }
    match all.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => "something else".to_owned(),
    }
}

type Keywords = serde_json::Map<String, Value>;

/// ` from 0 to 14`.
fn range(keywords: &Keywords) -> String {
    let least = match (keywords.get("minimum"), keywords.get("exclusiveMinimum")) {
        (_, Some(bound)) => Some(("more than", bound)),
        (Some(bound), None) => Some(("at least", bound)),
        (None, None) => None,
    };
    let most = match (keywords.get("maximum"), keywords.get("exclusiveMaximum")) {
        (_, Some(bound)) => Some(("less than", bound)),
        (Some(bound), None) => Some(("at most", bound)),
        (None, None) => None,
    };
    match (least, most) {
        (None, None) => String::new(),
        (Some(("at least", from)), Some(("at most", to))) => format!(" from {from} to {to}"),
        (Some((word, bound)), None) | (None, Some((word, bound))) => format!(" of {word} {bound}"),
        (Some((more, from)), Some((less, to))) => format!(" of {more} {from} and {less} {to}"),
    }
}

/// ` of 1 to 3 items`.
fn bounds(keywords: &Keywords, least: &str, most: &str, what: &str) -> String {
    let of = |key: &str| keywords.get(key).and_then(Value::as_u64);
    match (of(least), of(most)) {
        (None | Some(0), None) => String::new(),
        (Some(from), Some(to)) => format!(" of {from} to {to} {what}"),
        (Some(from), None) => format!(" of at least {from} {what}"),
        (None, Some(to)) => format!(" of at most {to} {what}"),
    }
}
