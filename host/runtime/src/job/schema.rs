//! The JSON Schema of job files, made from the raw types.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::file::JobFile;

/// The schema, JSON Schema 2020-12.
pub(super) fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<JobFile>().to_value();
    refuse_null(&mut schema);
    schema
}

/// Schemars lets an optional field be null. In a job file it is left out: a field without a value is a mistake.
fn refuse_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(refuse_null),
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(any)) = object.get_mut("anyOf") {
                any.retain(|schema| schema.get("type").is_none_or(|name| name != "null"));
                if let [Value::Object(only)] = any.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            object.values_mut().for_each(refuse_null);
        }
        _ => {}
    }
}

/// The raw type `name`.
fn raw_type<'s>(schema: &'s Value, name: &str) -> &'s Value {
    schema.pointer(&format!("/$defs/{name}")).unwrap_or(schema)
}

/// The fields that a mapping of the raw type `owner` must have.
pub(super) fn required(owner: &str) -> Vec<String> {
    let schema = schema();
    let required = raw_type(&schema, owner)["required"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    required
        .into_iter()
        .filter_map(|field| field.as_str().map(str::to_owned))
        .collect()
}

/// The words that `field` of the raw type `owner` may be, if it is an enumeration of words.
pub(super) fn values(owner: &str, field: &str) -> Vec<String> {
    let schema = schema();
    let field = &raw_type(&schema, owner)["properties"][field];
    let reference = field["$ref"]
        .as_str()
        .and_then(|name| schema.pointer(name.strip_prefix('#')?));
    let field = reference.unwrap_or(field);
    let words = match (&field["enum"], &field["oneOf"]) {
        (Value::Array(words), _) => words.iter().collect::<Vec<_>>(),
        (_, Value::Array(each)) => each.iter().map(|one| &one["const"]).collect(),
        _ => Vec::new(),
    };
    words
        .into_iter()
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_every_field_and_no_null() {
        fn look(path: &str, schema: &Value) {
            if let Value::Object(object) = schema {
                assert_ne!(object.get("type"), Some(&Value::from("null")), "{path}");
                if let Some(Value::Object(properties)) = object.get("properties") {
                    for (name, property) in properties {
                        assert!(
                            property.get("description").is_some(),
                            "{path}/{name}: {property}"
                        );
                        look(&format!("{path}/{name}"), property);
                    }
                    assert_eq!(object["additionalProperties"], false, "{path}");
                }
                object
                    .iter()
                    // A field may be called `properties`, as may what has fields.
                    .filter(|(key, _)| *key != "properties")
                    .for_each(|(key, value)| look(&format!("{path}/{key}"), value));
            }
        }
        look("", &schema());
        assert_eq!(
            schema()["required"],
            serde_json::json!(["version", "job", "sources", "sinks"])
        );
    }

    #[test]
    fn knows_the_words_of_enumerations() {
        assert_eq!(
            values("Edge", "exchange"),
            ["forward", "by-key", "rebalance"]
        );
        assert_eq!(
            values("JobFile", "delivery"),
            ["at-most-once", "at-least-once", "exactly-once"]
        );
        assert_eq!(values("EventTimeSection", "format").len(), 5);
        assert!(values("Edge", "from").is_empty());
    }
}
