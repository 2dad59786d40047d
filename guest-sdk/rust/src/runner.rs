//! Serves the host's calls with an operator: takes columns apart, goes through the records, stores
//! and hands over what they left.

use serde::de::DeserializeOwned;

use crate::bindings::weir::operator::types::{
    Batch, Column, Description, Firing as Due, InputKind, Now, Nullable,
};
use crate::context::{Call, Context};
use crate::fault::{Fault, Result};
use crate::host::Host;
use crate::operator::{Firing, OldValue, Operator, Prefetch, Record};
use crate::setup::Setup;
use crate::timer::Timer;

/// An operator that is open.
pub(crate) struct Runner<O> {
    operator: O,
    cx: Context,
    description: Description,
    rejected: Vec<Fault>,
}

/// The option of a description that holds the configuration's schema.
const CONFIG_SCHEMA: &str = "config-schema";

/// An operator's declarations, for a configuration or for none.
pub(crate) fn describe<O: Operator>(
    name: &str,
    version: &str,
    config: Option<&str>,
) -> Result<Description> {
    let config = match config {
        Some(text) => parse(text)?,
        None => O::Config::default(),
    };
    let mut setup = Setup::new(name, version);
    O::new(&mut setup, config)?;
    let mut description = setup.describe();
    if let Some(schema) = O::config_schema() {
        description.options.push((CONFIG_SCHEMA.to_owned(), schema));
    }
    Ok(description)
}

/// A job file without `config` gives `null` or `{}`; unit wants the one, a struct the other.
fn parse<C: DeserializeOwned>(text: &str) -> Result<C> {
    let text = text.trim();
    if matches!(text, "" | "null" | "{}")
        && let Ok(config) = serde_json::from_str("null")
    {
        return Ok(config);
    }
    let text = if matches!(text, "" | "null") {
        "{}"
    } else {
        text
    };
    serde_json::from_str(text).map_err(|error| Fault::new(format_args!("config: {error}")))
}

impl<O: Operator> Runner<O> {
    pub(crate) fn open(
        name: &str,
        version: &str,
        config: &str,
        host: Box<dyn Host>,
    ) -> Result<Runner<O>> {
        let mut setup = Setup::new(name, version);
        let operator = O::new(&mut setup, parse(config)?)?;
        let mut cx = Context::new(host);
        let description = setup.install(&mut cx);
        Ok(Runner {
            operator,
            cx,
            description,
            rejected: Vec::new(),
        })
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    pub(crate) fn process(&mut self, batch: &Batch, now: Now) -> Result {
        let rows = batch.values.rows();
        let keyed = match self.description.inputs.get(batch.input as usize) {
            Some(input) => input.kind == InputKind::Keyed,
            None => {
                return Err(Fault::new(format_args!(
                    "the operator has no input {}",
                    batch.input
                )));
            }
        };
        let call = if keyed { Call::Keyed } else { Call::Unkeyed };
        self.cx.begin(call, batch.keys.distinct.rows() as u32, now);
        self.rejected.clear();
        let index = &batch.keys.index;
        let key = |row: usize| {
            if index.is_empty() {
                row
            } else {
                index[row] as usize
            }
        };

        for row in 0..rows {
            self.cx.key = key(row) as u32;
            let record = Record {
                batch,
                row,
                key: key(row),
            };
            self.operator
                .prefetch(record, &mut Prefetch { cx: &mut self.cx });
        }
        self.cx.load_wanted();

        for row in 0..rows {
            self.begin_row(row, key(row));
            let record = Record {
                batch,
                row,
                key: key(row),
            };
            if let Err(fault) = self.operator.process(record, &mut self.cx) {
                let fault = Fault {
                    row: Some(row as u32),
                    ..fault
                };
                if self.cx.effects {
                    return Err(fault);
                }
                // It left nothing behind, so the others need not be run again without it.
                self.rejected.push(fault);
            }
        }
        self.end_rows();
        Ok(())
    }

    pub(crate) fn on_timers(&mut self, due: Due, now: Now) -> Result {
        self.cx.begin(Call::Timers, due.keys.rows() as u32, now);
        let Due {
            keys,
            timers,
            namespaces,
            times,
        } = due;
        self.cx.namespaces = namespaces;
        for (row, (&timer, &time)) in timers.iter().zip(&times).enumerate() {
            self.begin_row(row, row);
            let namespace = self.cx.namespaces.row(row).to_vec();
            let timer = Timer {
                index: timer as usize,
            };
            let firing = Firing {
                timer,
                time,
                key: keys.row(row),
                namespace: &namespace,
            };
            if let Err(fault) = self.operator.on_timer(firing, &mut self.cx) {
                return Err(Fault {
                    row: Some(row as u32),
                    ..fault
                });
            }
        }
        self.end_rows();
        Ok(())
    }

    pub(crate) fn on_watermark(&mut self, now: Now) -> Result {
        self.cx.begin(Call::Watermark, 0, now);
        self.operator.on_watermark(&mut self.cx)?;
        self.cx.flush();
        Ok(())
    }

    pub(crate) fn finish(&mut self, now: Now) -> Result {
        self.cx.begin(Call::Finish, 0, now);
        self.operator.finish(&mut self.cx)?;
        self.cx.flush();
        Ok(())
    }

    pub(crate) fn migrate(
        &self,
        state: &str,
        version: u32,
        names: Option<&Column>,
        values: &Column,
    ) -> Result<Nullable> {
        let mut migrated = Nullable::empty();
        for (row, value) in values.iter().enumerate() {
            let old = OldValue {
                state,
                version,
                name: names.map(|names| names.row(row)),
                value,
            };
            match self.operator.migrate(old) {
                Ok(value) => migrated.push(value.as_deref()),
                Err(fault) => {
                    return Err(Fault {
                        row: Some(row as u32),
                        ..fault
                    });
                }
            }
        }
        Ok(migrated)
    }

    #[inline]
    fn begin_row(&mut self, row: usize, key: usize) {
        self.cx.row = row as u32;
        self.cx.key = key as u32;
        self.cx.effects = false;
        #[cfg(target_arch = "wasm32")]
        crate::component::note_row(row as u32);
    }

    fn end_rows(&mut self) {
        #[cfg(target_arch = "wasm32")]
        crate::component::note_no_row();
        self.cx.flush();
        if !self.rejected.is_empty() {
            let faults: Vec<_> = self.rejected.drain(..).map(Into::into).collect();
            self.cx.host.reject(&faults);
        }
    }
}
