//! The reference of job files: every field with its type, default and meaning, from the JSON Schema, and an example from the jobs that
//! the documents show.
//!
//! The descriptions in the schema are doc comments of `host/runtime/src/job/file.rs`. Their last sentence says what happens where an
//! optional field is left out: `Default: …` or `Required…`. A field without such a sentence, or without an example, is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Map, Value};

use super::cell;
use super::yaml::Node;
use crate::documents::anchor;

const HEAD: &str = "\
# Job file: reference

Every field of a job file. [The guide](job-file.md) explains how they belong together.

This page is made from the schema that `weir schema` prints; its texts are doc comments in
[`host/runtime/src/job/file.rs`](../host/runtime/src/job/file.rs), its examples from the guide. After a change there,
`WEIR_BLESS=1 cargo test --release --workspace --test references` rewrites it.

A field that is not listed is refused, with a suggestion. `ID` and `NAME` stand for names of your choice.
";

/// What a field does without: the last sentence of its description.
#[derive(Debug, PartialEq, Eq)]
enum Absent<'a> {
    Default(&'a str),
    Required(&'a str),
}

/// The examples of each field, by the type that has it.
type Examples = BTreeMap<(String, String), Node>;

/// The schema, and what the page needs to know of it.
struct Schema<'a> {
    root: &'a Value,
    /// The mappings: name of the type and the paths at which it occurs, in the order in which they are found.
    sections: Vec<(String, Vec<String>)>,
}

/// Name of the type of the whole file.
const JOB: &str = "";

impl<'a> Schema<'a> {
    fn new(root: &'a Value) -> Schema<'a> {
        let mut schema = Schema {
            root,
            sections: Vec::new(),
        };
        schema.visit(root, JOB, "");
        schema
    }

    /// The definition that a schema refers to, with its name.
    fn definition(&self, schema: &'a Value) -> Option<(&'a str, &'a Value)> {
        let reference = schema["$ref"].as_str()?;
        let name = reference.strip_prefix("#/$defs/")?;
        Some((name, &self.root["$defs"][name]))
    }

    fn section(&self, name: &str) -> &'a Value {
        match name {
            JOB => self.root,
            name => &self.root["$defs"][name],
        }
    }

    /// Notes the mappings in a schema at a path.
    fn visit(&mut self, schema: &'a Value, name: &str, path: &str) {
        if let Some((name, definition)) = self.definition(schema) {
            return self.visit(definition, name, path);
        }
        for alternative in schema["anyOf"].as_array().into_iter().flatten() {
            self.visit(alternative, name, path);
        }
        if let items @ Value::Object(_) = &schema["items"] {
            self.visit(items, name, path);
        }
        if let each @ Value::Object(_) = &schema["additionalProperties"] {
            let by_id = has_ids(schema) && !path.ends_with("inputs");
            let wildcard = if by_id { "ID" } else { "NAME" };
            self.visit(each, name, &format!("{path}.{wildcard}"));
        }
        let Some(fields) = schema["properties"].as_object() else {
            return;
        };
        match self.sections.iter_mut().find(|(known, _)| known == name) {
            Some((_, paths)) => {
                if !paths.iter().any(|known| known == path) {
                    paths.push(path.to_owned());
                }
            }
            None => self.sections.push((name.to_owned(), vec![path.to_owned()])),
        }
        for (field, schema) in in_order(schema, fields) {
            let below = if path.is_empty() {
                field.clone()
            } else {
                format!("{path}.{field}")
            };
            self.visit(schema, JOB, &below);
        }
    }

    fn heading(&self, name: &str) -> String {
        let section = self.sections.iter().find(|(known, _)| known == name);
        match section.map(|(_, paths)| paths[0].as_str()) {
            Some("") => "The job".to_owned(),
            Some(path) => format!("`{path}`"),
            None => panic!("no mapping is called {name}"),
        }
    }

    /// The type of a value, for a cell.
    fn kind(&self, schema: &'a Value) -> String {
        if let Some((name, definition)) = self.definition(schema) {
            if definition["properties"].is_object() {
                return format!("[mapping](#{})", anchor(&self.heading(name)));
            }
            if definition["pattern"].is_string() {
                return format!("[{}](#values)", name.to_lowercase());
            }
            return self.kind(definition);
        }
        let alternatives = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        if let Some(alternatives) = alternatives {
            if let [one, many] = alternatives.as_slice()
                && many["items"] == without_description(one)
            {
                return format!("{}, or a list of them", self.kind(one));
            }
            let kinds: Vec<_> = alternatives.iter().map(|of| self.kind(of)).collect();
            let (last, others) = kinds.split_last().expect("there are alternatives");
            return match others {
                [] => last.clone(),
                others => format!("{} or {last}", others.join(", ")),
            };
        }
        if let Some(word) = schema["const"].as_str() {
            return format!("`{word}`");
        }
        match schema["type"].as_str() {
            Some("string") => "text".to_owned(),
            Some("boolean") => "`true` or `false`".to_owned(),
            Some("integer") => match (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
                (Some(low), Some(high)) if low == high => number(low),
                (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
                (Some(0) | None, None) => "whole number".to_owned(),
                (Some(low), None) => format!("whole number, at least {}", number(low)),
                (None, Some(high)) => format!("whole number, at most {}", number(high)),
            },
            Some("array") => format!("list of {}", self.kind(&schema["items"])),
            Some("object") if schema["additionalProperties"] == false => "`{}`".to_owned(),
            Some("object") => {
                let each = self.kind(&schema["additionalProperties"]);
                match has_ids(schema) {
                    true => format!("by [id](#values): {each}"),
                    false => format!("by name: {each}"),
                }
            }
            Some(other) => panic!("the reference has no words for type {other}"),
            None => "anything".to_owned(),
        }
    }

    /// The words that a value may be, with their meanings.
    fn words(&self, schema: &'a Value) -> Vec<(&'a str, &'a str)> {
        let schema = self.definition(schema).map_or(schema, |(_, found)| found);
        let mut words = Vec::new();
        for alternative in schema["anyOf"].as_array().into_iter().flatten() {
            words.extend(self.words(alternative));
        }
        for word in schema["oneOf"].as_array().into_iter().flatten() {
            if let (Some(word), Some(meaning)) =
                (word["const"].as_str(), word["description"].as_str())
            {
                words.push((word, meaning));
            }
        }
        words
    }

    /// Takes the first example of each field out of a job.
    fn collect(&self, schema: &'a Value, name: &str, node: &Node, examples: &mut Examples) {
        if let Some((name, definition)) = self.definition(schema) {
            return self.collect(definition, name, node, examples);
        }
        for alternative in schema["anyOf"].as_array().into_iter().flatten() {
            self.collect(alternative, name, node, examples);
        }
        match node {
            Node::Scalar(..) => {}
            Node::List(items) => {
                if schema["items"].is_object() {
                    let each = items.iter();
                    each.for_each(|item| self.collect(&schema["items"], name, item, examples));
                }
            }
            Node::Map(entries) => {
                for (key, node) in entries {
                    let field = &schema["properties"][key];
                    if field.is_object() {
                        let at = (name.to_owned(), key.clone());
                        // Plain text shows more in a line than a mapping, which has a section of its own.
                        let known = examples.entry(at).or_insert_with(|| node.clone());
                        if matches!((&*known, node), (Node::Map(_), Node::Scalar(..))) {
                            *known = node.clone();
                        }
                        self.collect(field, JOB, node, examples);
                    } else if schema["additionalProperties"].is_object() {
                        self.collect(&schema["additionalProperties"], name, node, examples);
                    }
                }
            }
        }
    }
}

/// The fields of the whole file in the order in which people write them.
const ORDER: [&str; 13] = [
    "version",
    "job",
    "delivery",
    "parallelism",
    "max_parallelism",
    "memory",
    "state",
    "checkpoint",
    "restart",
    "metrics",
    "sources",
    "operators",
    "sinks",
];

/// Whether the keys of a mapping are ids, not names from elsewhere.
fn has_ids(schema: &Value) -> bool {
    schema["propertyNames"].is_object()
}

/// The fields, those that are required first.
fn in_order<'a>(schema: &Value, fields: &'a Map<String, Value>) -> Vec<(&'a String, &'a Value)> {
    let of_job = ["version", "job"]
        .iter()
        .all(|name| fields.contains_key(*name));
    let first = if of_job {
        ORDER.to_vec()
    } else {
        required(schema)
    };
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| {
        let place = first.iter().position(|known| known == name);
        place.unwrap_or(first.len())
    });
    fields
}

fn without_description(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("description");
    }
    schema
}

fn required(schema: &Value) -> Vec<&str> {
    let names = schema["required"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A description without its last sentence, and that sentence, if it is about the field's absence.
fn split(description: &str) -> (&str, Option<Absent<'_>>) {
    let before = |at: usize| description[..at].trim_end();
    if let Some(at) = description.rfind("Default: ") {
        let value = description[at + "Default: ".len()..].trim_end_matches('.');
        return (before(at), Some(Absent::Default(value)));
    }
    match description.rfind("Required") {
        Some(at) => {
            let when = description[at..].trim_end_matches('.');
            (before(at), Some(Absent::Required(when)))
        }
        None => (description, None),
    }
}

fn default_cell(absent: Option<Absent<'_>>, required: bool) -> Result<String, String> {
    match absent {
        _ if required => Ok("required".to_owned()),
        Some(Absent::Required(when)) => Ok(format!("r{}", &when[1..])),
        Some(Absent::Default(value)) if value.contains([' ', '`']) => Ok(value.to_owned()),
        Some(Absent::Default(value)) => Ok(format!("`{value}`")),
        None => Err("its description ends with neither `Default: …` nor `Required …`".to_owned()),
    }
}

/// The page, with examples from `jobs`.
///
/// # Errors
/// Fields of which the schema or the jobs do not say enough.
pub fn page(schema: &Value, jobs: &[Node]) -> Result<String, String> {
    let schema = Schema::new(schema);
    let mut examples = Examples::new();
    for job in jobs {
        schema.collect(schema.root, JOB, job, &mut examples);
    }
    let mut page = HEAD.to_owned();
    let mut lacking = String::new();
    write_values(&schema, &mut page);
    for (name, paths) in &schema.sections {
        let section = schema.section(name);
        let fields = section["properties"].as_object().expect("it is a mapping");
        let _ = write!(page, "\n## {}\n", schema.heading(name));
        let description = section["description"].as_str().unwrap_or_default();
        let _ = write!(page, "\n{description}");
        if paths.len() > 1 {
            let others: Vec<_> = paths[1..].iter().map(|path| format!("`{path}`")).collect();
            let _ = write!(page, " The same at {}.", others.join(", "));
        }
        page.push_str(
            "\n\n| field | type | default | meaning | example |\n|---|---|---|---|---|\n",
        );
        let required = required(section);
        let mut words = String::new();
        for (field, of_field) in in_order(section, fields) {
            let (meaning, absent) = split(of_field["description"].as_str().unwrap_or_default());
            let default = default_cell(absent, required.contains(&field.as_str()));
            let default = default.unwrap_or_else(|problem| {
                let _ = writeln!(lacking, "`{field}` of {}: {problem}", schema.heading(name));
                String::new()
            });
            let at = (name.clone(), field.clone());
            let example = match examples.get(&at) {
                Some(node @ Node::Map(_)) if node.to_string().len() > 50 => String::new(),
                Some(node) => format!("`{field}: {node}`"),
                None => {
                    let heading = schema.heading(name);
                    let _ = writeln!(
                        lacking,
                        "`{field}` of {heading}: no job in the guide has it"
                    );
                    String::new()
                }
            };
            let kind = schema.kind(of_field);
            let row = [&format!("`{field}`"), &kind, &default, meaning, &example].map(cell);
            let _ = writeln!(page, "| {} |", row.join(" | "));
            let of_field = schema.words(of_field);
            if !of_field.is_empty() {
                let _ = write!(words, "\n| `{field}` | meaning |\n|---|---|\n");
            }
            for (word, meaning) in of_field {
                let _ = writeln!(words, "| `{word}` | {} |", cell(meaning));
            }
        }
        page.push_str(&words);
    }
    if lacking.is_empty() {
        Ok(page)
    } else {
        Err(lacking)
    }
}

/// The forms of values that have names of their own.
fn write_values(schema: &Schema<'_>, page: &mut String) {
    page.push_str("\n## Values\n\n| type | form |\n|---|---|\n");
    let definitions = schema.root["$defs"].as_object();
    for (name, definition) in definitions.into_iter().flatten() {
        if definition["pattern"].is_string() {
            let form = definition["description"].as_str().unwrap_or_default();
            let _ = writeln!(page, "| {} | {} |", name.to_lowercase(), cell(form));
        }
    }
    page.push_str(
        "| id | 1 to 64 of the characters `A-Z a-z 0-9 - _`, beginning with a letter or digit; unique in the job |\n\
         | text | as YAML has it; `${NAME}` in it stands for a variable of the environment |\n",
    );
}

/// Defaults that a field's description states, by type and field.
fn stated<'a>(schema: &Schema<'a>) -> BTreeMap<(String, String), &'a str> {
    let mut stated = BTreeMap::new();
    for (name, _) in &schema.sections {
        let fields = schema.section(name)["properties"].as_object();
        for (field, of_field) in fields.into_iter().flatten() {
            let description = of_field["description"].as_str().unwrap_or_default();
            if let (_, Some(Absent::Default(value))) = split(description) {
                stated.insert((name.clone(), field.clone()), value.trim_matches('`'));
            }
        }
    }
    stated
}

/// Compares the defaults that descriptions state with those that were filled in: `resolved` is what `given` came to. Returns how many
/// were compared.
///
/// # Errors
/// Those that differ.
pub fn compare_defaults(schema: &Value, given: &Node, resolved: &Node) -> Result<usize, String> {
    let schema = Schema::new(schema);
    let of = |node| {
        let mut fields = Examples::new();
        schema.collect(schema.root, JOB, node, &mut fields);
        fields
    };
    let (given, resolved, stated) = (of(given), of(resolved), stated(&schema));
    let is_required =
        |(name, field): &(String, String)| required(schema.section(name)).contains(&field.as_str());
    let filled_in = resolved
        .iter()
        .filter(|(at, _)| !given.contains_key(*at) && !is_required(at));
    let mut differ = String::new();
    let mut compared = BTreeSet::new();
    for (at, node) in filled_in {
        let Node::Scalar(value, _) = node else {
            continue;
        };
        compared.insert(at);
        let said = stated.get(at).copied();
        if said != Some(value.as_str()) {
            let _ = writeln!(differ, "`{}` is {value}; said: {said:?}", at.1);
        }
    }
    if differ.is_empty() {
        Ok(compared.len())
    } else {
        Err(differ)
    }
}
