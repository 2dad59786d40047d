//! Ports on the loopback interface.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::random::Random;

/// A socket that listens on a port nobody uses. The port is below those that the system gives to outgoing connections, so that it
/// is likely to be still free when the socket is closed and somebody else binds to it, now or when a broker is restarted.
pub(super) fn listen() -> TcpListener {
    let seed = std::collections::hash_map::RandomState::new();
    let seed = std::hash::BuildHasher::hash_one(&seed, std::process::id());
    let mut random = Random::new(seed);
    for _ in 0..1_000 {
        let port = 12_000 + random.below(20_000) as u16;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener;
        }
    }
    panic!("no port from 12000 to 32000 is free on 127.0.0.1");
}

/// The address of a socket.
pub(super) fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("it is bound")
}
