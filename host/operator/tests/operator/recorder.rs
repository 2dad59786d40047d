//! An environment that writes down what it is told, and the probe in it.

use std::fmt::Write;
use std::path::Path;
use std::sync::OnceLock;

use weir_operator::{
    Batch, CallError, Cells, Column, ColumnRef, Component, Description, Engine, Environment, Fault,
    Firing, HeadersRef, HostError, Instance, ItemLists, Level, Limits, Now, Nullable, NullableRef,
    Page, Rows,
};

/// Writes down every call as a line, and answers reads with nulls and nothing.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) lines: Vec<String>,
    /// The method that is to fail.
    pub(crate) fails: Option<&'static str>,
    /// The method that is to answer that it is asked for too much.
    pub(crate) over_budget: Option<&'static str>,
    /// Time passes in reads: an engine and how many ticks.
    pub(crate) slow: Option<(Engine, u64)>,
}

impl Recorder {
    fn note(&mut self, method: &'static str, rest: impl AsRef<str>) -> Result<(), HostError> {
        self.lines
            .push(format!("{method} {}", rest.as_ref()).trim_end().to_owned());
        if let Some((engine, ticks)) = &self.slow {
            (0..*ticks).for_each(|_| engine.tick());
        }
        match method {
            _ if self.fails == Some(method) => {
                Err(std::io::Error::other("the disk is gone").into())
            }
            _ if self.over_budget == Some(method) => Err(HostError::over_budget()),
            _ => Ok(()),
        }
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

fn show(of: ColumnRef<'_>) -> String {
    let strings = of
        .offsets
        .windows(2)
        .map(|pair| &of.data[pair[0] as usize..pair[1] as usize]);
    let strings: Vec<_> = strings
        .map(|string| String::from_utf8_lossy(string).into_owned())
        .collect();
    format!("[{}]", strings.join(" "))
}

fn show_nullable(of: NullableRef<'_>) -> String {
    let strings =
        of.offsets
            .windows(2)
            .enumerate()
            .map(|(position, pair)| match of.present.get(position) {
                Some(0) => "null".to_owned(),
                _ => format!(
                    "{:?}",
                    String::from_utf8_lossy(&of.data[pair[0] as usize..pair[1] as usize])
                ),
            });
    format!("[{}]", strings.collect::<Vec<_>>().join(" "))
}

fn show_cells(at: Cells<'_>) -> String {
    let mut text = format!("{:?}", at.keys);
    if let Some(namespaces) = at.namespaces {
        write!(text, "/{}", show(namespaces)).unwrap();
    }
    text
}

fn nothing() -> Column {
    Column {
        offsets: vec![0],
        data: vec![],
    }
}

fn nulls(count: usize) -> Nullable {
    Nullable {
        present: vec![0; count],
        offsets: vec![0; count + 1],
        data: vec![],
    }
}

impl Environment for Recorder {
    fn begin(&mut self) {
        self.lines.push("begin".to_owned());
    }

    fn apply(&mut self) -> Result<(), HostError> {
        self.note("apply", "")
    }

    fn discard(&mut self) {
        self.lines.push("discard".to_owned());
    }

    fn get(&mut self, state: u32, at: Cells<'_>) -> Result<Nullable, HostError> {
        self.note("get", format!("{state} {}", show_cells(at)))?;
        Ok(nulls(at.keys.len()))
    }

    fn put(&mut self, state: u32, at: Cells<'_>, values: NullableRef<'_>) -> Result<(), HostError> {
        self.note(
            "put",
            format!("{state} {} {}", show_cells(at), show_nullable(values)),
        )
    }

    fn append(&mut self, state: u32, at: Cells<'_>, items: ColumnRef<'_>) -> Result<(), HostError> {
        self.note(
            "append",
            format!("{state} {} {}", show_cells(at), show(items)),
        )
    }

    fn get_items(&mut self, state: u32, at: Cells<'_>) -> Result<ItemLists, HostError> {
        self.note("get-items", format!("{state} {}", show_cells(at)))?;
        Ok(ItemLists {
            ends: vec![0; at.keys.len()],
            items: nothing(),
        })
    }

    fn get_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
    ) -> Result<Nullable, HostError> {
        self.note(
            "get-entries",
            format!("{state} {} {}", show_cells(at), show(names)),
        )?;
        Ok(nulls(at.keys.len()))
    }

    fn put_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), HostError> {
        self.note(
            "put-entries",
            format!(
                "{state} {} {} {}",
                show_cells(at),
                show(names),
                show_nullable(values)
            ),
        )
    }

    fn scan(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
        descending: bool,
        limit: u32,
    ) -> Result<Page, HostError> {
        let range = format!("{}..{}", show_nullable(start), show_nullable(end));
        self.note(
            "scan",
            format!("{state} {} {range} {descending} {limit}", show_cells(at)),
        )?;
        let count = at.keys.len();
        Ok(Page {
            ends: vec![0; count],
            names: nothing(),
            values: nothing(),
            more: vec![0; count],
        })
    }

    fn clear_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
    ) -> Result<(), HostError> {
        let range = format!("{}..{}", show_nullable(start), show_nullable(end));
        self.note(
            "clear-entries",
            format!("{state} {} {range}", show_cells(at)),
        )
    }

    fn clear(&mut self, state: u32, at: Cells<'_>) -> Result<(), HostError> {
        self.note("clear", format!("{state} {}", show_cells(at)))
    }

    fn touch(&mut self, state: u32, at: Cells<'_>) -> Result<(), HostError> {
        self.note("touch", format!("{state} {}", show_cells(at)))
    }

    fn set_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), HostError> {
        self.note("set", format!("{timer} {} {times:?}", show_cells(at)))
    }

    fn cancel_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), HostError> {
        self.note("cancel", format!("{timer} {} {times:?}", show_cells(at)))
    }

    fn emit(&mut self, output: u32, rows: Rows) -> Result<(), HostError> {
        let mut text = format!("{output} {:?}", rows.origins);
        if let Some(keys) = rows.keys {
            write!(
                text,
                " keys {}{:?}",
                show_nullable(keys.distinct.as_ref()),
                keys.index
            )
            .unwrap();
        }
        if let Some(values) = rows.values {
            write!(text, " values {}", show_nullable(values.as_ref())).unwrap();
        }
        if let Some(times) = rows.times {
            write!(text, " times {times:?}").unwrap();
        }
        if let Some(headers) = rows.headers {
            let (names, contents) = (show(headers.names.as_ref()), headers.contents.as_ref());
            let contents = show_nullable(contents);
            write!(text, " headers {:?} {names} {contents}", headers.ends).unwrap();
        }
        self.note("emit", text)
    }

    fn log(&mut self, level: Level, message: &str) {
        self.lines.push(format!("log {level:?} {message}"));
    }

    fn reject(&mut self, faults: Vec<Fault>) -> Result<(), HostError> {
        self.note(
            "reject",
            faults
                .iter()
                .map(|f| format!("{:?} {}", f.row, f.message))
                .collect::<Vec<_>>()
                .join(", "),
        )
    }
}

/// The engine of all tests but those in which time passes.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new().unwrap())
}

/// A guest's file, by the name of its package with `_` for `-`.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests");
    let folder = std::env::var_os("WEIR_GUESTS").map_or(built, Into::into);
    let file = folder.join(format!("{name}.wasm"));
    std::fs::read(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; run `make guests` first", file.display()))
}

/// The probe, compiled once.
pub(crate) fn probe() -> &'static Component {
    static PROBE: OnceLock<Component> = OnceLock::new();
    PROBE.get_or_init(|| {
        engine()
            .load(&guest("weir_guest_probe"), "probe.wasm")
            .unwrap()
    })
}

pub(crate) fn probe_description() -> &'static Description {
    static DESCRIPTION: OnceLock<Description> = OnceLock::new();
    DESCRIPTION.get_or_init(|| probe().describe(None, &Limits::default()).unwrap())
}

/// The probe as an instance that will do what `config` says.
pub(crate) fn opened(config: &str, limits: Limits) -> Instance<Recorder> {
    opened_in(probe(), config, limits, Recorder::default())
}

pub(crate) fn opened_in(
    component: &Component,
    config: &str,
    limits: Limits,
    recorder: Recorder,
) -> Instance<Recorder> {
    let mut instance = component
        .instantiate("probe", probe_description(), limits, recorder)
        .unwrap();
    instance.open(config).unwrap();
    instance
}

pub(crate) const NOW: Now = Now {
    watermark: 1_000,
    processing_time: 2_000,
};

/// Three records of the keys `a` and `b`; the values are `x`, null and empty.
pub(crate) const KEYED: Batch<'static> = Batch {
    input: 0,
    distinct: NullableRef {
        present: &[],
        offsets: &[0, 1, 2],
        data: b"ab",
    },
    index: &[0, 1, 0],
    values: NullableRef {
        present: &[1, 0, 1],
        offsets: &[0, 1, 1, 1],
        data: b"x",
    },
    times: &[10, i64::MIN, 12],
    headers: None,
};

/// Two records, one with a null key.
pub(crate) const UNKEYED: Batch<'static> = Batch {
    input: 1,
    distinct: NullableRef {
        present: &[0, 1],
        offsets: &[0, 0, 1],
        data: b"b",
    },
    index: &[],
    values: NullableRef {
        present: &[],
        offsets: &[0, 1, 3],
        data: b"xyz",
    },
    times: &[10, 11],
    headers: None,
};

/// [`KEYED`] with headers: two of one name and a nameless one at the first record, none at the second, one at the third.
pub(crate) const HEADED: Batch<'static> = Batch {
    headers: Some(HeadersRef {
        ends: &[3, 3, 4],
        names: ColumnRef {
            offsets: &[0, 1, 2, 2, 3],
            data: b"nnm",
        },
        contents: NullableRef {
            present: &[1, 0, 1, 1],
            offsets: &[0, 2, 2, 2, 5],
            data: b"12345",
        },
    }),
    ..KEYED
};

/// Two timers of the keys `a` and `b`, one with a namespace.
pub(crate) const FIRING: Firing<'static> = Firing {
    keys: ColumnRef {
        offsets: &[0, 1, 2],
        data: b"ab",
    },
    timers: &[0, 0],
    namespaces: ColumnRef {
        offsets: &[0, 1, 1],
        data: b"w",
    },
    times: &[900, 1_000],
};

/// Makes the call that `config` names in an opened instance.
pub(crate) fn call(instance: &mut Instance<Recorder>, config: &str) -> Result<(), CallError> {
    match config.split_once(' ').unwrap().0 {
        "process" => instance.process(KEYED, NOW),
        "on-timers" => instance.on_timers(FIRING, NOW),
        "on-watermark" => instance.on_watermark(NOW),
        "finish" => instance.finish(NOW),
        other => panic!("there is no call `{other}`"),
    }
}
