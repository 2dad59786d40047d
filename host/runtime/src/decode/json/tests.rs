use super::*;
use proptest::prelude::*;

fn find(text: &str, pointers: &[&str]) -> Result<Vec<Option<String>>, Fault> {
    let pointers: Vec<Pointer> = pointers
        .iter()
        .map(|p| Pointer::parse(p).unwrap())
        .collect();
    let mut found = Vec::new();
    walk(text, &pointers, &mut found)?;
    Ok(found
        .into_iter()
        .map(|range| range.map(|range| text[range].to_owned()))
        .collect())
}

#[test]
fn pointers_find_their_values() {
    let text = r#" {"a": {"b": [1, {"c": "x"}, []]}, "": 2, "~/": 3, "0": 4, "d\u0065": null} "#;
    for (pointer, value) in [
        ("/a/b/0", Some("1")),
        ("/a/b/1/c", Some("\"x\"")),
        ("/a/b/2", Some("[]")),
        ("/a/b/3", None),
        ("/a/b/00", None),
        ("/a/b/-", None),
        ("/a/b", Some(r#"[1, {"c": "x"}, []]"#)),
        ("/", Some("2")),
        ("/~0~1", Some("3")),
        ("/0", Some("4")),
        ("/de", Some("null")),
        ("/a/x", None),
        ("", Some(text.trim())),
    ] {
        assert_eq!(
            find(text, &[pointer]).unwrap()[0].as_deref(),
            value,
            "{pointer}"
        );
    }
}

#[test]
fn of_equal_names_the_last_counts_also_on_the_way() {
    assert_eq!(
        find(r#"{"a":1,"a":2}"#, &["/a"]).unwrap()[0].as_deref(),
        Some("2")
    );
    assert_eq!(
        find(r#"{"a":{"b":1},"a":{}}"#, &["/a/b", "/a"]).unwrap(),
        [None, Some("{}".into())]
    );
    assert_eq!(
        find(r#"{"a":{"b":1},"\u0061":3}"#, &["/a/b"]).unwrap(),
        [None]
    );
}

#[test]
fn sixty_four_pointers_fit() {
    let pointers: Vec<String> = (0..MAX_POINTERS).map(|i| format!("/{i}")).collect();
    let pointers: Vec<&str> = pointers.iter().map(String::as_str).collect();
    let text = format!(
        "[{}]",
        (0..64).map(|i| i.to_string()).collect::<Vec<_>>().join(",")
    );
    let found = find(&text, &pointers).unwrap();
    assert!(
        found
            .iter()
            .enumerate()
            .all(|(i, value)| value.as_deref() == Some(&i.to_string()[..]))
    );
}

#[test]
fn bad_pointers_are_refused() {
    for bad in ["a", "/~", "/~2", "a/b"] {
        assert!(Pointer::parse(bad).unwrap_err().contains(bad));
    }
}

#[test]
fn faults_say_where() {
    for (text, at) in [
        ("", 0),
        ("  ", 2),
        ("{", 1),
        ("{\"a\":1,}", 7),
        ("[1,]", 3),
        ("[1 2]", 3),
        ("01", 1),
        ("-", 1),
        ("1.", 2),
        ("1e+", 3),
        ("\"\\x\"", 2),
        ("\"\\u12g4\"", 5),
        ("\"a\nb\"", 2),
        ("\"abc", 4),
        ("nul", 0),
        ("{} {}", 3),
        ("{a:1}", 1),
        ("{\"a\" 1}", 5),
        ("\u{feff}1", 0),
    ] {
        assert_eq!(find(text, &[]).unwrap_err().at, at, "{text:?}");
    }
}

#[test]
fn depth_is_bounded_like_serde_json() {
    for (depth, fits) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false), (100_000, false)] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(find(&text, &[]).is_ok(), fits);
            if depth < 1_000 {
                assert_eq!(
                    serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                    fits
                );
            }
        }
    }
}

#[test]
fn escapes_are_resolved() {
    let mut out = Vec::new();
    unescape(br#"a\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00z"#, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "a\"\\/\u{8}\u{c}\n\r\tä😀z"
    );
    for lone in [
        &br"\ud800"[..],
        br"\udc00",
        br"\ud800\n",
        br"\ud800\u0041",
        br"\ud800\ud800",
    ] {
        assert_eq!(unescape(lone, &mut Vec::new()), Err(LoneSurrogate));
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec(("[ab0~/\"é]{0,2}", inner), 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn finds_what_a_tree_would(value in json(), pretty in any::<bool>(), pointer in "(/[ab01]{0,1}|/~0|/~1){0,3}") {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let found = find(&text, &[&pointer]).unwrap().remove(0);
        let found = found.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
        // Through the text, because that is not exact for every float.
        let tree: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(found.as_ref(), tree.pointer(&pointer));
    }

    #[test]
    fn accepts_what_serde_json_accepts(value in json(), cut in any::<prop::sample::Index>(), byte in prop::sample::select(b"{}[]\",:0e.-+ \\utfn1".to_vec()), insert in any::<bool>()) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let at = cut.index(text.len());
        if insert { text.insert(at, byte) } else { text[at] = byte }
        let oracle = std::str::from_utf8(&text).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(validate(&text).is_ok(), oracle, "{}", String::from_utf8_lossy(&text));
    }
}
