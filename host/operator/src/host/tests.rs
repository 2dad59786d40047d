use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;

use super::{Host, Kind, Refusal, arm};
use crate::call_error::CallError;
use crate::contract::wit::types as wit;
use crate::description::Description;
use crate::detached::Detached;
use crate::engine::Engine;
use crate::environment::HostError;
use crate::limits::Limits;

/// A store in which a call of this kind has begun.
fn calling(engine: &Engine, kind: Kind, limits: Limits) -> Store<Host<Detached>> {
    let description = Description {
        name: "bare".to_owned(),
        version: String::new(),
        inputs: vec![],
        outputs: vec![],
        states: vec![],
        timers: vec![],
        on_watermark: false,
        options: vec![],
    };
    let host = Host::new(
        Detached,
        "bare".to_owned(),
        Arc::new(description),
        limits,
        engine.clock().clone(),
    );
    let mut store = Store::new(engine.wasmtime(), host);
    store.data_mut().start(kind, 0);
    arm(&mut store);
    store
}

#[test]
fn imports_check_the_deadline_themselves() {
    let engine = Engine::new().unwrap();
    let limits = Limits {
        call_time: Duration::from_millis(20),
        ..Limits::default()
    };
    let mut store = calling(&engine, Kind::Keyed, limits);
    let host = store.data_mut();
    (0..2).for_each(|_| engine.tick());
    assert_eq!(host.import("state.get", |_| Ok(7)).unwrap(), 7);
    engine.tick();
    let error = host.import("state.get", |_| Ok(7)).unwrap_err();
    let why = host.why(&error);
    assert!(
        matches!(why, CallError::Deadline { limit } if limit.as_millis() == 20),
        "{why:?}"
    );
}

#[test]
fn a_refusal_is_why_the_call_failed() {
    let engine = Engine::new().unwrap();
    let mut store = calling(&engine, Kind::Keyed, Limits::default());
    let host = store.data_mut();
    let mut why = |refusal| {
        let error = host
            .import("state.get", |_| Err::<(), _>(refusal))
            .unwrap_err();
        host.why(&error)
    };
    assert!(
        matches!(why(Refusal::Contract("no".to_owned())), CallError::Contract(how)
            if how == "state.get: no")
    );
    assert!(matches!(why(Refusal::Output), CallError::Output { .. }));
    assert!(matches!(
        why(HostError::over_budget().into()),
        CallError::Output { .. }
    ));
    assert!(
        matches!(why(HostError::new("gone").into()), CallError::Host(error)
            if error.to_string() == "gone")
    );
}

#[test]
fn nothing_carries_over_into_the_next_call() {
    let engine = Engine::new().unwrap();
    let limits = Limits {
        output_bytes: 1_000,
        ..Limits::default()
    };
    let mut store = calling(&engine, Kind::Keyed, limits);
    let host = store.data_mut();
    for _ in 0..2 {
        host.start(Kind::Keyed, 0);
        host.call.rows = 1;
        assert!(host.charge_output(1, 900).is_ok());
        assert!(host.charge_output(10, 0).is_err());
        assert!(host.charge_write(10, 800).is_ok());
        assert!(host.charge_write(0, 100).is_err());
    }
    host.start(Kind::Timers, 0);
    host.call.rows = 1;
    host.last_words(wit::Fault {
        row: Some(0),
        message: "before".to_owned(),
    });
    let odd = || {
        vec![wit::Fault {
            row: Some(0),
            message: "odd".to_owned(),
        }]
    };
    assert!(host.rejected(odd()).is_ok());
    assert!(host.rejected(odd()).is_err());
    host.start(Kind::Timers, 0);
    host.call.rows = 1;
    assert!(host.rejected(odd()).is_ok());
    let why = host.why(&wasmtime::Trap::UnreachableCodeReached.into());
    assert!(
        matches!(
            why,
            CallError::Trap {
                last_words: None,
                ..
            }
        ),
        "{why:?}"
    );
}
