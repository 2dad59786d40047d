//! Joins orders with their payments: a payment counts if it was made within an hour (or what the job says) of the
//! order. What finds no counterpart goes to an output of its own.
//!
//! The two inputs are read at their own speed, so either side may come first, by any distance in real time. Whichever
//! does waits in state for the other, and a timer says when it has waited long enough. Event time says it, not the clock:
//! the watermark is that of the slower input, so nobody gives up because the other file is read late.

use serde::{Deserialize, Serialize};
use weir_sdk::{
    Context, Fault, Firing, Input, Json, KeptOutput, Operator, Record, Result, Setup, Timer, Value,
};

const MINUTE: i64 = 60_000;

/// The job file's `config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A payment this long after its order still counts.
    within_minutes: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { within_minutes: 60 }
    }
}

/// What is read and kept of an order.
#[derive(Debug, Deserialize, Serialize)]
struct Order {
    customer: String,
    amount: u64,
    placed: String,
    /// Its time, which the host has read; not part of the record's value.
    #[serde(default)]
    time: i64,
}

/// What is read and kept of a payment.
#[derive(Debug, Deserialize, Serialize)]
struct Payment {
    method: String,
    paid: String,
    /// As an order's.
    #[serde(default)]
    time: i64,
}

/// What is said of an order that was paid in time.
#[derive(Serialize)]
struct Paid<'a> {
    order: &'a str,
    customer: &'a str,
    amount: u64,
    method: &'a str,
    minutes: i64,
}

/// What is said of an order or payment without a counterpart.
#[derive(Serialize)]
struct Unmatched<'a> {
    order: &'a str,
    missing: &'static str,
    at: &'a str,
}

/// The operator. Both inputs are keyed by the number of the order, so an order and its payments meet here.
#[derive(Debug)]
pub struct Join {
    /// In milliseconds, as all times are.
    within: i64,
    orders: Input,
    /// The order that waits for its payment.
    order: Value<Json<Order>>,
    /// Payments that wait for their order, in the order in which they came.
    early: Value<Json<Vec<Payment>>>,
    /// An order has waited long enough.
    unpaid: Timer,
    /// A payment has.
    orphaned: Timer,
    paid: KeptOutput,
    unmatched: KeptOutput,
}

impl Operator for Join {
    type Config = Config;

    fn new(setup: &mut Setup, config: Config) -> Result<Join> {
        let orders = setup.keyed_input("orders");
        setup.keyed_input("payments");
        Ok(Join {
            within: i64::from(config.within_minutes) * MINUTE,
            orders,
            order: setup.value("order"),
            early: setup.value("early"),
            unpaid: setup.event_timer("unpaid"),
            orphaned: setup.event_timer("orphaned"),
            paid: setup.kept_output("paid"),
            unmatched: setup.kept_output("unmatched"),
        })
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let Some(time) = record.time() else {
            return Err(Fault::new(
                "a record without a time: each source needs `event_time`",
            ));
        };
        let number = record.key_text()?;
        if record.input() == self.orders {
            let order = Order {
                time,
                ..record.json()?
            };
            self.process_order(number, order, cx)
        } else {
            let payment = Payment {
                time,
                ..record.json()?
            };
            self.process_payment(number, payment, cx)
        }
    }

    fn on_timer(&mut self, firing: Firing<'_>, cx: &mut Context) -> Result {
        let number = firing.key_text()?;
        if firing.timer() == self.unpaid {
            let Some(Json(order)) = self.order.get(cx)? else {
                return Ok(());
            };
            self.order.clear(cx)?;
            return self.say_unmatched(number, "payment", &order.placed, cx);
        }
        // Event time has reached the payment, so orders from before it have all come.
        let due = |payment: &Payment| payment.time <= firing.time();
        let (orphans, waiting) = self.early(cx)?.into_iter().partition(due);
        self.keep_early(waiting, cx)?;
        for orphan in orphans {
            self.say_unmatched(number, "order", &orphan.paid, cx)?;
        }
        Ok(())
    }
}

impl Join {
    fn process_order(&self, number: &str, order: Order, cx: &mut Context) -> Result {
        if let Some(Json(there)) = self.order.get(cx)? {
            return Err(Fault::new(format_args!(
                "order {number} was placed already, at {}",
                there.placed
            )));
        }
        let mut early = self.early(cx)?;
        let Some(first) = early.iter().position(|payment| self.fits(&order, payment)) else {
            // All payments up to this time will have come when event time reaches it.
            self.unpaid.set(cx, order.time + self.within)?;
            return self.order.set(cx, &Json(order));
        };
        let payment = early.remove(first);
        // A timer is what it is set for: two payments of one instant share theirs, and the other may still need it.
        if early.iter().all(|other| other.time != payment.time) {
            self.orphaned.cancel(cx, payment.time)?;
        }
        self.keep_early(early, cx)?;
        self.say_paid(number, &order, &payment, cx)
    }

    fn process_payment(&self, number: &str, payment: Payment, cx: &mut Context) -> Result {
        if let Some(Json(order)) = self.order.get(cx)?
            && self.fits(&order, &payment)
        {
            // The order needs its state and its timer no more.
            self.order.clear(cx)?;
            self.unpaid.cancel(cx, order.time + self.within)?;
            return self.say_paid(number, &order, &payment, cx);
        }
        // No order is placed after its payment, so one that has not come when event time is here never will.
        self.orphaned.set(cx, payment.time)?;
        let mut early = self.early(cx)?;
        early.push(payment);
        self.keep_early(early, cx)
    }

    fn fits(&self, order: &Order, payment: &Payment) -> bool {
        (order.time..=order.time + self.within).contains(&payment.time)
    }

    fn early(&self, cx: &mut Context) -> Result<Vec<Payment>> {
        Ok(match self.early.get(cx)? {
            Some(Json(early)) => early,
            None => Vec::new(),
        })
    }

    /// State that holds nothing is removed, or it would stay for ever.
    fn keep_early(&self, early: Vec<Payment>, cx: &mut Context) -> Result {
        if early.is_empty() {
            self.early.clear(cx)
        } else {
            self.early.set(cx, &Json(early))
        }
    }

    fn say_paid(&self, number: &str, order: &Order, payment: &Payment, cx: &mut Context) -> Result {
        self.paid.emit(cx).json(&Paid {
            order: number,
            customer: &order.customer,
            amount: order.amount,
            method: &payment.method,
            minutes: (payment.time - order.time) / MINUTE,
        })
    }

    fn say_unmatched(
        &self,
        number: &str,
        missing: &'static str,
        at: &str,
        cx: &mut Context,
    ) -> Result {
        self.unmatched.emit(cx).json(&Unmatched {
            order: number,
            missing,
            at,
        })
    }
}

weir_sdk::export!(Join);

#[cfg(test)]
mod tests;
