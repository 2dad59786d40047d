//! A configuration against its schema.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::words::alternatives;
use super::{ConfigSchema, Mismatch, Violation, brief, required, target};

/// Pairs of schema and value that are looked at. A schema comes from a component and may branch without end.
const MAX_STEPS: u32 = 1_000_000;

/// Calls inside each other: a schema that refers to itself without going deeper into the value would never end.
const MAX_CALLS: usize = 512;

impl ConfigSchema {
    /// All that `config` breaks, in the order of the schema. `null` stands for a configuration that is left out, so it is an empty
    /// mapping where the schema wants one.
    ///
    /// # Errors
    /// The schema cannot be followed to its end; in words that follow "its configuration schema".
    pub fn check(&self, config: &Value) -> Result<Vec<Violation>, String> {
        let (found, empty) = (self.violations(config)?, Value::Object(Map::new()));
        if config.is_null() && !found.is_empty() {
            return self.violations(&empty);
        }
        Ok(found)
    }

    fn violations(&self, config: &Value) -> Result<Vec<Violation>, String> {
        let mut run = Run {
            schema: self,
            steps: 0,
            calls: 0,
        };
        let mut found = Vec::new();
        run.check(&self.root, config, "", &mut found)?;
        Ok(found)
    }
}

struct Run<'a> {
    schema: &'a ConfigSchema,
    steps: u32,
    calls: usize,
}

fn value(pointer: &str, must: String) -> Violation {
    Violation {
        pointer: pointer.to_owned(),
        mismatch: Mismatch::Value { must },
    }
}

/// The pointer to a field or an item.
pub(crate) fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

impl Run<'_> {
    fn check(
        &mut self,
        schema: &Value,
        config: &Value,
        pointer: &str,
        found: &mut Vec<Violation>,
    ) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.calls >= MAX_CALLS {
            return Err("refers to itself without end".to_owned());
        }
        self.calls += 1;
        let checked = self.keywords(schema, config, pointer, found);
        self.calls -= 1;
        checked
    }

    fn keywords(
        &mut self,
        schema: &Value,
        config: &Value,
        pointer: &str,
        found: &mut Vec<Violation>,
    ) -> Result<(), String> {
        let Some(keywords) = schema.as_object() else {
            if schema.as_bool() == Some(false) {
                found.push(value(pointer, "left out".to_owned()));
            }
            return Ok(());
        };
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str)
            && let Some(referred) = target(&self.schema.root, reference)
        {
            self.check(referred, config, pointer, found)?;
        }
        if !scalar_fits(keywords, config) {
            found.push(value(pointer, self.schema.words(schema)));
            return Ok(());
        }
        match config {
            Value::Array(items) => self.items(keywords, items, pointer, found)?,
            Value::Object(members) => self.members(keywords, members, pointer, found)?,
            _ => {}
        }
        let list = |key: &str| keywords.get(key).and_then(Value::as_array);
        for all in list("allOf").into_iter().flatten() {
            self.check(all, config, pointer, found)?;
        }
        for (key, one) in [("anyOf", false), ("oneOf", true)] {
            if let Some(schemas) = list(key) {
                self.alternatives(schemas, one, config, pointer, found)?;
            }
        }
        if let Some(not) = keywords.get("not") {
            let mut inside = Vec::new();
            self.check(not, config, pointer, &mut inside)?;
            if inside.is_empty() {
                let what = self.schema.words(not);
                found.push(value(pointer, format!("anything but {what}")));
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        keywords: &Map<String, Value>,
        items: &[Value],
        pointer: &str,
        found: &mut Vec<Violation>,
    ) -> Result<(), String> {
        let first = keywords.get("prefixItems").and_then(Value::as_array);
        let first = first.map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate() {
            let schema = first.get(index).or_else(|| keywords.get("items"));
            if let Some(schema) = schema {
                self.check(schema, item, &below(pointer, &index.to_string()), found)?;
            }
        }
        Ok(())
    }

    fn members(
        &mut self,
        keywords: &Map<String, Value>,
        members: &Map<String, Value>,
        pointer: &str,
        found: &mut Vec<Violation>,
    ) -> Result<(), String> {
        let nothing = Map::new();
        let properties = keywords.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&nothing);
        for field in required(keywords) {
            if !members.contains_key(field) {
                let is = properties.get(field).map(|it| self.schema.words(it));
                found.push(Violation {
                    pointer: pointer.to_owned(),
                    mismatch: Mismatch::Missing {
                        field: field.to_owned(),
                        is,
                    },
                });
            }
        }
        for (name, member) in members {
            let at = below(pointer, name);
            match (properties.get(name), keywords.get("additionalProperties")) {
                (Some(schema), _) => self.check(schema, member, &at, found)?,
                (None, Some(Value::Bool(false))) => found.push(Violation {
                    pointer: at,
                    mismatch: Mismatch::Unknown {
                        known: properties.keys().cloned().collect(),
                    },
                }),
                (None, Some(schema)) => self.check(schema, member, &at, found)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// `anyOf` and `oneOf`. Where the value is clearly meant to be one of them, what is wrong is said of that one.
    fn alternatives(
        &mut self,
        schemas: &[Value],
        only_one: bool,
        config: &Value,
        pointer: &str,
        found: &mut Vec<Violation>,
    ) -> Result<(), String> {
        let mut failed = Vec::new();
        for schema in schemas {
            let mut inside = Vec::new();
            self.check(schema, config, pointer, &mut inside)?;
            if !inside.is_empty() {
                failed.push((schema, inside));
            }
        }
        let fitting = schemas.len() - failed.len();
        if fitting > 1 && only_one {
            let what = alternatives(schemas.iter().map(|schema| self.schema.words(schema)));
            found.push(value(pointer, format!("only one of {what}")));
        }
        if fitting > 0 {
            return Ok(());
        }
        // Of the right type at least: what is wrong lies deeper, or a field is missing.
        let here = |violation: &Violation| {
            violation.pointer == pointer && matches!(violation.mismatch, Mismatch::Value { .. })
        };
        let of_type: Vec<_> = failed
            .iter()
            .filter(|(_, inside)| !inside.iter().any(here))
            .collect();
        // A constant field, such as a tag, tells which one is meant.
        let untagged: Vec<_> = of_type
            .iter()
            .filter(|(schema, _)| !self.another_tag(schema, config))
            .collect();
        match (untagged.as_slice(), of_type.as_slice()) {
            ([(_, inside)], _) | ([], [(_, inside)]) => found.extend(inside.iter().cloned()),
            _ => {
                let what = alternatives(schemas.iter().map(|schema| self.schema.words(schema)));
                match self.wrong_tag(&of_type, config, pointer) {
                    Some(wrong) if untagged.is_empty() => found.push(wrong),
                    _ => found.push(value(pointer, what)),
                }
            }
        }
        Ok(())
    }

    /// The constant fields of an alternative: name and value.
    fn tags<'a>(&'a self, schema: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let properties = self.schema.resolved(schema).get("properties");
        let properties = properties.and_then(Value::as_object).into_iter().flatten();
        properties.filter_map(|(name, schema)| Some((name, schema.get("const")?)))
    }

    fn another_tag(&self, schema: &Value, config: &Value) -> bool {
        self.tags(schema)
            .any(|(name, tag)| config.get(name).is_some_and(|found| !same(found, tag)))
    }

    /// Where every alternative has the same constant field and the value has none of its values.
    fn wrong_tag(
        &self,
        alternatives_of_type: &[&(&Value, Vec<Violation>)],
        config: &Value,
        pointer: &str,
    ) -> Option<Violation> {
        let (first, _) = alternatives_of_type.first()?;
        let (name, _) = self.tags(first).next()?;
        config.get(name)?;
        let mut values = Vec::new();
        for (schema, _) in alternatives_of_type {
            let (_, tag) = self.tags(schema).find(|(other, _)| *other == name)?;
            values.push(brief(tag));
        }
        Some(value(&below(pointer, name), alternatives(values)))
    }
}

/// Whether a value, apart from what is inside it, is of the right type, one of the right constants, and within bounds.
fn scalar_fits(keywords: &Map<String, Value>, config: &Value) -> bool {
    let of_type = |name: &Value| match name.as_str() {
        Some("null") => config.is_null(),
        Some("boolean") => config.is_boolean(),
        Some("integer") => is_integer(config),
        Some("number") => config.is_number(),
        Some("string") => config.is_string(),
        Some("array") => config.is_array(),
        Some("object") => config.is_object(),
        _ => false,
    };
    let typed = match keywords.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(of_type),
        Some(one) => of_type(one),
    };
    let constant = keywords.get("const").is_none_or(|it| same(it, config));
    let listed = keywords
        .get("enum")
        .and_then(Value::as_array)
        .is_none_or(|values| values.iter().any(|it| same(it, config)));
    typed && constant && listed && within(keywords, config)
}

fn within(keywords: &Map<String, Value>, config: &Value) -> bool {
    let size = |least: &str, most: &str, size: usize| {
        let bound = |key: &str| keywords.get(key).and_then(Value::as_u64);
        bound(least).is_none_or(|least| size as u64 >= least)
            && bound(most).is_none_or(|most| size as u64 <= most)
    };
    match config {
        Value::Number(number) => [
            ("minimum", &[Ordering::Greater, Ordering::Equal][..]),
            ("maximum", &[Ordering::Less, Ordering::Equal]),
            ("exclusiveMinimum", &[Ordering::Greater]),
            ("exclusiveMaximum", &[Ordering::Less]),
        ]
        .iter()
        .all(|(key, allowed)| match keywords.get(*key) {
            Some(Value::Number(bound)) => allowed.contains(&order(number, bound)),
            _ => true,
        }),
        Value::String(text) => size("minLength", "maxLength", text.chars().count()),
        Value::Array(items) => {
            let unique = keywords.get("uniqueItems").and_then(Value::as_bool) == Some(true);
            let twice = || {
                let mut seen = HashSet::new();
                !items.iter().all(|item| seen.insert(canonical(item)))
            };
            size("minItems", "maxItems", items.len()) && !(unique && twice())
        }
        Value::Object(members) => size("minProperties", "maxProperties", members.len()),
        Value::Null | Value::Bool(_) => true,
    }
}

fn integer(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

/// JSON does not tell 1 from 1.0.
fn is_integer(config: &Value) -> bool {
    match config {
        Value::Number(number) => {
            integer(number).is_some() || number.as_f64().is_some_and(|it| it.fract() == 0.0)
        }
        _ => false,
    }
}

fn order(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
            float(left).total_cmp(&float(right))
        }
    }
}

/// Equal as JSON Schema means it: numbers by their value.
fn same(left: &Value, right: &Value) -> bool {
    left == right || canonical(left) == canonical(right)
}

/// The same text for values that are equal: whole numbers without a fraction, fields in order.
fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if integer(number).is_none() && float.fract() == 0.0 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(key, value)| format!("{key:?}:{}", canonical(value)))
                .collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        scalar => scalar.to_string(),
    }
}
