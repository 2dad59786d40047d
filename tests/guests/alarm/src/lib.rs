//! Sets a timer for each record, one second of event time after it, and does nothing when it fires.
//!
//! The benchmark of timers measures the host with it.

use weir_sdk::{Context, Firing, Operator, Record, Result, Setup, Timer};

/// The operator.
#[derive(Debug)]
pub struct Alarm {
    alarm: Timer,
}

impl Operator for Alarm {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Alarm> {
        setup.keyed_input("records");
        // A sink needs something to read, if only nothing.
        setup.kept_output("nothing");
        Ok(Alarm {
            alarm: setup.event_timer("alarm"),
        })
    }

    #[inline]
    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        let time = record.time().unwrap_or(0);
        self.alarm.set(cx, time.saturating_add(1_000))
    }

    fn on_timer(&mut self, _firing: Firing<'_>, _cx: &mut Context) -> Result {
        Ok(())
    }
}

weir_sdk::export!(Alarm);

#[cfg(test)]
mod tests {
    use super::Alarm;
    use weir_sdk::test::{Scenario, record};

    #[test]
    fn each_record_has_its_timer_until_it_fires() -> weir_sdk::Result {
        let records = [("a", 7), ("b", 7), ("a", 9)];
        let scenario = Scenario::new("null")
            .records(records.map(|(key, time)| record("x").key(key).time(time)));
        assert_eq!(scenario.check::<Alarm>()?.timers().len(), 3);
        let fired = scenario.watermark(1_008).check::<Alarm>()?;
        assert_eq!(fired.timers().len(), 1);
        Ok(())
    }
}
