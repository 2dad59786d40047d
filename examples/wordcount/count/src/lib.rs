//! Counts the records of each key, and says the count when the input has ended.

use weir_sdk::{Context, Firing, KeptOutput, Operator, Record, Result, Setup, Timer, Value};

/// The operator.
#[derive(Debug)]
pub struct Count {
    count: Value<u64>,
    end: Timer,
    counts: KeptOutput,
}

impl Operator for Count {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Count> {
        setup.keyed_input("words");
        Ok(Count {
            count: setup.value("count"),
            end: setup.event_timer("end"),
            counts: setup.kept_output("counts"),
        })
    }

    fn process(&mut self, _word: Record<'_>, cx: &mut Context) -> Result {
        let count = self.count.get(cx)?.unwrap_or(0);
        if count == 0 {
            self.end.set(cx, Timer::END_OF_INPUT)?;
        }
        self.count.set(cx, &(count + 1))
    }

    fn on_timer(&mut self, end: Firing<'_>, cx: &mut Context) -> Result {
        let word = end.key_text()?;
        let count = self.count.get(cx)?.unwrap_or(0);
        self.counts.emit(cx).value(format!("{word}\t{count}"))
    }
}

weir_sdk::export!(Count);

#[cfg(test)]
mod tests {
    use super::Count;
    use weir_sdk::test::{Scenario, record};

    #[test]
    fn each_word_is_counted_once_at_the_end() -> weir_sdk::Result {
        let words = |words: &str| {
            words
                .split(' ')
                .map(|word| record(word).key(word))
                .collect::<Vec<_>>()
        };
        let scenario = Scenario::new("null")
            .records(words("to be or"))
            .watermark(1_000)
            .records(words("not to be"));
        assert!(scenario.check::<Count>()?.emitted("counts").is_empty());
        let mut counts = scenario.finish().check::<Count>()?.texts("counts");
        counts.sort();
        assert_eq!(counts, ["be\t2", "not\t1", "or\t1", "to\t2"]);
        Ok(())
    }
}
