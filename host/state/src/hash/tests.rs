use super::*;

/// Frozen: a change moves keys to other groups and makes every snapshot unreadable. The hashes are
/// those of the reference implementation (xxHash 0.8), the groups were computed apart from this
/// code.
#[test]
fn hashes_and_groups_are_frozen() {
    let vectors: [(&[u8], u64, u16, u16); 6] = [
        (b"", 0x2d06_8005_38d3_94c2, 65, 33599),
        (b"a", 0xe6c6_32b6_1e96_4e1f, 49, 25368),
        (b"\0", 0xc44b_dff4_074e_ecdb, 18, 9711),
        (b"order-4711", 0xeb5e_a296_3eb0_cc60, 87, 44880),
        ("Überlingen".as_bytes(), 0x2861_1887_721d_29bc, 24, 12428),
        (&[0xAB; 300], 0xc3bb_a68e_636e_3292, 110, 56786),
    ];
    for (key, hash, of_128, of_max) in vectors {
        assert_eq!(key_hash(key), hash, "{key:?}");
        let groups = (key_group(hash, 128), key_group(hash, u16::MAX));
        assert_eq!(groups, (of_128, of_max), "{key:?}");
    }
}

#[test]
fn bits_25_to_56_make_the_group() {
    assert_eq!(key_group(0, 128), 0);
    assert_eq!(key_group(u64::MAX, 128), 127);
    assert_eq!(
        key_group((1 << 25) - 1, u16::MAX),
        0,
        "the low 25 bits do not count"
    );
    assert_eq!(key_group(u64::MAX << 57, u16::MAX), 0, "nor do the high 7");
    assert_eq!(key_group(1 << 56, 128), 64);
    assert_eq!(key_group(u64::MAX, 1), 0);
}

#[test]
fn ranges_partition_the_groups_and_agree_with_owner() {
    for max in [1, 2, 3, 7, 128, 1000, u16::MAX] {
        for parallelism in [1, 2, 3, 5, 7, 100, 128, max]
            .into_iter()
            .filter(|parallelism| *parallelism <= max)
        {
            let mut next = 0;
            for subtask in 0..parallelism {
                let range = group_range(subtask, parallelism, max);
                assert_eq!(range.start, next, "{subtask} of {parallelism}, {max}");
                assert!(!range.is_empty(), "{subtask} of {parallelism}, {max}");
                for group in [range.start, range.end - 1] {
                    assert_eq!(owner(group, parallelism, max), subtask);
                    assert!(range.contains(group));
                }
                assert!(!range.contains(range.end));
                next = range.end;
            }
            assert_eq!(next, max);
        }
    }
}

#[test]
#[should_panic(expected = "subtask 2 of 2")]
fn a_subtask_beyond_the_parallelism_has_no_range() {
    group_range(2, 2, 128);
}
