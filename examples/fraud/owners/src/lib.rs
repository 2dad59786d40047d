//! Says whose account an alert is about. Accounts are a table: the newest record of an account is the account, one without a value
//! removes it.
//!
//! An alert may be faster than its account: the two topics are read at their own speed, and an account may have been opened a minute
//! ago. So an alert whose account is not known waits for it, ten minutes of event time (or what the job says); then it goes
//! out without an owner, because an alert that nobody sees is worse than one that lacks something. An account that comes later
//! than that changes nothing about alerts that have gone out.

use serde::{Deserialize, Serialize};
use weir_sdk::{
    Context, Fault, Firing, Input, Json, KeptOutput, Operator, Record, Result, Setup, Timer, Value,
};

const MINUTE: i64 = 60_000;

/// The job file's `config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// So long an alert waits for its account.
    wait_minutes: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { wait_minutes: 10 }
    }
}

/// What is read and kept of an account.
#[derive(Debug, Deserialize, Serialize)]
struct Account {
    owner: String,
    email: String,
}

/// What is read and kept of an alert.
#[derive(Debug, Deserialize, Serialize)]
struct Alert {
    card: String,
    declined: u64,
    amount: u64,
    from: String,
    to: String,
    payments: Vec<String>,
    /// Its time, which the host has read; not part of the record's value.
    #[serde(default)]
    time: i64,
}

/// What is said of an alert.
#[derive(Serialize)]
struct Said<'a> {
    account: &'a str,
    owner: Option<&'a str>,
    email: Option<&'a str>,
    card: &'a str,
    declined: u64,
    amount: u64,
    from: &'a str,
    to: &'a str,
    payments: &'a [String],
}

/// The operator. Both inputs are keyed by the account, so an account and the alerts about it meet here.
#[derive(Debug)]
pub struct Owners {
    /// In milliseconds, as all times are.
    wait: i64,
    accounts: Input,
    /// The account. It stays until a record without a value removes it.
    account: Value<Json<Account>>,
    /// Alerts that wait for it, in the order in which they came.
    waiting: Value<Json<Vec<Alert>>>,
    /// An alert has waited long enough.
    patience: Timer,
    alerts: KeptOutput,
}

impl Operator for Owners {
    type Config = Config;

    fn new(setup: &mut Setup, config: Config) -> Result<Owners> {
        setup.keyed_input("alerts");
        Ok(Owners {
            wait: i64::from(config.wait_minutes) * MINUTE,
            accounts: setup.keyed_input("accounts"),
            account: setup.value("account"),
            waiting: setup.value("waiting"),
            patience: setup.event_timer("patience"),
            alerts: setup.kept_output("alerts"),
        })
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let account = record.key_text()?;
        if record.input() == self.accounts {
            return match record.value() {
                None => self.account.clear(cx),
                Some(_) => self.process_account(account, record.json()?, cx),
            };
        }
        let Some(time) = record.time() else {
            return Err(Fault::new("an alert without a time"));
        };
        let alert = Alert {
            time,
            ..record.json()?
        };
        if let Some(Json(owner)) = self.account.get(cx)? {
            return self.say(account, Some(&owner), &alert, cx);
        }
        self.patience.set(cx, time + self.wait)?;
        let mut waiting = self.waiting(cx)?;
        waiting.push(alert);
        self.waiting.set(cx, &Json(waiting))
    }

    fn on_timer(&mut self, patience: Firing<'_>, cx: &mut Context) -> Result {
        let over = |alert: &Alert| alert.time + self.wait <= patience.time();
        let (without, waiting): (Vec<_>, Vec<_>) = self.waiting(cx)?.into_iter().partition(over);
        if waiting.is_empty() {
            self.waiting.clear(cx)?;
        } else {
            self.waiting.set(cx, &Json(waiting))?;
        }
        for alert in without {
            self.say(patience.key_text()?, None, &alert, cx)?;
        }
        Ok(())
    }
}

impl Owners {
    fn process_account(&self, account: &str, owner: Account, cx: &mut Context) -> Result {
        for alert in self.waiting(cx)? {
            // Another account's alert has another key, so the timer is this one's. Of two alerts of one instant both are said here.
            self.patience.cancel(cx, alert.time + self.wait)?;
            self.say(account, Some(&owner), &alert, cx)?;
        }
        self.waiting.clear(cx)?;
        self.account.set(cx, &Json(owner))
    }

    fn waiting(&self, cx: &mut Context) -> Result<Vec<Alert>> {
        Ok(match self.waiting.get(cx)? {
            Some(Json(waiting)) => waiting,
            None => Vec::new(),
        })
    }

    fn say(
        &self,
        account: &str,
        owner: Option<&Account>,
        alert: &Alert,
        cx: &mut Context,
    ) -> Result {
        self.alerts.emit(cx).json(&Said {
            account,
            owner: owner.map(|owner| owner.owner.as_str()),
            email: owner.map(|owner| owner.email.as_str()),
            card: &alert.card,
            declined: alert.declined,
            amount: alert.amount,
            from: &alert.from,
            to: &alert.to,
            payments: &alert.payments,
        })
    }
}

weir_sdk::export!(Owners);

#[cfg(test)]
mod tests;
