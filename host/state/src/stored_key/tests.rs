use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

type Parts = (u16, u8, u16, Vec<u8>, Option<Vec<u8>>, Vec<u8>);

/// Bytes in which the escape and the end mark are frequent.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![
            Just(0u8),
            Just(1),
            Just(2),
            Just(0xFE),
            Just(0xFF),
            any::<u8>()
        ],
        0..6,
    )
}

fn parts() -> impl Strategy<Value = Parts> {
    (
        0..3u16,
        1..=4u8,
        0..3u16,
        bytes(),
        prop::option::of(bytes()),
        bytes(),
    )
}

fn stored((group, tag, index, key, namespace, suffix): &Parts) -> StoredKey<'_> {
    StoredKey {
        group: *group,
        table: Table::from_tag(*tag).expect("a tag"),
        index: *index,
        key: Cow::Borrowed(key),
        namespace: namespace.as_deref().map(Cow::Borrowed),
        suffix,
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_order_of_the_bytes_is_the_order_of_the_parts(a in parts(), b in parts()) {
        prop_assert_eq!(stored(&a).encode().cmp(&stored(&b).encode()), a.cmp(&b));
    }

    #[test]
    fn decoding_gives_the_parts_back(a in parts()) {
        let encoded = stored(&a).encode();
        prop_assert_eq!(StoredKey::decode(&encoded), Some(stored(&a)));
        prop_assert_eq!(group_of(&encoded), a.0);
    }

    #[test]
    fn whatever_decodes_is_what_encoding_makes(parts in prop::collection::vec(bytes(), 0..4)) {
        let noise = parts.concat();
        if let Some(key) = StoredKey::decode(&noise) {
            prop_assert_eq!(key.encode(), noise);
        }
    }

    #[test]
    fn a_cell_s_range_holds_its_rows_and_no_others(a in parts(), b in parts()) {
        let mut cell = Vec::new();
        write_cell(&mut cell, a.0, stored(&a).table, a.2, &a.3, a.4.as_deref());
        let end = cell_end(&cell);
        let row = stored(&b).encode();
        let same = (a.0, a.1, a.2, &a.3, &a.4) == (b.0, b.1, b.2, &b.3, &b.4);
        prop_assert_eq!(cell <= row && row < end, same);
    }

    #[test]
    fn times_sort_as_numbers(a in any::<i64>(), b in any::<i64>()) {
        prop_assert_eq!(time_suffix(a).cmp(&time_suffix(b)), a.cmp(&b));
        prop_assert_eq!(suffix_time(&time_suffix(a)), Some(a));
    }
}

#[test]
fn the_bytes_are_frozen() {
    let key = StoredKey {
        group: 0x0102,
        table: Table::Entries,
        index: 0x0304,
        key: Cow::Borrowed(b"k\0"),
        namespace: Some(Cow::Borrowed(b"")),
        suffix: b"\0n",
    };
    assert_eq!(
        key.encode(),
        b"\x01\x02\x03\x03\x04k\0\xFF\0\x01\x01\0\x01\0n"
    );
    let mut cell = Vec::new();
    write_cell(&mut cell, 1, Table::Value, 0, b"", None);
    assert_eq!(cell, b"\0\x01\x01\0\0\0\x01\0");
    assert_eq!(
        time_suffix(-1),
        [0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]
    );
    assert_eq!(suffix_time(b"short"), None);
}

#[test]
fn broken_bytes_are_not_a_key() {
    let whole = b"\0\x01\x01\0\0k\0\x01\0";
    assert!(StoredKey::decode(whole).is_some());
    for cut in 0..whole.len() {
        assert_eq!(StoredKey::decode(&whole[..cut]), None, "cut at {cut}");
    }
    assert_eq!(
        StoredKey::decode(b"\0\x01\x09\0\0k\0\x01\0"),
        None,
        "no such table"
    );
    assert_eq!(
        StoredKey::decode(b"\0\x01\x01\0\0k\0\x02\0"),
        None,
        "neither an escape nor an end"
    );
    assert_eq!(
        StoredKey::decode(b"\0\x01\x01\0\0k\0\x01\x02"),
        None,
        "no such namespace mark"
    );
}
