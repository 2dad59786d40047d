//! Flags a card that is declined three times within a minute (or what the job says): somebody may be trying out what it is good for.
//!
//! Payments come out of order, so a card is judged by event time, not by the order in which its payments come. Declined ones wait in
//! state, sorted, until the watermark says that everything from before them has come as well. The result is the same in
//! whatever order they came, and an alert is later than it could be by the disorder that the source allows for.

use serde::{Deserialize, Serialize};
use weir_sdk::{
    Context, Fault, Firing, GivenOutput, Json, KeptOutput, Operator, Record, Result, Setup, Timer,
    Value,
};

const SECOND: i64 = 1_000;

/// The job file's `config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// So many declined payments are an alert,
    declines: usize,
    /// if from the first to the last it is not longer than this.
    within_seconds: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            declines: 3,
            within_seconds: 60,
        }
    }
}

/// What is read of a payment. Its key is the card.
#[derive(Deserialize)]
struct Payment {
    id: String,
    account: String,
    amount: u64,
    outcome: Outcome,
    /// The host has read its time as well; this is the text to show it by.
    at: String,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Approved,
    Declined,
}

/// What is kept of a payment that was declined.
#[derive(Debug, Deserialize, Serialize)]
struct Decline {
    time: i64,
    id: String,
    account: String,
    amount: u64,
    at: String,
}

/// What is said of a card. Its key is the account.
#[derive(Serialize)]
struct Alert<'a> {
    card: &'a str,
    declined: usize,
    amount: u64,
    from: &'a str,
    to: &'a str,
    payments: Vec<&'a str>,
}

/// The operator.
#[derive(Debug)]
pub struct Declines {
    declines: usize,
    /// In milliseconds, as all times are.
    within: i64,
    /// The card's declined payments in the order of event time: those of the last minute that are in no alert, and those that
    /// event time has not reached yet.
    recent: Value<Json<Vec<Decline>>>,
    /// Set for the time of each decline, to judge it, and for when it is too old to count, to forget it.
    look: Timer,
    alerts: GivenOutput,
    late: KeptOutput,
}

impl Operator for Declines {
    type Config = Config;

    fn new(setup: &mut Setup, config: Config) -> Result<Declines> {
        if config.declines == 0 {
            return Err(Fault::new(
                "declines is 0: every card would be flagged, always",
            ));
        }
        setup.keyed_input("payments");
        Ok(Declines {
            declines: config.declines,
            within: i64::from(config.within_seconds) * SECOND,
            recent: setup.value("recent"),
            look: setup.event_timer("look"),
            alerts: setup.given_output("alerts"),
            late: setup.kept_output("late"),
        })
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let Some(time) = record.time() else {
            return Err(Fault::new(
                "a payment without a time: the source needs `event_time`",
            ));
        };
        let payment: Payment = record.json()?;
        if payment.outcome == Outcome::Approved {
            return Ok(());
        }
        // What is as old as this has been judged already.
        if cx.watermark().is_some_and(|watermark| time <= watermark) {
            return self.late.emit(cx).forward();
        }
        let decline = Decline {
            time,
            id: payment.id,
            account: payment.account,
            amount: payment.amount,
            at: payment.at,
        };
        let mut recent = self.recent(cx)?;
        // By its id where two are of one instant, so that their order does not depend on which came first.
        let before = |other: &Decline| (other.time, &other.id) <= (time, &decline.id);
        let place = recent.partition_point(before);
        recent.insert(place, decline);
        self.look.set(cx, time)?;
        self.look.set(cx, time + self.within + 1)?;
        self.recent.set(cx, &Json(recent))
    }

    fn on_timer(&mut self, look: Firing<'_>, cx: &mut Context) -> Result {
        let now = look.time();
        let mut recent = self.recent(cx)?;
        recent.retain(|decline| decline.time + self.within >= now);
        while recent.partition_point(|decline| decline.time <= now) >= self.declines {
            // What is in an alert is not counted for another one.
            let flagged: Vec<Decline> = recent.drain(..self.declines).collect();
            self.say(look.key_text()?, &flagged, cx)?;
        }
        // A card that is quiet has no state: what nobody removes stays for ever.
        if recent.is_empty() {
            self.recent.clear(cx)
        } else {
            self.recent.set(cx, &Json(recent))
        }
    }
}

impl Declines {
    fn recent(&self, cx: &mut Context) -> Result<Vec<Decline>> {
        Ok(match self.recent.get(cx)? {
            Some(Json(recent)) => recent,
            None => Vec::new(),
        })
    }

    fn say(&self, card: &str, flagged: &[Decline], cx: &mut Context) -> Result {
        let (Some(first), Some(last)) = (flagged.first(), flagged.last()) else {
            return Ok(());
        };
        self.alerts.emit(cx, &last.account).json(&Alert {
            card,
            declined: flagged.len(),
            amount: flagged.iter().map(|decline| decline.amount).sum(),
            from: &first.at,
            to: &last.at,
            payments: flagged.iter().map(|decline| decline.id.as_str()).collect(),
        })
    }
}

weir_sdk::export!(Declines);

#[cfg(test)]
mod tests;
