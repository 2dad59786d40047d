//! An operator on the raw contract that imports WASI, of several releases, and in each call tries
//! what its configuration says; what it finds out it logs. The host's tests see by it that WASI is
//! there, that it grants nothing, and that it cannot be used to harm the host.
//!
//! The configuration is one of the actions in `act`, as a JSON string.

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        unsafe_op_in_unsafe_fn,
        clippy::undocumented_unsafe_blocks,
        reason = "generated code"
    )]
    wit_bindgen::generate!({ path: ["../../../wit/operator.wit", "wit"], world: "weir:guest-wasi/guest", generate_all });
    use super::Wasi;
    export!(Wasi);
}

use std::cell::RefCell;

use bindings::exports::weir::operator::lifecycle::Guest;
use bindings::wasi::cli::{environment, exit, stderr, stdin, stdout, terminal_stdout};
use bindings::wasi::clocks::{monotonic_clock, wall_clock};
use bindings::wasi::filesystem::preopens;
use bindings::wasi::io::poll::{self, Pollable};
use bindings::wasi::io::streams::{OutputStream, StreamError};
use bindings::wasi::random::{insecure, insecure_seed, random};
use bindings::wasi::sockets::{instance_network, ip_name_lookup, network, tcp_create_socket};
use bindings::weir::operator::diagnostics::{Level, log};
use bindings::weir::operator::types::{
    Batch, Column, Description, Fault, Firing, InputDecl, InputKind, Now, Nullable,
};

struct Wasi;

thread_local! {
    static ACTION: RefCell<String> = const { RefCell::new(String::new()) };
    /// Handles that are kept from call to call.
    static HELD: RefCell<Vec<Pollable>> = const { RefCell::new(Vec::new()) };
}

impl Guest for Wasi {
    fn describe(config: Option<String>) -> Result<Description, String> {
        if let Some(config) = config {
            act(&config);
        }
        Ok(Description {
            name: "wasi".to_owned(),
            version: String::new(),
            inputs: vec![InputDecl {
                name: "in".to_owned(),
                kind: InputKind::Unkeyed,
                headers: false,
                options: vec![],
            }],
            outputs: vec![],
            states: vec![],
            timers: vec![],
            on_watermark: false,
            options: vec![],
        })
    }

    fn open(config: String) -> Result<(), String> {
        if config == "clocks" {
            act(&config);
        }
        ACTION.set(config);
        Ok(())
    }

    fn process(_: Batch, _: Now) -> Result<(), Fault> {
        let action = ACTION.with_borrow(String::clone);
        match action.strip_prefix("fault-after ") {
            None => act(&action),
            Some(action) => {
                act(action);
                return Err(Fault {
                    row: None,
                    message: "as asked".to_owned(),
                });
            }
        }
        Ok(())
    }

    fn on_timers(_: Firing, _: Now) -> Result<(), Fault> {
        Ok(())
    }

    fn on_watermark(_: Now) -> Result<(), Fault> {
        Ok(())
    }

    fn finish(_: Now) -> Result<(), Fault> {
        Ok(())
    }

    fn migrate(_: String, _: u32, _: Option<Column>, _: Column) -> Result<Nullable, Fault> {
        Err(Fault {
            row: None,
            message: "there is no older version".to_owned(),
        })
    }
}

fn say(what: impl AsRef<str>) {
    log(Level::Info, what.as_ref());
}

fn act(action: &str) {
    let second = 1_000_000_000;
    match action {
        "clocks" => {
            let wall = wall_clock::now();
            say(format!(
                "monotonic {} {} of {}, wall {} s {} ns",
                monotonic_clock::now(),
                monotonic_clock::now(),
                monotonic_clock::resolution(),
                wall.seconds,
                wall.nanoseconds
            ));
        }
        "random" => say(format!(
            "{:?} {} {:?} {} {:?}",
            random::get_random_bytes(40),
            random::get_random_u64(),
            insecure::get_insecure_random_bytes(3),
            insecure::get_insecure_random_u64(),
            insecure_seed::insecure_seed(),
        )),
        "endless-random" => {
            random::get_random_bytes(u64::MAX);
        }
        "environment" => say(format!(
            "{:?} {:?} {:?} {:?} {:?}",
            environment::get_environment(),
            environment::get_arguments(),
            environment::initial_cwd(),
            terminal_stdout::get_terminal_stdout().is_some(),
            preopens::get_directories().len(),
        )),
        "network" => {
            let network = instance_network::instance_network();
            let socket = tcp_create_socket::create_tcp_socket(network::IpAddressFamily::Ipv4);
            let address = ip_name_lookup::resolve_addresses(&network, "example.com");
            let denied =
                |error: Option<network::ErrorCode>| error == Some(network::ErrorCode::AccessDenied);
            say(format!(
                "denied {} {}",
                denied(socket.err()),
                denied(address.err())
            ));
        }
        "stdin" => {
            let stdin = stdin::get_stdin();
            let ready = stdin.subscribe();
            ready.block();
            let read = |result: Result<Vec<u8>, StreamError>| match result {
                Ok(bytes) => format!("{} bytes", bytes.len()),
                Err(StreamError::Closed) => "closed".to_owned(),
                Err(StreamError::LastOperationFailed(error)) => error.to_debug_string(),
            };
            say(format!(
                "{} {} {:?}",
                read(stdin.read(10)),
                read(stdin.blocking_read(u64::MAX)),
                stdin.skip(1).is_err()
            ));
        }
        "write" => {
            let (out, err) = (stdout::get_stdout(), stderr::get_stderr());
            print(&out, "one line\nand ");
            print(&err, "a warning\n");
            print(&out, "a half");
            assert!(out.check_write().is_ok_and(|bytes| bytes > 0));
            assert!(out.blocking_flush().is_ok());
            assert!(
                out.splice(&stdin::get_stdin(), 7)
                    .is_err_and(|error| matches!(error, StreamError::Closed))
            );
            assert!(out.subscribe().ready());
        }
        "write-much" => {
            let err = stderr::get_stderr();
            for line in 0..20_000 {
                print(&err, &format!("line {line}\n"));
            }
            panic!("enough");
        }
        "zeroes" => {
            let out = stdout::get_stdout();
            assert!(out.write_zeroes(3).is_ok());
            let _ = out.write_zeroes(u64::MAX);
        }
        "sleep" => {
            let before = monotonic_clock::now();
            let (late, soon) = (
                monotonic_clock::subscribe_duration(3_600 * second),
                monotonic_clock::subscribe_duration(60 * second),
            );
            let first = poll::poll(&[&late, &soon]);
            let between = monotonic_clock::now();
            late.block();
            say(format!(
                "{first:?}, {} s, then {} s, ready {} {}",
                (between - before) / second,
                (monotonic_clock::now() - before) / second,
                late.ready(),
                monotonic_clock::subscribe_instant(u64::MAX).ready(),
            ));
        }
        "spin" => {
            let later = monotonic_clock::subscribe_duration(second / 100);
            let mut asked = 0;
            while !later.ready() {
                asked += 1;
            }
            say(format!("asked {asked} times"));
        }
        "poll-nothing" => {
            poll::poll(&[]);
        }
        "poll-for-ever" => loop {
            monotonic_clock::subscribe_duration(1).block();
        },
        "drop-many" => {
            for _ in 0..100_000 {
                drop(monotonic_clock::subscribe_duration(1));
                drop(stdout::get_stdout());
                drop(instance_network::instance_network());
            }
            say("dropped them all");
        }
        "hold-many" => HELD.with_borrow_mut(|held| {
            for _ in 0..1_000_000 {
                held.push(monotonic_clock::subscribe_duration(1));
            }
        }),
        "hold-streams" => {
            let _held: Vec<_> = (0..1_000_000).map(|_| stderr::get_stderr()).collect();
        }
        "hold-a-few" => HELD.with_borrow_mut(|held| {
            held.push(monotonic_clock::subscribe_duration(1));
            say(format!("{} held", held.len()));
        }),
        "exit-well" => exit::exit(Ok(())),
        "exit-badly" => {
            print(&stderr::get_stderr(), "Traceback:\nValueError: odd\n");
            exit::exit(Err(()));
        }
        "later" => {
            let _ = exit::added_later("text");
        }
        other => panic!("there is no action `{other}`"),
    }
}

fn print(to: &OutputStream, text: &str) {
    to.blocking_write_and_flush(text.as_bytes())
        .expect("the streams never fail");
}
