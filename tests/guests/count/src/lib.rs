//! Numbers the records of each key: one value state read and written, one row emitted, a record.
//!
//! The benchmark measures the host with it, so it does as little as a stateful operator can: it does
//! not look at the record's value, and emits the running count as eight little-endian bytes.

use weir_sdk::{Context, KeptOutput, Operator, Record, Result, Setup, Value};

/// The operator.
#[derive(Debug)]
pub struct Count {
    count: Value<u64>,
    counts: KeptOutput,
}

impl Operator for Count {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Count> {
        setup.keyed_input("records");
        Ok(Count {
            count: setup.value("count"),
            counts: setup.kept_output("counts"),
        })
    }

    #[inline]
    fn process(&mut self, _record: Record<'_>, cx: &mut Context) -> Result {
        let count = self.count.get(cx)?.unwrap_or(0) + 1;
        self.count.set(cx, &count)?;
        self.counts.emit(cx).encode(&count)
    }
}

weir_sdk::export!(Count);

#[cfg(test)]
mod tests {
    use super::Count;
    use weir_sdk::test::{Scenario, record};

    #[test]
    fn records_are_numbered_by_key() -> weir_sdk::Result {
        let keys = ["a", "b", "a", "a", "b"];
        let harness = Scenario::new("null")
            .records(keys.map(|key| record("x").key(key).time(7)))
            .check::<Count>()?;
        let counts: Vec<_> = harness
            .emitted("counts")
            .into_iter()
            .map(|row| (row.key, row.value, row.time))
            .collect();
        let row = |key: &str, count: u64| {
            (
                Some(key.as_bytes().to_vec()),
                Some(count.to_le_bytes().to_vec()),
                Some(7),
            )
        };
        assert_eq!(
            counts,
            [
                row("a", 1),
                row("b", 1),
                row("a", 2),
                row("a", 3),
                row("b", 2)
            ]
        );
        assert_eq!(harness.value::<u64>("count", "a"), Some(3));
        Ok(())
    }
}
