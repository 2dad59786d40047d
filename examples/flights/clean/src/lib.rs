//! Parses the rows of the flight data and gives them the airport of departure as their key.
//!
//! Flights that left go to `departed`, as JSON of what the next operator needs; those that never did
//! go to `no_departure`, unchanged. Both keep the event time, which is that of the schedule.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_sdk::{Context, Fault, GivenOutput, Operator, Record, Result, Setup};

/// The columns of the data that are used, as the source hands them over: strings by header. See
/// `data/README.md`.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    day: Cow<'a, str>,
    #[serde(borrow)]
    carrier: Cow<'a, str>,
    #[serde(borrow)]
    flight: Cow<'a, str>,
    #[serde(borrow)]
    origin: Cow<'a, str>,
    #[serde(borrow)]
    dest: Cow<'a, str>,
    /// Minutes, or `NA` for a flight that never left.
    #[serde(borrow)]
    dep_delay: Cow<'a, str>,
}

/// A flight that left.
#[derive(Serialize)]
struct Departure<'a> {
    day: &'a str,
    carrier: &'a str,
    flight: &'a str,
    dest: &'a str,
    delay: i64,
}

/// The operator.
#[derive(Debug)]
pub struct Clean {
    departed: GivenOutput,
    no_departure: GivenOutput,
}

impl Operator for Clean {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Clean> {
        setup.unkeyed_input("rows");
        Ok(Clean {
            departed: setup.given_output("departed"),
            no_departure: setup.given_output("no_departure"),
        })
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let row: Row<'_> = record.json()?;
        let airport = row.origin.as_bytes();
        if row.dep_delay == "NA" {
            return self.no_departure.emit(cx, airport).forward();
        }
        let delay = row.dep_delay.parse().map_err(|_| {
            Fault::new(format_args!(
                "dep_delay is neither minutes nor NA: {:?}",
                row.dep_delay
            ))
        })?;
        let Row {
            day,
            carrier,
            flight,
            dest,
            ..
        } = &row;
        self.departed.emit(cx, airport).json(&Departure {
            day,
            carrier,
            flight,
            dest,
            delay,
        })
    }
}

weir_sdk::export!(Clean);

#[cfg(test)]
mod tests {
    use super::Clean;
    use weir_sdk::test::{NewRecord, Scenario, record};

    const SCHEDULED: i64 = 1_357_035_300_000;

    fn row(dep_delay: &str) -> NewRecord {
        record(format!(
            r#"{{"day":"2013-01-01","scheduled":"2013-01-01T10:15:00Z","carrier":"UA","flight":"1545","origin":"EWR","dest":"IAH","dep_delay":"{dep_delay}","distance":"1400"}}"#
        ))
        .time(SCHEDULED)
    }

    #[test]
    fn a_flight_goes_to_one_output_with_its_airport_and_time() -> weir_sdk::Result {
        let rows = [row("2"), row("NA"), row("-3")];
        let harness = Scenario::new("null").records(rows).check::<Clean>()?;
        assert_eq!(
            harness.texts("departed"),
            [
                r#"{"day":"2013-01-01","carrier":"UA","flight":"1545","dest":"IAH","delay":2}"#,
                r#"{"day":"2013-01-01","carrier":"UA","flight":"1545","dest":"IAH","delay":-3}"#,
            ]
        );
        let never = harness.emitted("no_departure");
        assert_eq!(never.len(), 1);
        for flight in harness.emitted("departed").iter().chain(&never) {
            assert_eq!(flight.key.as_deref(), Some(&b"EWR"[..]));
            assert_eq!(flight.time, Some(SCHEDULED));
        }
        Ok(())
    }

    #[test]
    fn a_row_that_makes_no_sense_is_given_up_alone() -> weir_sdk::Result {
        let rows = [row("2"), row("soon"), record("{}"), row("3")];
        let harness = Scenario::new("null").records(rows).check::<Clean>()?;
        assert_eq!(harness.emitted("departed").len(), 2);
        let faults: Vec<_> = harness
            .rejected()
            .iter()
            .map(|(_, fault)| fault.message())
            .collect();
        assert_eq!(faults[0], r#"dep_delay is neither minutes nor NA: "soon""#);
        assert!(faults[1].contains("missing field `day`"), "{}", faults[1]);
        Ok(())
    }
}
