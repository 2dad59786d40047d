use serde_json::{Value, json};

use super::*;

#[track_caller]
fn schema(schema: Value) -> ConfigSchema {
    ConfigSchema::parse(&schema.to_string()).unwrap_or_else(|what| panic!("{what}"))
}

/// Pointer and words of all that `config` breaks.
#[track_caller]
fn found(of: Value, config: &Value) -> Vec<(String, String)> {
    let found = schema(of).check(config).expect("it ends");
    let words = |mismatch: Mismatch| match mismatch {
        Mismatch::Unknown { known } => format!("unknown; {}", known.join(", ")),
        Mismatch::Missing { field, is } => format!("missing {field}: {}", is.unwrap_or_default()),
        Mismatch::Value { must } => must,
    };
    let found = found.into_iter();
    found.map(|it| (it.pointer, words(it.mismatch))).collect()
}

#[track_caller]
fn fits(of: &Value, config: Value) {
    assert_eq!(found(of.clone(), &config), [], "{config} should fit {of}");
}

#[track_caller]
fn breaks(of: &Value, config: Value, pointer: &str, words: &str) {
    let expected = [(pointer.to_owned(), words.to_owned())];
    assert_eq!(
        found(of.clone(), &config),
        expected,
        "{config} against {of}"
    );
}

#[test]
fn types_and_bounds() {
    let integer = json!({"type": "integer", "minimum": -14, "maximum": 14});
    for config in [json!(-14), json!(14), json!(3.0)] {
        fits(&integer, config);
    }
    for config in [
        json!(15),
        json!(-15),
        json!(3.5),
        json!("3"),
        json!(true),
        json!(14.5),
    ] {
        breaks(&integer, config, "", "an integer from -14 to 14");
    }
    let number = json!({"type": "number", "exclusiveMinimum": 0});
    fits(&number, json!(0.001));
    breaks(&number, json!(0), "", "a number of more than 0");
    breaks(&number, json!(-0.0), "", "a number of more than 0");
    let large = json!({"type": "integer", "maximum": 18_446_744_073_709_551_615_u64});
    fits(&large, json!(u64::MAX));
    breaks(
        &json!({"type": "integer", "maximum": 9_007_199_254_740_992_u64}),
        json!(9_007_199_254_740_993_u64),
        "",
        "an integer of at most 9007199254740992",
    );
    let text = json!({"type": "string", "minLength": 1, "maxLength": 3});
    fits(&text, json!("äöü"));
    breaks(&text, json!(""), "", "text of 1 to 3 characters");
    breaks(
        &json!({"type": ["integer", "null"]}),
        json!("x"),
        "",
        "an integer or null",
    );
    fits(&json!({"type": ["integer", "null"]}), json!(null));
    breaks(
        &json!({"enum": ["a", "b", 3]}),
        json!("c"),
        "",
        "\"a\", \"b\" or 3",
    );
    fits(&json!({"enum": ["a", 3]}), json!(3.0));
    breaks(
        &json!({"const": {"a": 1}}),
        json!({"a": 2}),
        "",
        "a mapping",
    );
    fits(&json!({"const": {"a": [1, 2.0]}}), json!({"a": [1.0, 2]}));
}

#[test]
fn lists_and_mappings() {
    let list =
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": true});
    fits(&list, json!(["a", "b"]));
    breaks(&list, json!(["a", 2, "b"]), "/1", "text");
    let words = "a list of at least 1 items without repetitions, each item text";
    breaks(&list, json!([]), "", words);
    breaks(&list, json!(["a", "a"]), "", words);
    let pair = json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false});
    fits(&pair, json!(["a", 1]));
    breaks(&pair, json!(["a", 1, 2]), "/2", "left out");
    breaks(&pair, json!(["a", "b"]), "/1", "an integer");

    let mapping = json!({
        "type": "object",
        "properties": {"low": {"type": "integer"}, "a/b~": {"type": "boolean"}},
        "required": ["low"],
        "additionalProperties": false
    });
    fits(&mapping, json!({"low": 1, "a/b~": true}));
    breaks(
        &mapping,
        json!({"low": 1, "a/b~": 1}),
        "/a~1b~0",
        "true or false",
    );
    let both = found(mapping.clone(), &json!({"lo": 1}));
    let expected = [
        (String::new(), "missing low: an integer".to_owned()),
        ("/lo".to_owned(), "unknown; a/b~, low".to_owned()),
    ];
    assert_eq!(both, expected);
    let typed =
        json!({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2});
    breaks(&typed, json!({"x": "y"}), "/x", "an integer");
    breaks(
        &typed,
        json!({"x": 1, "y": 1, "z": 1}),
        "",
        "a mapping of at most 2 fields",
    );
}

#[test]
fn a_configuration_that_is_left_out_is_an_empty_mapping_where_one_is_wanted() {
    let optional = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    fits(&optional, Value::Null);
    let required = json!({"type": "object", "required": ["a"]});
    breaks(&required, Value::Null, "", "missing a: ");
    fits(&json!({"type": "null"}), Value::Null);
}

/// As `schemars` writes an enumeration with data.
fn tagged() -> Value {
    json!({
        "oneOf": [
            {"type": "object", "properties": {"by": {"type": "string", "const": "size"}, "bytes": {"type": "integer"}}, "required": ["by", "bytes"]},
            {"type": "object", "properties": {"by": {"type": "string", "const": "age"}, "days": {"type": "integer"}}, "required": ["by", "days"]}
        ]
    })
}

#[test]
fn of_alternatives_the_one_that_is_meant_is_judged() {
    fits(&tagged(), json!({"by": "age", "days": 3}));
    breaks(
        &tagged(),
        json!({"by": "age", "days": "3"}),
        "/days",
        "an integer",
    );
    breaks(
        &tagged(),
        json!({"by": "size"}),
        "",
        "missing bytes: an integer",
    );
    breaks(
        &tagged(),
        json!({"by": "colour"}),
        "/by",
        "\"size\" or \"age\"",
    );
    breaks(&tagged(), json!(3), "", "a mapping");
    let optional = json!({"anyOf": [{"$ref": "#/$defs/Range"}, {"type": "null"}], "$defs": {
        "Range": {"type": "object", "properties": {"to": {"type": "integer"}}, "additionalProperties": false}
    }});
    fits(&optional, json!(null));
    breaks(&optional, json!({"to": "x"}), "/to", "an integer");
    breaks(&optional, json!({"til": 1}), "/til", "unknown; to");
    breaks(&optional, json!("x"), "", "a mapping or null");
    let units = json!({"oneOf": [{"type": "string", "const": "a"}, {"type": "string", "enum": ["b", "c"]}]});
    fits(&units, json!("c"));
    breaks(&units, json!("d"), "", "\"a\" or \"b\" or \"c\"");
    let overlapping = json!({"oneOf": [{"type": "integer"}, {"type": "number"}]});
    fits(&overlapping, json!(1.5));
    breaks(
        &overlapping,
        json!(1),
        "",
        "only one of an integer or a number",
    );
    let both = json!({"allOf": [{"type": "integer"}, {"not": {"const": 0}}]});
    fits(&both, json!(1));
    breaks(&both, json!(0), "", "anything but 0");
}

#[test]
fn what_is_beyond_the_subset_is_refused_by_name() {
    for (text, said) in [
        ("{", "is not JSON"),
        ("3", "has 3 where a schema belongs"),
        (
            r#"{"type": "decimal"}"#,
            "`type` of the wrong form, \"decimal\"",
        ),
        (r#"{"type": []}"#, "`type` of the wrong form"),
        (
            r#"{"pattern": "^a"}"#,
            "uses `pattern`, which this host does not check",
        ),
        (
            r#"{"properties": {"a": {"multipleOf": 2}}}"#,
            "uses `multipleOf`",
        ),
        (
            r#"{"items": [{"type": "null"}]}"#,
            "has a list of 1 where a schema belongs",
        ),
        (r#"{"anyOf": []}"#, "`anyOf` of the wrong form"),
        (r#"{"minLength": -1}"#, "`minLength` of the wrong form, -1"),
        (r#"{"required": [1]}"#, "`required` of the wrong form"),
        (
            r#"{"$ref": "http://example.org/s"}"#,
            "refers to \"http://example.org/s\"",
        ),
        (
            r##"{"$ref": "#/$defs/none"}"##,
            "refers to \"#/$defs/none\"",
        ),
        (
            r##"{"$ref": "#/properties/a", "properties": {"a": true}}"##,
            "only `#` and its own `$defs`",
        ),
        (
            r#"{"$defs": {"unused": {"contains": true}}}"#,
            "uses `contains`",
        ),
    ] {
        let what = ConfigSchema::parse(text).expect_err(text);
        assert!(what.contains(said), "{text}: {what}");
    }
    let deep = format!("{}true{}", "{\"not\":".repeat(100), "}".repeat(100));
    let what = ConfigSchema::parse(&deep).expect_err("too deep");
    assert!(what.contains("nested more than"), "{what}");
}

#[test]
fn a_schema_without_end_ends() {
    let itself = schema(json!({"$ref": "#"}));
    let what = itself.check(&json!(1)).expect_err("it never ends");
    assert_eq!(what, "refers to itself without end");
    // Each of 40 levels doubles the work.
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        definitions.insert(level.to_string(), json!({"allOf": [next, next]}));
    }
    definitions.insert("40".to_owned(), json!(true));
    let wide = schema(json!({"$ref": "#/$defs/0", "$defs": definitions}));
    assert!(wide.check(&json!(1)).is_err());
    // A tree is fine: it goes deeper into the value each time.
    let tree = json!({"type": "object", "properties": {"left": {"$ref": "#"}}, "additionalProperties": false});
    fits(&tree, json!({"left": {"left": {}}}));
    breaks(
        &tree,
        json!({"left": {"right": {}}}),
        "/left/right",
        "unknown; left",
    );
}

#[test]
fn what_schemars_makes_is_within_the_subset() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Mode {
        /// Documented, which makes it a constant with a description.
        Fast,
        Slow,
        Custom {
            factor: f64,
        },
    }
    #[derive(schemars::JsonSchema)]
    #[schemars(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Config {
        /// How many.
        ///
        /// More or less.
        count: u32,
        #[schemars(range(min = 0, max = 10), default)]
        level: Option<i8>,
        names: std::collections::BTreeSet<String>,
        pair: (String, bool),
        weights: std::collections::BTreeMap<String, f32>,
        mode: Option<Mode>,
    }
    let made = schemars::schema_for!(Config);
    let parsed = ConfigSchema::parse(&made.as_value().to_string()).expect("within the subset");
    let config = json!({"count": 1, "names": ["a"], "pair": ["x", true], "weights": {"a": 1}, "mode": {"Custom": {"factor": 2}}});
    assert_eq!(parsed.check(&config), Ok(Vec::new()));
    let wrong =
        json!({"count": -1, "level": 11, "names": [], "pair": ["x"], "weights": {}, "mode": "Fas"});
    let found = parsed.check(&wrong).expect("it ends");
    let pointers: Vec<_> = found.iter().map(|it| it.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        ["/count", "/level", "/mode", "/pair"],
        "{found:?}"
    );
    let fields = parsed.fields();
    let count = fields
        .iter()
        .find(|field| field.name == "count")
        .expect("a field");
    assert!(count.required);
    assert_eq!(count.is, "an integer of at least 0");
    assert_eq!(
        count.description.as_deref(),
        Some("How many. More or less.")
    );
}
