//! JSON Schemas of operators' configurations: a subset of draft 2020-12, checked whole.
//!
//! Own code rather than a library, since what is needed is small and the messages are what matters: a validator for all of JSON Schema brings
//! regular expressions, big numbers and the resolving of references over the network, forty crates in all, and says that "anyOf" does not
//! match where a person has to hear which field is wrong. What a schema uses beyond the subset is refused by name, never ignored:
//! the operator's author learns of it, not somebody whose mistake went unnoticed.
//!
//! Asserted are `type`, `enum`, `const`; `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`; `minLength`, `maxLength`;
//! `items`, `prefixItems`, `minItems`, `maxItems`, `uniqueItems`; `properties`, `required`, `additionalProperties`, `minProperties`,
//! `maxProperties`; `allOf`, `anyOf`, `oneOf`, `not`; and `$ref` to the schema itself or into its `$defs` or `definitions`.
//! `title`, `description`, `default`, `examples`, `format`, `deprecated`, `readOnly`, `writeOnly`, `$schema` and `$comment` say
//! something to people and assert nothing. Schemas that the `schemars` crate makes of plain Rust types are within the subset.

mod check;
mod words;

pub(crate) use check::below;

use serde_json::{Map, Value};

/// Schemas inside each other; a component may hand over anything.
const MAX_DEPTH: usize = 64;

/// Keywords that assert nothing.
const ANNOTATIONS: &[&str] = &[
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$comment",
];

const TYPES: &[&str] = &[
    "null", "boolean", "integer", "number", "string", "array", "object",
];

/// A schema within the subset.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigSchema {
    root: Value,
}

/// Something in a configuration that its schema does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer of the value at fault. For a missing field: of the mapping that lacks it.
    pub pointer: String,
    /// What is wrong with it.
    pub mismatch: Mismatch,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The mapping around it has no such field.
    Unknown {
        /// The fields it has.
        known: Vec<String>,
    },
    /// It lacks a field.
    Missing {
        /// The field.
        field: String,
        /// What the schema says the field is, in words.
        is: Option<String>,
    },
    /// It is not what it must be.
    Value {
        /// What it must be: `an integer from 0 to 14`.
        must: String,
    },
}

impl ConfigSchema {
    /// Reads a schema.
    ///
    /// # Errors
    /// It is not JSON, not a schema, or beyond the subset; in words that follow "its configuration schema".
    pub fn parse(text: &str) -> Result<ConfigSchema, String> {
        let root = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        subset(&root, &root, 0)?;
        Ok(ConfigSchema { root })
    }

    /// The fields of a configuration: name, what it must be in words, default, description. Empty where the schema is not that of a
    /// mapping.
    pub fn fields(&self) -> Vec<Field> {
        let Some(root) = self.resolved(&self.root).as_object() else {
            return Vec::new();
        };
        let Some(properties) = root.get("properties").and_then(Value::as_object) else {
            return Vec::new();
        };
        let required = required(root);
        let text = |schema: &Value, key: &str| {
            let text = schema.get(key).and_then(Value::as_str);
            text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let field = |(name, schema): (&String, &Value)| Field {
            name: name.clone(),
            is: self.words(schema),
            required: required.contains(&name.as_str()),
            default: schema.get("default").map(Value::to_string),
            description: text(schema, "description")
                .or_else(|| text(self.resolved(schema), "description")),
        };
        properties.iter().map(field).collect()
    }

    /// The schema that a chain of references ends in.
    fn resolved<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..MAX_DEPTH {
            let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
                break;
            };
            match target(&self.root, reference) {
                Some(next) => schema = next,
                None => break,
            }
        }
        schema
    }
}

/// A field of a configuration, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it must be.
    pub is: String,
    /// Whether it must be there.
    pub required: bool,
    /// What it is if it is left out, as JSON.
    pub default: Option<String>,
    /// What the author says of it.
    pub description: Option<String>,
}

fn required(keywords: &Map<String, Value>) -> Vec<&str> {
    let names = keywords.get("required").and_then(Value::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// What `$ref` points to.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    let definition = pointer.starts_with("/$defs/")
        || pointer.starts_with("/definitions/")
        || pointer.is_empty();
    definition.then(|| root.pointer(pointer)).flatten()
}

/// Whether `schema` and all in it is within the subset.
fn subset(root: &Value, schema: &Value, depth: usize) -> Result<(), String> {
    let fields = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(fields) => fields,
        other => return Err(format!("has {} where a schema belongs", brief(other))),
    };
    if depth > MAX_DEPTH {
        return Err(format!("is nested more than {MAX_DEPTH} deep"));
    }
    let inside = |schema: &Value| subset(root, schema, depth + 1);
    for (key, value) in fields {
        let fits = match key.as_str() {
            "type" => match value {
                Value::Array(types) => !types.is_empty() && types.iter().all(is_type),
                one => is_type(one),
            },
            "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
            "const" => true,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" => value.is_u64(),
            "uniqueItems" => value.is_boolean(),
            "required" => value
                .as_array()
                .is_some_and(|names| names.iter().all(Value::is_string)),
            "items" | "additionalProperties" | "not" => {
                inside(value)?;
                true
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => match value.as_array() {
                Some(schemas) if !schemas.is_empty() => {
                    schemas.iter().try_for_each(inside)?;
                    true
                }
                _ => false,
            },
            "properties" | "$defs" | "definitions" => match value.as_object() {
                Some(schemas) => {
                    schemas.values().try_for_each(inside)?;
                    true
                }
                None => false,
            },
            "$ref" => match value.as_str() {
                Some(reference) if target(root, reference).is_some() => true,
                Some(reference) => {
                    return Err(format!(
                        "refers to {reference:?}; only `#` and its own `$defs` can be referred to"
                    ));
                }
                None => false,
            },
            other if ANNOTATIONS.contains(&other) => true,
            other => {
                return Err(format!(
                    "uses `{}`, which this host does not check",
                    other.escape_debug()
                ));
            }
        };
        if !fits {
            return Err(format!("has `{key}` of the wrong form, {}", brief(value)));
        }
    }
    Ok(())
}

fn is_type(name: &Value) -> bool {
    name.as_str().is_some_and(|name| TYPES.contains(&name))
}

/// A value for messages: a scalar as JSON and not too long of it, anything else by its kind.
pub(crate) fn brief(value: &Value) -> String {
    const CHARACTERS: usize = 60;
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(fields) if fields.is_empty() => "an empty mapping".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        scalar => {
            let text = scalar.to_string();
            match text.char_indices().nth(CHARACTERS) {
                Some((cut, _)) => format!("{}…", &text[..cut]),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests;
