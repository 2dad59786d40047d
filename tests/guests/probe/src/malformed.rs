//! Actions that break the contract, one each, and a few that look as if they did.

use crate::bindings::weir::operator::diagnostics::reject;
use crate::bindings::weir::operator::output::Rows;
use crate::bindings::weir::operator::state::{self, Cells};
use crate::bindings::weir::operator::types::{Column, Dictionary, Fault, Headers, Nullable};
use crate::bindings::weir::operator::{shared_state, timers};
use crate::{Call, column, emit, fault, keys, nullable};

/// Beyond a limit of 1 KiB, which the tests set for values.
const LONG: usize = 2 << 10;

pub(crate) fn act(action: &str, call: &Call) {
    let (what, how) = action.split_once(' ').unwrap_or((action, ""));
    match what {
        "column" => state::append(1, &first_key(), &bad_column(how)),
        "nullable" => state::put(0, &first_key(), &bad_nullable(how)),
        "cells" => {
            state::get(0, &bad_cells(how, call));
        }
        "state" => bad_state(how),
        "timers" => bad_timers(how),
        "emit" => emit_to(how, call),
        "emit-headers" => emit_with_headers(how),
        "reject" => bad_reject(how, call),
        "shared-state" => bad_shared_state(how),
        other => panic!("there is no action `{other}`"),
    }
}

fn first_key() -> Cells {
    Cells {
        keys: vec![0],
        namespaces: None,
    }
}

/// A column for one cell.
fn bad_column(how: &str) -> Column {
    let (offsets, data) = bad_offsets(how);
    Column { offsets, data }
}

/// A nullable column for one cell.
fn bad_nullable(how: &str) -> Nullable {
    let (offsets, data) = (vec![0, 1], vec![b'x']);
    match how {
        "present-length" => Nullable {
            present: vec![1, 1],
            offsets,
            data,
        },
        "present-byte" => Nullable {
            present: vec![7],
            offsets,
            data,
        },
        "null-with-bytes" => Nullable {
            present: vec![0],
            offsets,
            data,
        },
        _ => {
            let (offsets, data) = bad_offsets(how);
            Nullable {
                present: vec![],
                offsets,
                data,
            }
        }
    }
}

fn bad_offsets(how: &str) -> (Vec<u32>, Vec<u8>) {
    match how {
        "no-offsets" => (vec![], vec![]),
        "first-offset" => (vec![1, 1], vec![b'x']),
        "decreasing" => (vec![0, 2, 1, 2], vec![b'x'; 2]),
        "last-offset" => (vec![0, u32::MAX], vec![b'x']),
        "trailing-data" => (vec![0, 1], vec![b'x'; 2]),
        "count" => (vec![0, 1, 2], vec![b'x'; 2]),
        "long" => (vec![0, LONG as u32], vec![b'x'; LONG]),
        other => panic!("there is no defect `{other}`"),
    }
}

fn bad_cells(how: &str, call: &Call) -> Cells {
    let keys = vec![0];
    match how {
        "key" => Cells {
            keys: vec![0, call.keys],
            namespaces: None,
        },
        "namespaces-count" => Cells {
            keys,
            namespaces: Some(column(&["a", "b"])),
        },
        _ => Cells {
            keys,
            namespaces: Some(bad_column(how)),
        },
    }
}

fn bad_state(how: &str) {
    let at = first_key();
    match how {
        "undeclared" => {
            state::get(3, &at);
        }
        "get-of-items" => {
            state::get(1, &at);
        }
        "put-of-entries" => state::put(2, &at, &nullable(&[None])),
        "append-of-value" => state::append(0, &at, &column(&["x"])),
        "get-items-of-value" => {
            state::get_items(0, &at);
        }
        "get-entries-of-value" => {
            state::get_entries(0, &at, &column(&["x"]));
        }
        "put-entries-of-items" => state::put_entries(1, &at, &column(&["x"]), &nullable(&[None])),
        "scan-of-items" => {
            state::scan(1, &at, &nullable(&[None]), &nullable(&[None]), false, 1);
        }
        "clear-entries-of-value" => {
            state::clear_entries(0, &at, &nullable(&[None]), &nullable(&[None]))
        }
        "clear-undeclared" => state::clear(3, &at),
        "touch-undeclared" => state::touch(3, &at),
        "get-entries-count" => {
            state::get_entries(2, &at, &column(&[]));
        }
        "put-entries-names" => state::put_entries(2, &at, &column(&["x", "y"]), &nullable(&[None])),
        "put-entries-values" => {
            state::put_entries(2, &at, &column(&["x"]), &nullable(&[None, None]))
        }
        "scan-start" => {
            state::scan(2, &at, &nullable(&[]), &nullable(&[None]), false, 1);
        }
        "scan-end" => {
            state::scan(2, &at, &nullable(&[None]), &nullable(&[]), false, 1);
        }
        "scan-limit" => {
            state::scan(2, &at, &nullable(&[None]), &nullable(&[None]), false, 0);
        }
        "clear-entries-start" => state::clear_entries(2, &at, &nullable(&[]), &nullable(&[None])),
        "clear-entries-end" => state::clear_entries(2, &at, &nullable(&[None]), &nullable(&[])),
        "write-without-end" => loop {
            state::put(0, &at, &nullable(&[None]));
        },
        other => panic!("there is no defect `{other}`"),
    }
}

fn bad_timers(how: &str) {
    let at = first_key();
    match how {
        "undeclared" => timers::set(2, &at, &[1]),
        "cancel-undeclared" => timers::cancel(2, &at, &[1]),
        "count" => timers::set(0, &at, &[1, 2]),
        "cancel-count" => timers::cancel(0, &at, &[]),
        "no-time" => timers::set(0, &at, &[i64::MIN]),
        "key" => timers::set(
            0,
            &Cells {
                keys: vec![u32::MAX],
                namespaces: None,
            },
            &[1],
        ),
        "without-end" => {
            let mut time = 0;
            loop {
                timers::set(0, &at, &[time]);
                time += 1;
            }
        }
        "proper" => timers::set(1, &at, &[i64::MAX]),
        other => panic!("there is no defect `{other}`"),
    }
}

fn emit_to(how: &str, call: &Call) {
    let rows = |keys, values| Rows {
        origins: vec![0],
        keys,
        values,
        times: None,
        headers: None,
    };
    let value = || Some(nullable(&[Some("v")]));
    let own = || Some(keys(&[Some("k")]));
    let moment = |keys, values, times| Rows {
        origins: vec![],
        keys,
        values,
        times,
        headers: None,
    };
    match how {
        "undeclared" => emit(3, rows(None, value())),
        "origin" => emit(
            0,
            Rows {
                origins: vec![0, call.rows],
                ..rows(None, None)
            },
        ),
        "values-count" => emit(0, rows(None, Some(nullable(&[])))),
        "times-count" => emit(
            0,
            Rows {
                times: Some(vec![1, 2]),
                ..rows(None, None)
            },
        ),
        "keys-of-kept" => emit(0, rows(own(), value())),
        "keys-of-absent" => emit(2, rows(own(), value())),
        "inherit" => emit(1, rows(None, None)),
        "inherit-all-but-value" => emit(1, rows(None, value())),
        "key-index" => emit(
            1,
            rows(
                Some(Dictionary {
                    distinct: nullable(&[None]),
                    index: vec![1],
                }),
                value(),
            ),
        ),
        "key-index-count" => emit(
            1,
            rows(
                Some(Dictionary {
                    distinct: nullable(&[None]),
                    index: vec![0, 0],
                }),
                value(),
            ),
        ),
        "key-index-identity" => emit(
            1,
            rows(
                Some(Dictionary {
                    distinct: nullable(&[None]),
                    index: vec![],
                }),
                value(),
            ),
        ),
        "key-column" => {
            emit(
                1,
                rows(
                    Some(Dictionary {
                        distinct: bad_nullable("decreasing"),
                        index: vec![0],
                    }),
                    value(),
                ),
            );
        }
        "value-column" => emit(0, rows(None, Some(bad_nullable("null-with-bytes")))),
        "long" => emit(0, rows(None, Some(bad_nullable("long")))),
        "nothing" => emit(
            0,
            Rows {
                origins: vec![],
                ..rows(None, None)
            },
        ),
        "without-end" => loop {
            emit(
                2,
                Rows {
                    origins: vec![0; 10],
                    ..rows(None, None)
                },
            );
        },
        // Few bytes from the guest that stand for many.
        "inherited-flood" => emit(
            0,
            Rows {
                origins: vec![0; 2 << 10],
                ..rows(None, None)
            },
        ),
        "key-flood" => {
            let distinct = nullable(&[Some(&"k".repeat(512))]);
            let origins = vec![0; 1 << 10];
            let (index, values) = (vec![0; 1 << 10], Some(nullable(&vec![None; 1 << 10])));
            emit(
                1,
                Rows {
                    origins,
                    ..rows(Some(Dictionary { distinct, index }), values)
                },
            );
        }
        "huge" => emit(
            2,
            rows(
                None,
                Some(Nullable {
                    present: vec![1; 8 << 20],
                    offsets: vec![],
                    data: vec![],
                }),
            ),
        ),
        "moment" => emit(1, moment(own(), value(), Some(vec![7]))),
        "moment-absent" => emit(2, moment(None, value(), Some(vec![7]))),
        "moment-origins" => emit(
            1,
            Rows {
                origins: vec![0],
                ..moment(own(), value(), Some(vec![7]))
            },
        ),
        "moment-kept" => emit(0, moment(None, value(), Some(vec![7]))),
        "moment-keys" => emit(1, moment(None, value(), Some(vec![7]))),
        "moment-values" => emit(1, moment(own(), None, Some(vec![7]))),
        "moment-times" => emit(1, moment(own(), value(), None)),
        other => panic!("there is no defect `{other}`"),
    }
}

/// Rows that come from the first one, with headers.
fn emit_with_headers(how: &str) {
    let headers = |ends: &[u32], names, contents| Headers {
        ends: ends.to_vec(),
        names,
        contents,
    };
    let one = || column(&["a"]);
    let null = || nullable(&[None]);
    let given = match how {
        "proper" => headers(
            &[0, 3],
            column(&["a", "a", ""]),
            nullable(&[Some("1"), None, Some("")]),
        ),
        "none" => headers(&[0, 0], column(&[]), nullable(&[])),
        "ends-count" => headers(&[1], one(), null()),
        "ends-decreasing" => headers(&[2, 1], one(), null()),
        "ends-beyond" => headers(&[0, u32::MAX], one(), null()),
        "ends-short" => headers(&[0, 0], one(), null()),
        "names" => headers(&[0, 1], bad_column("decreasing"), null()),
        "names-long" => headers(&[0, 1], bad_column("long"), null()),
        "contents" => headers(&[0, 1], one(), bad_nullable("null-with-bytes")),
        "contents-count" => headers(&[0, 1], one(), nullable(&[])),
        "contents-long" => headers(&[0, 1], one(), bad_nullable("long")),
        // Empty ones, which count all the same.
        "flood" => headers(
            &[0, 8 << 10],
            column(&[""; 8 << 10]),
            nullable(&[None; 8 << 10]),
        ),
        other => panic!("there is no defect `{other}`"),
    };
    emit(
        0,
        Rows {
            origins: vec![0, 0],
            keys: None,
            values: Some(nullable(&[None, None])),
            times: None,
            headers: Some(given),
        },
    );
}

fn bad_reject(how: &str, call: &Call) {
    let row = |row| Fault {
        row: Some(row),
        message: "odd".to_owned(),
    };
    match how {
        "no-row" => reject(&[fault("odd")]),
        "row" => reject(&[row(0), row(call.rows)]),
        "twice" => reject(&[row(0), row(0)]),
        "twice-in-two-calls" => {
            reject(&[row(0)]);
            reject(&[row(0)]);
        }
        "nothing" => reject(&[]),
        other => panic!("there is no defect `{other}`"),
    }
}

fn bad_shared_state(how: &str) {
    match how {
        "get-entries" => {
            shared_state::get_entries(0, &column(&["x"]));
        }
        "put-entries" => shared_state::put_entries(0, &column(&["x"]), &nullable(&[None])),
        "scan" => {
            shared_state::scan(0, None, None, false, 1);
        }
        other => panic!("there is no defect `{other}`"),
    }
}
