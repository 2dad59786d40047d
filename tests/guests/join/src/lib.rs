//! Two keyed inputs, counted side by side.
//!
//! For each key and second of event time it says how many records came from the left and how many from
//! the right, when the second is over; for records without a time, when the input ends. So the result
//! does not depend on how the inputs interleave, only on what they hold. A line is
//! `KEY SECOND LEFT RIGHT`, where a second of `-` stands for no time.

use weir_sdk::{
    Codec, Context, Fault, Firing, Input, KeptOutput, Operator, Record, Result, Setup, Timer, Value,
};

const WINDOW_MILLIS: i64 = 1_000;

/// Records from either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// From the input `left`.
    pub left: u64,
    /// From the input `right`.
    pub right: u64,
}

impl Codec for Sides {
    const ENCODING: &'static str = "left-and-right-u64-le";

    fn encode(&self, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(&self.left.to_le_bytes());
        out.extend_from_slice(&self.right.to_le_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Sides> {
        match bytes.split_at_checked(8) {
            Some((left, right)) => Ok(Sides {
                left: Codec::decode(left)?,
                right: Codec::decode(right)?,
            }),
            None => Err(Fault::new("two sides are two numbers")),
        }
    }
}

/// The operator.
#[derive(Debug)]
pub struct Join {
    left: Input,
    sides: Value<Sides>,
    over: Timer,
    pairs: KeptOutput,
}

impl Operator for Join {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Join> {
        let left = setup.keyed_input("left");
        setup.keyed_input("right");
        Ok(Join {
            left,
            sides: setup.value("sides"),
            over: setup.event_timer("over"),
            pairs: setup.kept_output("pairs"),
        })
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let (window, end) = match record.time() {
            Some(time) => {
                let second = time.div_euclid(WINDOW_MILLIS);
                (
                    second.to_string(),
                    second
                        .saturating_mul(WINDOW_MILLIS)
                        .saturating_add(WINDOW_MILLIS - 1),
                )
            }
            None => (String::new(), Timer::END_OF_INPUT),
        };
        let state = self.sides.at(&window);
        let mut sides = match state.get(cx)? {
            Some(sides) => sides,
            None => {
                self.over.set_at(cx, &window, end)?;
                Sides::default()
            }
        };
        if record.input() == self.left {
            sides.left += 1;
        } else {
            sides.right += 1;
        }
        state.set(cx, &sides)
    }

    fn on_timer(&mut self, over: Firing<'_>, cx: &mut Context) -> Result {
        let window = over.namespace_text()?;
        let Some(Sides { left, right }) = self.sides.at(window).get(cx)? else {
            return Err(Fault::new("a window without records is over"));
        };
        self.sides.at(window).clear(cx)?;
        let second = if window.is_empty() { "-" } else { window };
        self.pairs
            .emit(cx)
            .value(format!("{} {second} {left} {right}", over.key_text()?))
    }
}

weir_sdk::export!(Join);

#[cfg(test)]
mod tests {
    use super::Join;
    use weir_sdk::test::{Scenario, record};

    #[test]
    fn both_sides_of_a_key_and_second_are_counted_once() -> weir_sdk::Result {
        let left = |key: &str| record("l").input("left").key(key);
        let right = |key: &str| record("r").input("right").key(key);
        let harness = Scenario::new("null")
            .records([
                left("a").time(5),
                right("a").time(900),
                left("b").time(1_000),
                left("a").time(6),
            ])
            .watermark(998)
            .records([right("a").time(999), right("b"), left("a").time(-1)])
            .watermark(999)
            .records([right("b").time(1_001), right("b")])
            .finish()
            .check::<Join>()?;
        let mut lines = harness.texts("pairs");
        lines.sort();
        assert_eq!(lines, ["a -1 1 0", "a 0 2 2", "b - 0 2", "b 1 1 1"]);
        Ok(())
    }
}
