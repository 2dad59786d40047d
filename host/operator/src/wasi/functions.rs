//! The functions and resources of WASI, each as it is when nothing is granted.

use wasmtime::StoreContextMut;
use wasmtime::component::{
    ComponentNamedList, ComponentType, Lift, LinkerInstance, Lower, Resource, ResourceType, Val,
};

use super::Wasi;
use super::time::STEP;
use crate::environment::Environment;
use crate::host::{Host, Refusal};

/// Bytes that may be written at once, as a guest is told; it may write more.
const WRITE_BYTES: u64 = 64 << 10;

/// Represented by its number in [`Time`](super::Time).
struct Pollable;

/// Standard input; there is no other.
struct InputStream;

/// Represented by [`STDOUT`] or [`STDERR`].
struct OutputStream;

/// The network that there is not.
struct Network;

/// Why a stream failed; none ever does.
struct IoError;

const STDOUT: u32 = 1;
const STDERR: u32 = 2;

/// What a stream's functions fail with.
#[derive(ComponentType, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    #[expect(dead_code, reason = "part of the type")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// A moment of the wall clock.
#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

/// Defines a resource that an interface declares, or uses from another one: names are unique across
/// WASI.
pub(super) fn define_resource<E: Environment>(
    instance: &mut LinkerInstance<'_, Host<E>>,
    name: &str,
) -> wasmtime::Result<()> {
    // Those of which there never is one, so that it only matters that they are told apart.
    const NONE: [&str; 9] = [
        "descriptor",
        "directory-entry-stream",
        "incoming-datagram-stream",
        "outgoing-datagram-stream",
        "resolve-address-stream",
        "tcp-socket",
        "terminal-input",
        "terminal-output",
        "udp-socket",
    ];
    let ty = match name {
        "pollable" => {
            return instance.resource(name, ResourceType::host::<Pollable>(), |mut store, rep| {
                store.data_mut().wasi.time.drop(rep);
                Ok(())
            });
        }
        "input-stream" => ResourceType::host::<InputStream>(),
        "output-stream" => ResourceType::host::<OutputStream>(),
        "network" => ResourceType::host::<Network>(),
        "error" => ResourceType::host::<IoError>(),
        _ => match NONE.iter().position(|none| *none == name) {
            Some(position) => ResourceType::host_dynamic(position as u32),
            // Not WASI's, so left to fail when the component is linked.
            None => return Ok(()),
        },
    };
    instance.resource(name, ty, |_, _| Ok(()))
}

/// Defines a function of a stubbed interface.
pub(super) fn define<E: Environment>(
    instance: &mut LinkerInstance<'_, Host<E>>,
    interface: &'static str,
    name: &str,
) -> wasmtime::Result<()> {
    let mut function = Function {
        whole: format!("wasi:{interface}.{name}"),
        instance,
        name,
    };
    match (interface, name) {
        ("cli/environment", "get-environment") => {
            function.is(|_, (): ()| Ok((Vec::<(String, String)>::new(),)))
        }
        ("cli/environment", "get-arguments") => {
            function.is(|_, (): ()| Ok((Vec::<String>::new(),)))
        }
        ("cli/environment", "initial-cwd") => function.is(|_, (): ()| Ok((None::<String>,))),

        ("cli/exit", "exit") => function.is(|_, (status,): (Result<(), ()>,)| -> Answer<()> {
            let status = if status.is_ok() { "success" } else { "failure" };
            Err(Refusal::Trap(format!("it called `exit` with {status}")))
        }),
        ("cli/exit", "exit-with-code") => function.is(|_, (code,): (u8,)| -> Answer<()> {
            Err(Refusal::Trap(format!("it called `exit` with code {code}")))
        }),

        ("cli/stdin", "get-stdin") => {
            function.is(|_, (): ()| Ok((Resource::<InputStream>::new_own(0),)))
        }
        ("cli/stdout", "get-stdout") => {
            function.is(|_, (): ()| Ok((Resource::<OutputStream>::new_own(STDOUT),)))
        }
        ("cli/stderr", "get-stderr") => {
            function.is(|_, (): ()| Ok((Resource::<OutputStream>::new_own(STDERR),)))
        }
        (
            "cli/terminal-stdin" | "cli/terminal-stdout" | "cli/terminal-stderr",
            "get-terminal-stdin" | "get-terminal-stdout" | "get-terminal-stderr",
        ) => function.answers(Val::Option(None)),

        ("clocks/monotonic-clock", "now") => function.is(|wasi, (): ()| Ok((wasi.time.read(),))),
        ("clocks/monotonic-clock", "resolution") => function.is(|_, (): ()| Ok((STEP,))),
        ("clocks/monotonic-clock", "subscribe-instant") => function
            .is(|wasi, (due,): (u64,)| Ok((Resource::<Pollable>::new_own(wasi.time.at(due)),))),
        ("clocks/monotonic-clock", "subscribe-duration") => {
            function.is(|wasi, (nanoseconds,): (u64,)| {
                Ok((Resource::<Pollable>::new_own(wasi.time.after(nanoseconds)),))
            })
        }
        ("clocks/wall-clock", "now") => function.is(|wasi, (): ()| Ok((datetime(wasi.time.wall),))),
        ("clocks/wall-clock", "resolution") => function.is(|_, (): ()| Ok((datetime(1),))),

        ("filesystem/preopens", "get-directories") => function.answers(Val::List(Vec::new())),

        ("io/poll", "[method]pollable.ready") => function
            .is(|wasi, (this,): (Resource<Pollable>,)| Ok((wasi.time.is_ready(this.rep()),))),
        ("io/poll", "[method]pollable.block") => {
            function.is(|wasi, (this,): (Resource<Pollable>,)| {
                wasi.time.wait(&[this.rep()]);
                Ok(())
            })
        }
        ("io/poll", "poll") => function.is(|wasi, (pollables,): (Vec<Resource<Pollable>>,)| {
            if pollables.is_empty() {
                return Err(Refusal::Contract("there is nothing to wait for".to_owned()));
            }
            let numbers: Vec<_> = pollables.iter().map(Resource::rep).collect();
            Ok((wasi.time.wait(&numbers),))
        }),

        ("io/streams", "[method]input-stream.read" | "[method]input-stream.blocking-read") => {
            function.is(|_, _: (Resource<InputStream>, u64)| {
                Ok((Err::<Vec<u8>, _>(StreamError::Closed),))
            })
        }
        ("io/streams", "[method]input-stream.skip" | "[method]input-stream.blocking-skip") => {
            function
                .is(|_, _: (Resource<InputStream>, u64)| Ok((Err::<u64, _>(StreamError::Closed),)))
        }
        ("io/streams", "[method]input-stream.subscribe") => {
            function.is(|wasi, _: (Resource<InputStream>,)| {
                Ok((Resource::<Pollable>::new_own(wasi.time.at(0)),))
            })
        }
        ("io/streams", "[method]output-stream.check-write") => {
            function.is(|_, _: (Resource<OutputStream>,)| Ok((Ok::<_, StreamError>(WRITE_BYTES),)))
        }
        (
            "io/streams",
            "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush",
        ) => function.is(|wasi, (this, bytes): (Resource<OutputStream>, Vec<u8>)| {
            wasi.write(&this, &bytes);
            Ok((Ok::<_, StreamError>(()),))
        }),
        (
            "io/streams",
            "[method]output-stream.write-zeroes"
            | "[method]output-stream.blocking-write-zeroes-and-flush",
        ) => function.is(|wasi, (this, count): (Resource<OutputStream>, u64)| {
            if count > WRITE_BYTES {
                return Err(Refusal::Contract(format!(
                    "{count} zeroes at once; {WRITE_BYTES} are allowed"
                )));
            }
            wasi.write(&this, &vec![0; count as usize]);
            Ok((Ok::<_, StreamError>(()),))
        }),
        ("io/streams", "[method]output-stream.flush" | "[method]output-stream.blocking-flush") => {
            function.is(|_, _: (Resource<OutputStream>,)| Ok((Ok::<_, StreamError>(()),)))
        }
        ("io/streams", "[method]output-stream.subscribe") => {
            function.is(|wasi, _: (Resource<OutputStream>,)| {
                Ok((Resource::<Pollable>::new_own(wasi.time.at(0)),))
            })
        }
        (
            "io/streams",
            "[method]output-stream.splice" | "[method]output-stream.blocking-splice",
        ) => function.is(
            |_, _: (Resource<OutputStream>, Resource<InputStream>, u64)| {
                Ok((Err::<u64, _>(StreamError::Closed),))
            },
        ),

        ("random/random", "get-random-bytes")
        | ("random/insecure", "get-insecure-random-bytes") => function.random_bytes(),
        ("random/random", "get-random-u64") | ("random/insecure", "get-insecure-random-u64") => {
            function.is(|wasi, (): ()| Ok((wasi.random.number(),)))
        }
        ("random/insecure-seed", "insecure-seed") => {
            function.is(|wasi, (): ()| Ok((wasi.random.seed(),)))
        }

        ("sockets/instance-network", "instance-network") => {
            function.is(|_, (): ()| Ok((Resource::<Network>::new_own(0),)))
        }
        ("sockets/tcp-create-socket", "create-tcp-socket")
        | ("sockets/udp-create-socket", "create-udp-socket")
        | ("sockets/ip-name-lookup", "resolve-addresses") => {
            let denied = Val::Enum("access-denied".to_owned());
            function.answers(Val::Result(Err(Some(Box::new(denied)))))
        }

        // Methods of resources that nobody can have, or added by a later version of WASI.
        _ => function.traps(),
    }
}

/// What a stub returns: a tuple of one result or none.
type Answer<R> = Result<R, Refusal>;

/// A function that is being defined.
struct Function<'a, 'b, E: 'static> {
    instance: &'a mut LinkerInstance<'b, Host<E>>,
    name: &'a str,
    /// With the interface, as messages call it.
    whole: String,
}

impl<E: Environment> Function<'_, '_, E> {
    /// Runs `body`, unless the call under way is past its deadline.
    fn is<P, R>(
        &mut self,
        body: impl Fn(&mut Wasi, P) -> Answer<R> + Send + Sync + 'static,
    ) -> wasmtime::Result<()>
    where
        P: ComponentNamedList + Lift + 'static,
        R: ComponentNamedList + Lower + 'static,
    {
        let whole = std::mem::take(&mut self.whole);
        self.instance.func_wrap(
            self.name,
            move |mut store: StoreContextMut<'_, Host<E>>, arguments: P| {
                store
                    .data_mut()
                    .import(&whole, |host| body(&mut host.wasi, arguments))
            },
        )
    }

    fn random_bytes(&mut self) -> wasmtime::Result<()> {
        let whole = std::mem::take(&mut self.whole);
        self.instance.func_wrap(
            self.name,
            move |mut store: StoreContextMut<'_, Host<E>>, (count,): (u64,)| {
                store
                    .data_mut()
                    .import(&whole, |host| match usize::try_from(count) {
                        Ok(count) if count <= host.limits.output_bytes => {
                            Ok((host.wasi.random.bytes(count),))
                        }
                        _ => Err(Refusal::Output),
                    })
            },
        )
    }

    /// Always gives one answer, of whatever type the function returns.
    fn answers(&mut self, answer: Val) -> wasmtime::Result<()> {
        let whole = std::mem::take(&mut self.whole);
        self.instance
            .func_new(self.name, move |mut store, _, arguments, results| {
                store.data_mut().import(&whole, |_| Ok(()))?;
                for argument in arguments {
                    if let Val::Resource(lent) = argument {
                        lent.resource_drop(&mut store)?;
                    }
                }
                match results {
                    [result] => {
                        *result = answer.clone();
                        Ok(())
                    }
                    _ => Err(wasmtime::Error::msg(format!("{whole} has one result"))),
                }
            })
    }

    fn traps(&mut self) -> wasmtime::Result<()> {
        let whole = std::mem::take(&mut self.whole);
        self.instance
            .func_new(self.name, move |mut store, _, _, _| {
                store.data_mut().import(&whole, |_| {
                    Err(Refusal::Contract(
                        "this host has no such function".to_owned(),
                    ))
                })
            })
    }
}

impl Wasi {
    fn write(&mut self, to: &Resource<OutputStream>, bytes: &[u8]) {
        match to.rep() {
            STDOUT => self.stdout.write(bytes),
            _ => self.stderr.write(bytes),
        }
    }
}

/// The wall clock has no time before 1970.
fn datetime(millis: i64) -> Datetime {
    let millis = u64::try_from(millis).unwrap_or(0);
    Datetime {
        seconds: millis / 1_000,
        nanoseconds: (millis % 1_000) as u32 * 1_000_000,
    }
}
