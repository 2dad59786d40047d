//! Passes records on with the headers that they have, with none, or with others, as its configuration says.
//!
//! What tests of headers run.

use serde::Deserialize;
use weir_sdk::{Context, KeptOutput, Operator, Record, Result, Setup};

/// What rows have for headers.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Config {
    /// Those of their record.
    #[default]
    Keep,
    /// None.
    Drop,
    /// Those of their record, the last first, and behind them `seen` with null.
    Change,
}

/// The operator.
#[derive(Debug)]
pub struct Headers {
    config: Config,
    records: KeptOutput,
}

impl Operator for Headers {
    type Config = Config;

    fn new(setup: &mut Setup, config: Config) -> Result<Headers> {
        let input = setup.unkeyed_input("records");
        if matches!(config, Config::Change) {
            setup.read_headers(input);
        }
        Ok(Headers {
            config,
            records: setup.kept_output("records"),
        })
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let row = self.records.emit(cx);
        match self.config {
            Config::Keep => row,
            Config::Drop => row.no_headers(),
            Config::Change => {
                let mut headers: Vec<_> = record.headers().collect();
                headers.reverse();
                headers.push((b"seen", None));
                row.headers(headers)
            }
        }
        .forward()
    }
}

weir_sdk::export!(Headers);

#[cfg(test)]
mod tests {
    use super::Headers;
    use weir_sdk::test::{Scenario, record};

    #[test]
    fn headers_are_kept_taken_away_or_changed() -> weir_sdk::Result {
        let headers = |config: &str| {
            let record = record("x").header("a", "1").null_header("b");
            let played = Scenario::new(config).records([record]).check::<Headers>()?;
            Ok::<_, weir_sdk::Fault>(played.emitted("records").swap_remove(0).headers)
        };
        let header = |name: &str, contents: Option<&str>| {
            (name.as_bytes().to_vec(), contents.map(|text| text.into()))
        };
        let (a, b) = (header("a", Some("1")), header("b", None));
        assert_eq!(headers(r#""keep""#)?, [a.clone(), b.clone()]);
        assert_eq!(headers(r#""drop""#)?, []);
        assert_eq!(headers(r#""change""#)?, [b, a, header("seen", None)]);
        Ok(())
    }
}
