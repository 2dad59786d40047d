//! Ports on the loopback interface.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::random::Random;

/// A socket that listens on a port nobody uses. The port is below those that the system gives to outgoing connections, so that it
/// is likely to be still free when the socket is closed and somebody else binds to it, now or when a broker is restarted.
pub(super) fn listen() -> TcpListener {
    let mut random = Random::unrepeatable();
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
