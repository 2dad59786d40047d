//! A proxy between clients and a broker that understands enough of what passes to lose the right thing at the right time.
//!
//! A client that comes by [`Proxy::address`] stays with it: the broker tells it that it listens there. Each connection has one to the
//! broker, and a thread for each direction, so that whatever waits holds up what is behind it, as on a real network.

mod frames;
mod rules;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;

pub use frames::Api;
use frames::Request;
use rules::{Action, Applied, Rules};
pub use rules::{Rule, When};

use super::Broker;
use super::broker::Proxied;

/// How long the broker gets to answer what a client had asked before it closed its connection.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// How long a test waits for others to be done with theirs.
const OTHERS: Duration = Duration::from_secs(600);

/// See the module. It ends when it is dropped, with all its connections.
#[derive(Debug)]
pub struct Proxy<'a> {
    broker: &'a Broker,
    address: SocketAddr,
    target: SocketAddr,
    state: Arc<State>,
    acceptor: Option<JoinHandle<TcpListener>>,
}

#[derive(Debug, Default)]
struct State {
    rules: Rules,
    ending: AtomicBool,
    refusing: AtomicBool,
    requests: Mutex<BTreeMap<Api, u64>>,
    connections: Mutex<Vec<Connected>>,
}

#[derive(Debug)]
struct Connected {
    connection: Arc<Connection>,
    threads: [JoinHandle<()>; 2],
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    broker: TcpStream,
    /// Whether something was asked that only coordinators of transactions are asked.
    of_coordinator: AtomicBool,
    /// Requests without an answer yet, and what is to be done to that.
    unanswered: Mutex<BTreeMap<i32, Option<Applied>>>,
    answered: Condvar,
}

impl<'a> Proxy<'a> {
    /// A proxy before `broker`. There are three at a time before one broker; who comes late waits.
    ///
    /// # Panics
    /// It is an existing broker: ask [`Broker::is_foreign`] before.
    pub fn before(broker: &'a Broker) -> Proxy<'a> {
        let until = Instant::now() + OTHERS;
        let Proxied {
            listener,
            broker: target,
        } = loop {
            if let Some(proxied) = broker.take_proxied() {
                break proxied;
            }
            assert!(
                Instant::now() < until,
                "no proxied listener becomes free, or there is none"
            );
            thread::sleep(Duration::from_millis(20));
        };
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State::default());
        let for_acceptor = Arc::clone(&state);
        let acceptor = thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || accept(listener, target, &for_acceptor))
            .expect("a thread can be started");
        Proxy {
            broker,
            address,
            target,
            state,
            acceptor: Some(acceptor),
        }
    }

    /// Where clients come in, as `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Settings of a client of the tests' own that comes this way.
    pub fn client(&self) -> ClientConfig {
        let mut config = self.broker.client();
        config.set("bootstrap.servers", self.address());
        config
    }

    /// Begins a rule about requests of this kind.
    pub fn when(&self, api: Api) -> When<'_> {
        self.state.rules.when(&[api])
    }

    /// Begins a rule about requests of these kinds.
    pub fn when_any(&self, apis: &[Api]) -> When<'_> {
        self.state.rules.when(apis)
    }

    /// How many requests of this kind clients have sent.
    pub fn requests(&self, api: Api) -> u64 {
        self.state.counts().get(&api).copied().unwrap_or(0)
    }

    /// Ends all clients' connections. What they had sent still arrives, also what a rule holds.
    pub fn cut(&self) {
        self.state.cut(|_| true);
    }

    /// Ends those connections on which a coordinator of transactions was asked something.
    pub fn cut_coordinators(&self) {
        self.state
            .cut(|connection| connection.of_coordinator.load(Ordering::Relaxed));
    }

    /// Whether new connections are ended at once. Those that are there stay.
    pub fn refuse(&self, refuse: bool) {
        self.state.refusing.store(refuse, Ordering::Relaxed);
    }
}

impl Drop for Proxy<'_> {
    fn drop(&mut self) {
        self.state.ending.store(true, Ordering::Relaxed);
        // It may be waiting for a connection.
        let _ = TcpStream::connect(self.address);
        let listener = self.acceptor.take().and_then(|thread| thread.join().ok());
        self.state.rules.end();
        let connections = std::mem::take(&mut *self.state.connections());
        for connected in connections {
            connected.connection.end();
            for thread in connected.threads {
                // A thread that panicked has said why.
                let _ = thread.join();
            }
        }
        if let Some(listener) = listener {
            self.broker.give_back(Proxied {
                listener,
                broker: self.target,
            });
        }
    }
}

impl State {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<Api, u64>> {
        self.requests.lock().expect("nobody panics holding it")
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Connected>> {
        self.connections.lock().expect("nobody panics holding it")
    }

    fn cut(&self, which: impl Fn(&Connection) -> bool) {
        for connected in self.connections().iter() {
            if which(&connected.connection) {
                connected.connection.cut();
            }
        }
    }
}

fn accept(listener: TcpListener, target: SocketAddr, state: &Arc<State>) -> TcpListener {
    loop {
        let accepted = listener.accept();
        if state.ending.load(Ordering::Relaxed) {
            return listener;
        }
        let Ok((client, _)) = accepted else {
            continue;
        };
        if state.refusing.load(Ordering::Relaxed) {
            continue;
        }
        // If the broker is down, the client finds its connection closed.
        let Ok(connection) = Connection::to(target, client) else {
            continue;
        };
        let connection = Arc::new(connection);
        let [up, down] = [Arc::clone(&connection), Arc::clone(&connection)];
        let up_state = Arc::clone(state);
        let mut connections = state.connections();
        connections.retain(|connected| !connected.threads.iter().all(JoinHandle::is_finished));
        connections.push(Connected {
            connection,
            threads: [
                thread::spawn(move || up.requests(&up_state)),
                thread::spawn(move || down.responses()),
            ],
        });
    }
}

impl Connection {
    fn to(broker: SocketAddr, client: TcpStream) -> std::io::Result<Connection> {
        let broker = TcpStream::connect(broker)?;
        broker.set_nodelay(true)?;
        client.set_nodelay(true)?;
        Ok(Connection {
            client,
            broker,
            of_coordinator: AtomicBool::new(false),
            unanswered: Mutex::default(),
            answered: Condvar::new(),
        })
    }

    fn unanswered(&self) -> MutexGuard<'_, BTreeMap<i32, Option<Applied>>> {
        self.unanswered.lock().expect("nobody panics holding it")
    }

    /// Ends the client's side.
    fn cut(&self) {
        // It may be over already.
        let _ = self.client.shutdown(Shutdown::Both);
    }

    fn end(&self) {
        self.cut();
        let _ = self.broker.shutdown(Shutdown::Both);
    }

    /// Hands requests on until the client has no more, then waits for the last answers: a broker need not do what was asked by somebody
    /// who has gone.
    fn requests(&self, state: &State) {
        while let Ok(Some(frame)) = frames::read(&mut &self.client) {
            let Some(request) = Request::parse(&frame) else {
                eprintln!(
                    "the proxy does not understand a request of {} bytes",
                    frame.len()
                );
                break;
            };
            *state.counts().entry(request.api).or_default() += 1;
            if Api::OF_COORDINATORS.contains(&request.api) {
                self.of_coordinator.store(true, Ordering::Relaxed);
            }
            let applied = state.rules.decide(&request);
            match applied.as_ref().map(Applied::action) {
                Some(Action::HoldRequest) => applied.iter().for_each(Applied::done),
                Some(Action::DropRequest) => {
                    applied.iter().for_each(Applied::done);
                    continue;
                }
                Some(Action::Cut) => {
                    self.cut();
                    applied.iter().for_each(Applied::done);
                    break;
                }
                Some(Action::HoldResponse | Action::DropResponse) | None => {}
            }
            let of_response = applied.filter(|applied| {
                matches!(
                    applied.action(),
                    Action::HoldResponse | Action::DropResponse
                )
            });
            self.unanswered().insert(request.correlation, of_response);
            if (&self.broker).write_all(&frames::framed(&frame)).is_err() {
                break;
            }
        }
        let unanswered = self.unanswered();
        let waited = self
            .answered
            .wait_timeout_while(unanswered, LAST_ANSWERS, |unanswered| {
                !unanswered.is_empty()
            });
        drop(waited);
        self.end();
    }

    /// Hands responses on until the broker has no more. If the client has gone, nobody gets them.
    fn responses(&self) {
        while let Ok(Some(frame)) = frames::read(&mut &self.broker) {
            let correlation = frames::correlation(&frame);
            let applied = correlation.and_then(|number| self.unanswered().remove(&number));
            self.answered.notify_all();
            if let Some(Some(applied)) = applied {
                applied.done();
                if applied.action() == Action::DropResponse {
                    continue;
                }
            }
            let _ = (&self.client).write_all(&frames::framed(&frame));
        }
        self.unanswered().clear();
        self.answered.notify_all();
        self.end();
    }
}
