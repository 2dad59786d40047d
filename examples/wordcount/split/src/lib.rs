//! Splits lines into words: one record in, a record a word out, with the word as its key.

use weir_sdk::{Context, GivenOutput, Operator, Record, Result, Setup};

/// The operator.
#[derive(Debug)]
pub struct Split {
    words: GivenOutput,
}

impl Operator for Split {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Split> {
        setup.unkeyed_input("lines");
        Ok(Split {
            words: setup.given_output("words"),
        })
    }

    fn process(&mut self, line: Record<'_>, cx: &mut Context) -> Result {
        let separators = |c: char| !c.is_alphanumeric() && c != '\'';
        for word in line
            .text()?
            .split(separators)
            .filter(|word| !word.is_empty())
        {
            let word = word.to_lowercase();
            self.words.emit(cx, &word).value(&word)?;
        }
        Ok(())
    }
}

weir_sdk::export!(Split);

#[cfg(test)]
mod tests {
    use super::Split;
    use weir_sdk::test::{Scenario, record};

    #[test]
    fn words_are_keyed_by_themselves() -> weir_sdk::Result {
        let lines = [
            record("To be, or not"),
            record(""),
            record("to BE – that's"),
        ];
        let harness = Scenario::new("null").records(lines).check::<Split>()?;
        assert_eq!(
            harness.texts("words"),
            ["to", "be", "or", "not", "to", "be", "that's"]
        );
        assert!(
            harness
                .emitted("words")
                .iter()
                .all(|word| word.key == word.value)
        );
        Ok(())
    }
}
