//! Brokers: the shared one, those of one's own, an existing one.

mod certificates;
mod leftovers;
mod ports;
mod server;
mod settings;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

pub use certificates::Certificates;
use server::Server;
pub use settings::{Options, PASSWORD, USERS};

use super::groups;
use super::tools;

/// Names an existing broker.
const EXISTING: &str = "WEIR_TEST_KAFKA";

/// A broker: one that was started here, or an existing one.
///
/// One that was started here ends with this value, and with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Broker {
    address: String,
    server: Option<Server>,
    /// Ports that the broker tells clients who came by one of its proxied listeners, and where the broker itself can be reached
    /// instead. Those not in use; they are bound, so that nobody else takes them.
    proxied: Mutex<Vec<Proxied>>,
}

/// A proxied listener: clients are told to go to one port, the broker listens on another.
#[derive(Debug)]
pub(super) struct Proxied {
    pub(super) listener: TcpListener,
    pub(super) broker: SocketAddr,
}

impl Broker {
    /// The broker of this test binary, started by the first who asks for it.
    ///
    /// # Panics
    /// It does not start, or an existing one cannot be used. Says why.
    pub fn shared() -> &'static Broker {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(|| match existing() {
            Some(address) => Broker::at(address),
            None => Broker::started(&Options::default()),
        })
    }

    /// A broker of one's own. `None` if an existing broker is to be used: then it has been said that the calling test is skipped.
    ///
    /// # Panics
    /// It does not start. Says why.
    pub fn own(options: &Options) -> Option<OwnBroker> {
        if existing().is_some() {
            skipped("a broker of its own");
            return None;
        }
        Some(OwnBroker(Broker::started(options)))
    }

    /// Whether an existing broker is to be used, which has no listeners but the one it was named by. Then it has been said that the
    /// calling test, which needs `what`, is skipped.
    pub fn is_foreign(&self, what: &str) -> bool {
        if self.server.is_none() {
            skipped(what);
        }
        self.server.is_none()
    }

    fn at(address: String) -> Broker {
        let broker = Broker {
            address,
            server: None,
            proxied: Mutex::default(),
        };
        if let Err(why) = broker.answers() {
            panic!("{EXISTING}={}: {why}", broker.address);
        }
        broker
    }

    fn started(options: &Options) -> Broker {
        let (server, proxied) = Server::started(options);
        Broker {
            address: server.address().to_string(),
            server: Some(server),
            proxied: Mutex::new(proxied),
        }
    }

    fn answers(&self) -> Result<(), String> {
        tools::jars()?;
        groups::coordinators_answer(&self.client(), crate::host::HANGS)
    }

    fn own_server(&self) -> &Server {
        self.server.as_ref().expect(
            "a test asks `is_foreign` before it uses what only brokers that were started here have",
        )
    }

    /// Where it listens, without encryption, as `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it listens with TLS and SASL: PLAIN and SCRAM, for [`USERS`].
    ///
    /// # Panics
    /// It is an existing one: ask [`Broker::is_foreign`] before.
    pub fn sasl_address(&self) -> String {
        self.own_server().sasl_address().to_string()
    }

    /// Where it listens with TLS and asks clients for a certificate.
    ///
    /// # Panics
    /// It is an existing one: ask [`Broker::is_foreign`] before.
    pub fn mutual_address(&self) -> String {
        self.own_server().mutual_address().to_string()
    }

    /// The authority to trust, and a client's certificate and key.
    ///
    /// # Panics
    /// It is an existing one: ask [`Broker::is_foreign`] before.
    pub fn certificates(&self) -> &Certificates {
        self.own_server().certificates()
    }

    /// Settings of a client of the tests' own.
    pub fn client(&self) -> ClientConfig {
        client(&self.address)
    }

    /// Allows something to a user of [`USERS`], where nothing is allowed by itself ([`Options::access_control`]): `what` are arguments of
    /// Kafka's `kafka-acls`, like `["--operation", "Read", "--topic", "payments"]`.
    ///
    /// # Panics
    /// The broker refuses.
    pub fn allow(&self, user: &str, what: &[&str]) {
        let principal = format!("User:{user}");
        let common = [
            "--bootstrap-server",
            &self.address,
            "--add",
            "--allow-principal",
            &principal,
        ];
        let arguments: Vec<String> = common.iter().chain(what).map(ToString::to_string).collect();
        tools::run("org.apache.kafka.tools.AclCommand", &arguments)
            .unwrap_or_else(|why| panic!("{why}; {}", self.log()));
    }

    /// The end of its log, and where all of it is.
    pub fn log(&self) -> String {
        match &self.server {
            Some(server) => server.log(),
            None => format!("the log of {} is not here", self.address),
        }
    }

    fn proxied(&self) -> MutexGuard<'_, Vec<Proxied>> {
        self.proxied.lock().expect("nobody panics holding it")
    }

    /// A proxied listener that is not in use, to be given back.
    pub(super) fn take_proxied(&self) -> Option<Proxied> {
        self.proxied().pop()
    }

    /// Gives a proxied listener back.
    pub(super) fn give_back(&self, proxied: Proxied) {
        self.proxied().push(proxied);
    }
}

/// A broker that belongs to one test, which may do to it what it likes.
#[derive(Debug)]
pub struct OwnBroker(Broker);

impl Deref for OwnBroker {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        &self.0
    }
}

impl OwnBroker {
    /// Kills it with SIGKILL.
    pub fn kill(&self) {
        self.0.own_server().kill();
    }

    /// Ends it with SIGTERM, as an operator would.
    ///
    /// # Panics
    /// It does not end.
    pub fn stop(&self) {
        self.0.own_server().stop();
    }

    /// Starts it again, with its ports and data, after [`OwnBroker::kill`] or [`OwnBroker::stop`]; ends it as by [`OwnBroker::stop`] before if it
    /// runs. Returns when it answers.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&self) {
        let server = self.0.own_server();
        server.stop();
        server.start_again();
    }

    /// Stops it in its tracks with SIGSTOP: connections stay, nothing is answered.
    pub fn freeze(&self) {
        self.0.own_server().freeze();
    }

    /// Lets it go on after [`OwnBroker::freeze`].
    pub fn thaw(&self) {
        self.0.own_server().thaw();
    }
}

/// Settings of a client of the tests' own.
fn client(address: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", address)
        // A broker that was killed is back within seconds; the default waits up to ten more.
        .set("reconnect.backoff.max.ms", "500")
        .set_log_level(RDKafkaLogLevel::Critical);
    config
}

fn existing() -> Option<String> {
    std::env::var(EXISTING)
        .ok()
        .filter(|address| !address.is_empty())
}

/// Says that the test of this thread is skipped, past the test runner, which shows only what failing tests print.
fn skipped(need: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("skipped: {test} needs {need}, but {EXISTING} names an existing broker\n");
    // Standard error may be closed; then nobody wants to know.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// How long starting and stopping may take on a busy machine.
const PATIENCE: Duration = crate::host::HANGS;
