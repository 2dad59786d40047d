//! Sums up an airport's departures by local day: one line a day, when event time says it is over.
//!
//! A day is a namespace of the airport's state, so that the disorder of the data, in which several
//! days are open at once, needs no further thought. The first flight of a day sets its timer.

use serde::{Deserialize, Serialize};
use weir_sdk::schemars::JsonSchema;
use weir_sdk::{
    Context, Fault, Firing, Input, Json, KeptOutput, Operator, Record, Result, Setup, Timer, Value,
};

const HOUR: i64 = 60 * 60 * 1_000;

/// A departure later than this many minutes counts as late, as in the statistics of the US Bureau of
/// Transportation.
const LATE: i64 = 15;

/// The job file's `config`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(crate = "weir_sdk::schemars")]
pub struct Config {
    /// Local time minus UTC in hours, at the moment in the year when it is smallest: a day must not be
    /// summed up before it has ended. New York's is -5; in summer its days then end an hour late, in
    /// event time, which changes nothing in the result.
    #[schemars(range(min = -14, max = 14))]
    utc_offset_hours: i64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            utc_offset_hours: -5,
        }
    }
}

/// What is read of a flight, on either input.
#[derive(Deserialize)]
struct Flight<'a> {
    day: &'a str,
    /// Minutes; a flight that never left has none.
    delay: Option<i64>,
}

/// What is kept of a day.
#[derive(Default, Deserialize, Serialize)]
struct Tally {
    flights: u64,
    no_departure: u64,
    minutes: i64,
    max: Option<i64>,
    late: u64,
}

/// What is said of a day. The mean, the maximum and the share are null on a day without departures.
#[derive(Serialize)]
struct Summary<'a> {
    airport: &'a str,
    day: &'a str,
    /// Flights that left.
    flights: u64,
    /// Flights that were scheduled and never left.
    no_departure: u64,
    mean_delay: Option<f64>,
    max_delay: Option<i64>,
    late_share: Option<f64>,
}

/// The operator.
#[derive(Debug)]
pub struct Daily {
    config: Config,
    departed: Input,
    tally: Value<Json<Tally>>,
    day_over: Timer,
    delays: KeptOutput,
}

impl Operator for Daily {
    type Config = Config;

    fn config_schema() -> Option<String> {
        weir_sdk::schema_of::<Config>()
    }

    fn new(setup: &mut Setup, config: Config) -> Result<Daily> {
        let departed = setup.keyed_input("departed");
        setup.keyed_input("no_departure");
        Ok(Daily {
            config,
            departed,
            tally: setup.value("tally"),
            day_over: setup.event_timer("day-over"),
            delays: setup.kept_output("delays"),
        })
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let flight: Flight<'_> = record.json()?;
        let delay = flight.delay.filter(|_| record.input() == self.departed);
        let tally_of_day = self.tally.at(flight.day);
        let mut tally = match tally_of_day.get(cx)? {
            Some(Json(tally)) => tally,
            None => {
                let end = self.end_of(flight.day)?;
                self.day_over.set_at(cx, flight.day, end)?;
                Tally::default()
            }
        };
        match delay {
            Some(minutes) => {
                tally.flights += 1;
                tally.minutes += minutes;
                tally.max = tally.max.max(Some(minutes));
                tally.late += u64::from(minutes > LATE);
            }
            None => tally.no_departure += 1,
        }
        tally_of_day.set(cx, &Json(tally))
    }

    fn on_timer(&mut self, day_over: Firing<'_>, cx: &mut Context) -> Result {
        let day = day_over.namespace_text()?;
        let Some(Json(tally)) = self.tally.at(day).get(cx)? else {
            return Ok(());
        };
        self.tally.at(day).clear(cx)?;
        let of_flights = |sum: f64, digits: f64| {
            (tally.flights > 0).then(|| (sum / tally.flights as f64 * digits).round() / digits)
        };
        self.delays.emit(cx).json(&Summary {
            airport: day_over.key_text()?,
            day,
            flights: tally.flights,
            no_departure: tally.no_departure,
            mean_delay: of_flights(tally.minutes as f64, 100.0),
            max_delay: tally.max,
            late_share: of_flights(tally.late as f64, 1_000.0),
        })
    }
}

impl Daily {
    /// The last millisecond of a local day.
    fn end_of(&self, day: &str) -> Result<i64> {
        let mut parts = day.split('-').map(|part| part.parse::<i64>().ok());
        let date = (
            parts.next().flatten(),
            parts.next().flatten(),
            parts.next().flatten(),
        );
        let (Some(year), Some(month @ 1..=12), Some(day_of_month @ 1..=31)) = date else {
            return Err(Fault::new(format_args!("not a date: {day:?}")));
        };
        let end = days_since_epoch(year, month, day_of_month) + 1;
        Ok((end * 24 - self.config.utc_offset_hours) * HOUR - 1)
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that
/// the leap day is the last (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

weir_sdk::export!(Daily);

#[cfg(test)]
mod tests {
    use super::{Daily, HOUR, days_since_epoch};
    use weir_sdk::test::{Harness, NewRecord, Scenario, record};

    fn departed(airport: &str, day: &str, delay: i64) -> NewRecord {
        record(format!(
            r#"{{"day":"{day}","carrier":"UA","delay":{delay}}}"#
        ))
        .key(airport)
        .input("departed")
    }

    fn never_left(airport: &str, day: &str) -> NewRecord {
        record(format!(r#"{{"day":"{day}","dep_delay":"NA"}}"#))
            .key(airport)
            .input("no_departure")
    }

    #[test]
    fn a_day_is_summed_up_once_when_it_is_over_in_local_time() -> weir_sdk::Result {
        let mut harness = Harness::<Daily>::open("null")?;
        harness.process([
            departed("JFK", "2013-01-01", 2),
            departed("JFK", "2013-01-01", -1),
        ])?;
        let midnight = (days_since_epoch(2013, 1, 2) * 24 + 5) * HOUR;
        harness.advance_watermark(midnight - 2)?;
        assert!(harness.emitted("delays").is_empty());
        harness.advance_watermark(midnight - 1)?;
        harness.finish()?;
        assert_eq!(
            harness.texts("delays"),
            [
                r#"{"airport":"JFK","day":"2013-01-01","flights":2,"no_departure":0,"mean_delay":0.5,"max_delay":2,"late_share":0.0}"#
            ]
        );
        Ok(())
    }

    #[test]
    fn days_and_airports_are_apart_whatever_the_order() -> weir_sdk::Result {
        let harness = Scenario::new(r#"{"utc_offset_hours":-5}"#)
            .records([
                departed("EWR", "2013-01-02", 100),
                departed("EWR", "2013-01-01", 20),
                departed("LGA", "2013-01-01", 16),
                departed("EWR", "2013-01-01", 15),
            ])
            .records([
                never_left("EWR", "2013-01-01"),
                never_left("EWR", "2013-01-03"),
            ])
            .watermark(days_since_epoch(2013, 1, 3) * 24 * HOUR)
            .records([departed("EWR", "2013-01-02", -10)])
            .finish()
            .check::<Daily>()?;
        let mut lines = harness.texts("delays");
        lines.sort();
        assert_eq!(
            lines,
            [
                r#"{"airport":"EWR","day":"2013-01-01","flights":2,"no_departure":1,"mean_delay":17.5,"max_delay":20,"late_share":0.5}"#,
                r#"{"airport":"EWR","day":"2013-01-02","flights":2,"no_departure":0,"mean_delay":45.0,"max_delay":100,"late_share":0.5}"#,
                r#"{"airport":"EWR","day":"2013-01-03","flights":0,"no_departure":1,"mean_delay":null,"max_delay":null,"late_share":null}"#,
                r#"{"airport":"LGA","day":"2013-01-01","flights":1,"no_departure":0,"mean_delay":16.0,"max_delay":16,"late_share":1.0}"#,
            ]
        );
        Ok(())
    }

    #[test]
    fn a_date_that_is_none_and_a_field_that_is_unknown_are_named() {
        let mut harness = Harness::<Daily>::open("{}").unwrap();
        harness.process([departed("EWR", "yesterday", 1)]).unwrap();
        assert_eq!(
            harness.rejected()[0].1.message(),
            r#"not a date: "yesterday""#
        );
        let refused = Harness::<Daily>::open(r#"{"utc_offset":-5}"#).unwrap_err();
        assert!(
            refused.message().contains("unknown field `utc_offset`"),
            "{}",
            refused.message()
        );
    }

    #[test]
    fn dates_are_counted_from_1970() {
        assert_eq!(days_since_epoch(1970, 1, 1), 0);
        assert_eq!(days_since_epoch(1969, 12, 31), -1);
        assert_eq!(
            days_since_epoch(2000, 3, 1) - days_since_epoch(2000, 2, 28),
            2
        );
        assert_eq!(
            days_since_epoch(2013, 12, 31) - days_since_epoch(2013, 1, 1),
            364
        );
    }
}
