//! WASI 0.2 for operators whose toolchain imports it: Python, JavaScript, Go and the like do, even
//! for code that needs nothing of it.
//!
//! Nothing is granted here, and nothing blocks: there are no files, no network, no environment and no
//! input, and what is left is deterministic, so that a job which goes back to a checkpoint repeats
//! what it did:
//!
//! * The monotonic clock is the instance's own. It starts at 1 ns (at 0 some runtimes take it for
//!   broken) and advances 1 µs with each reading, and by as much as the guest wants to sleep when it
//!   does. So a sleep takes no time, and timers come due in their order.
//! * The wall clock is the call's processing time, and 0 in `describe` and `open`.
//! * Randomness is a stream that follows from the operator's id. An instance that is replaced starts
//!   it anew, and all subtasks have the same one: good for hash tables, not for unique names.
//! * Standard output and error are kept, up to a size, until the call is over, and then logged;
//!   standard error of a call that traps becomes part of why it failed.
//! * `exit` is a trap.
//!
//! The functions are defined by hand rather than generated, one by one as a component imports them:
//! most of WASI is methods of files and sockets, of which there never is one. Within 0.2 versions
//! only add, so one definition serves them all; what a later version has added traps by its name.
//!
//! Other interfaces of WASI, and other versions, have no stubs: a component that imports those is
//! refused when it is loaded.

mod functions;
mod random;
mod time;
mod written;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};

use crate::environment::Environment;
use crate::host::Host;

use random::Random;
use time::Time;
use written::Written;

/// The interfaces of WASI 0.2 that have stubs. Not among them: `wasi:http`, without which no
/// toolchain fails, and whatever is outside of WASI's command world.
const INTERFACES: [&str; 27] = [
    "cli/environment",
    "cli/exit",
    "cli/stdin",
    "cli/stdout",
    "cli/stderr",
    "cli/terminal-input",
    "cli/terminal-output",
    "cli/terminal-stdin",
    "cli/terminal-stdout",
    "cli/terminal-stderr",
    "clocks/monotonic-clock",
    "clocks/wall-clock",
    "filesystem/preopens",
    "filesystem/types",
    "io/error",
    "io/poll",
    "io/streams",
    "random/insecure",
    "random/insecure-seed",
    "random/random",
    "sockets/instance-network",
    "sockets/ip-name-lookup",
    "sockets/network",
    "sockets/tcp",
    "sockets/tcp-create-socket",
    "sockets/udp",
    "sockets/udp-create-socket",
];

/// Handles of resources that a guest may hold at a time: those of WASI, and any that it makes up
/// itself. Each takes a few dozen bytes of the host's memory. Languages hold a handful.
pub(crate) const HANDLES: usize = 1 << 14;

/// Whether an operator's import is an interface of WASI that this host answers with stubs: they
/// grant nothing, and are deterministic. `import` is a name as in
/// [`Interface::imports`](crate::Interface::imports), such as `wasi:io/poll@0.2.6`.
pub fn is_wasi_stub(import: &str) -> bool {
    interface(import).is_some()
}

/// The stubbed interface that an import names, without `wasi:` and the version.
fn interface(import: &str) -> Option<&'static str> {
    let (name, version) = import.strip_prefix("wasi:")?.split_once('@')?;
    let patch = version.strip_prefix("0.2.")?;
    if patch.is_empty() || !patch.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    INTERFACES.into_iter().find(|known| *known == name)
}

/// Defines what a component imports of the stubbed interfaces.
pub(crate) fn add_to_linker<E: Environment>(
    linker: &mut Linker<Host<E>>,
    component: &Component,
) -> wasmtime::Result<()> {
    let engine = component.engine();
    for (import, item) in component.component_type().imports(engine) {
        let (Some(interface), ComponentItem::ComponentInstance(imported)) =
            (interface(import), item.ty)
        else {
            continue;
        };
        let mut instance = linker.instance(import)?;
        for (name, item) in imported.exports(engine) {
            match item.ty {
                ComponentItem::ComponentFunc(_) => {
                    functions::define(&mut instance, interface, name)?;
                }
                ComponentItem::Resource(_) => functions::define_resource(&mut instance, name)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// All that one instance sees of the world by way of WASI.
pub(crate) struct Wasi {
    pub(crate) time: Time,
    pub(crate) random: Random,
    pub(crate) stdout: Written,
    pub(crate) stderr: Written,
}

impl Wasi {
    /// For an instance of the operator with this id.
    pub(crate) fn new(operator: &str) -> Self {
        Wasi {
            time: Time::new(),
            random: Random::new(operator),
            stdout: Written::default(),
            stderr: Written::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_wasi_stub;

    #[test]
    fn stubs_are_there_for_every_release_of_the_track_and_no_other() {
        for import in [
            "wasi:io/poll@0.2.0",
            "wasi:io/poll@0.2.6",
            "wasi:cli/environment@0.2.12",
            "wasi:sockets/udp@0.2.3",
        ] {
            assert!(is_wasi_stub(import), "{import}");
        }
        for import in [
            "wasi:io/poll",
            "wasi:io/poll@0.2",
            "wasi:io/poll@0.2.",
            "wasi:io/poll@0.3.0",
            "wasi:io/poll@0.2.0-rc-2023-11-10",
            "wasi:cli/run@0.2.0",
            "wasi:http/types@0.2.0",
            "wasi:keyvalue/store@0.2.0",
            "my:io/poll@0.2.0",
            "poll",
            "",
        ] {
            assert!(!is_wasi_stub(import), "{import}");
        }
    }
}
