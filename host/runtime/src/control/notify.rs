//! Tells a service manager how the job is: the protocol of `sd_notify`, a datagram of lines to `$NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The line to a service manager, if one listens.
#[derive(Debug)]
pub(super) struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear from us.
    pub(super) watchdog: Option<Duration>,
}

/// A path, or a name in the abstract namespace after `@`.
fn address(socket: &OsStr) -> Option<SocketAddr> {
    match socket.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(socket).ok(),
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        _ => None,
    }
}

/// `$WATCHDOG_USEC`, unless `$WATCHDOG_PID` names another process.
fn watchdog(micros: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    let micros: u64 = micros?.parse().ok().filter(|micros| *micros > 0)?;
    let ours = pid.is_none_or(|pid| pid.parse() == Ok(own));
    ours.then(|| Duration::from_micros(micros))
}

impl Notify {
    /// As the environment says. An address that is none is as good as no service manager.
    pub(super) fn from_environment() -> Notify {
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|socket| {
            let address = address(&socket)?;
            let datagrams = UnixDatagram::unbound().ok()?;
            // A service manager that does not listen must not hold anything up.
            datagrams.set_nonblocking(true).ok()?;
            Some((datagrams, address))
        });
        let text = |name| std::env::var(name).ok();
        let (micros, pid) = (text("WATCHDOG_USEC"), text("WATCHDOG_PID"));
        Notify {
            watchdog: watchdog(micros.as_deref(), pid.as_deref(), std::process::id())
                .filter(|_| to.is_some()),
            to,
        }
    }

    /// Says `lines`, if somebody listens.
    pub(super) fn say(&self, lines: &str) {
        if let Some((datagrams, address)) = &self.to {
            // Nobody listens any more.
            let _ = datagrams.send_to_addr(lines.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_abstract_names() {
        let of = |text: &str| address(OsStr::new(text));
        assert!(of("/run/notify").is_some_and(|address| address.as_pathname().is_some()));
        let name = of("@weir").expect("an address");
        assert_eq!(name.as_abstract_name(), Some(&b"weir"[..]));
        assert!(of("").is_none() && of("relative").is_none() && of("vsock:2:1").is_none());
        assert!(of(&format!("/{}", "x".repeat(200))).is_none(), "too long");
    }

    #[test]
    fn the_watchdog_is_ours_or_not() {
        assert_eq!(
            watchdog(Some("2000000"), None, 7),
            Some(Duration::from_secs(2))
        );
        assert_eq!(
            watchdog(Some("1"), Some("7"), 7),
            Some(Duration::from_micros(1))
        );
        assert_eq!(watchdog(Some("1"), Some("8"), 7), None);
        for none in ["0", "", "soon", "-1"] {
            assert_eq!(watchdog(Some(none), None, 7), None);
        }
        assert_eq!(watchdog(None, None, 7), None);
    }
}
