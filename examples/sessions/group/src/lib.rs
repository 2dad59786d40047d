//! Groups the clicks of each user into sessions. A session is over when its user has done nothing for a while,
//! and then it is said, once.
//!
//! Clicks come out of order, and event time advances only now and then. So a user's second session may have begun
//! before the first is known to be over, and an early click may turn up between two sessions and make them one.
//! That is why the state of a user is a list.

use serde::{Deserialize, Serialize};
use weir_sdk::{
    Context, Fault, Firing, Json, KeptOutput, Operator, Record, Result, Setup, Timer, Value,
};

const MINUTE: i64 = 60_000;

/// The job file's `config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A click this long after the one before it still belongs to the same session.
    gap_minutes: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { gap_minutes: 30 }
    }
}

/// What is read of a click. The host has read its time as well; this is the text to show it by.
#[derive(Deserialize)]
struct Click {
    at: String,
}

/// A session that is not over yet.
#[derive(Debug, Deserialize, Serialize)]
struct Session {
    /// Time of its first click, and of its last.
    first: i64,
    last: i64,
    /// The first one's time, as the click said it.
    from: String,
    clicks: u64,
    /// When its timer is due: at `last` plus the gap or before, never after.
    wakes: i64,
}

/// What is said of a session that is over.
#[derive(Serialize)]
struct Said<'a> {
    user: &'a str,
    from: &'a str,
    minutes: i64,
    clicks: u64,
}

/// The operator.
#[derive(Debug)]
pub struct Group {
    /// In milliseconds, as all times are.
    gap: i64,
    /// The user's open sessions in the order of time, each more than the gap away from the next.
    open: Value<Json<Vec<Session>>>,
    over: Timer,
    sessions: KeptOutput,
    late: KeptOutput,
}

impl Operator for Group {
    type Config = Config;

    fn new(setup: &mut Setup, config: Config) -> Result<Group> {
        if config.gap_minutes == 0 {
            return Err(Fault::new(
                "gap_minutes is 0: each click would be a session of its own",
            ));
        }
        setup.keyed_input("clicks");
        Ok(Group {
            gap: i64::from(config.gap_minutes) * MINUTE,
            open: setup.value("open"),
            over: setup.event_timer("over"),
            sessions: setup.kept_output("sessions"),
            late: setup.kept_output("late"),
        })
    }

    fn process(&mut self, click: Record<'_>, cx: &mut Context) -> Result {
        let Some(time) = click.time() else {
            return Err(Fault::new(
                "a click without a time: the source needs `event_time`",
            ));
        };
        // The watermark said that nothing at or before it would come any more, and sessions were said on its word. This click
        // might have belonged to one of them.
        if cx.watermark().is_some_and(|watermark| time <= watermark) {
            return self.late.emit(cx).forward();
        }
        let Click { at } = click.json()?;
        let mut open = match self.open.get(cx)? {
            Some(Json(open)) => open,
            None => Vec::new(),
        };
        // The first session that does not lie wholly before the click, which may be none.
        let place = open
            .iter()
            .position(|session| time <= session.last + self.gap)
            .unwrap_or(open.len());
        match open.get_mut(place) {
            Some(session) if time >= session.first - self.gap => {
                session.clicks += 1;
                session.last = session.last.max(time);
                if time < session.first {
                    session.first = time;
                    session.from = at;
                }
                // Its timer stays where it is. To move it would be a cancel and a set for every click; instead it looks, when it
                // fires, whether clicks have come since.
                self.join_with_next(place, &mut open, cx)?;
            }
            _ => {
                let wakes = time + self.gap;
                self.over.set(cx, wakes)?;
                let session = Session {
                    first: time,
                    last: time,
                    from: at,
                    clicks: 1,
                    wakes,
                };
                open.insert(place, session);
            }
        }
        self.open.set(cx, &Json(open))
    }

    fn on_timer(&mut self, over: Firing<'_>, cx: &mut Context) -> Result {
        let Some(Json(mut open)) = self.open.get(cx)? else {
            return Ok(());
        };
        let Some(place) = open.iter().position(|s| s.wakes == over.time()) else {
            return Ok(());
        };
        let ends = open[place].last + self.gap;
        if ends > over.time() {
            // The timer has been removed by firing. The session needs another one, for its new end.
            open[place].wakes = ends;
            self.over.set(cx, ends)?;
        } else {
            let session = open.remove(place);
            self.sessions.emit(cx).json(&Said {
                user: over.key_text()?,
                from: &session.from,
                minutes: (session.last - session.first) / MINUTE,
                clicks: session.clicks,
            })?;
        }
        // What is over is forgotten: state that nobody removes stays for ever.
        if open.is_empty() {
            self.open.clear(cx)
        } else {
            self.open.set(cx, &Json(open))
        }
    }
}

impl Group {
    /// Makes one of a session and the next, if a click has closed the gap between them.
    fn join_with_next(&self, place: usize, open: &mut Vec<Session>, cx: &mut Context) -> Result {
        let last = open[place].last;
        if open
            .get(place + 1)
            .is_none_or(|next| next.first - self.gap > last)
        {
            return Ok(());
        }
        let next = open.remove(place + 1);
        let session = &mut open[place];
        // One timer is enough: the later one, which fires at the end or before it.
        self.over.cancel(cx, session.wakes)?;
        session.wakes = next.wakes;
        session.last = next.last;
        session.clicks += next.clicks;
        Ok(())
    }
}

weir_sdk::export!(Group);

#[cfg(test)]
mod tests;
