//! What a broker is told: its properties, its users, its Java machine's size.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::certificates::Certificates;

/// Users that the SASL listener knows, by each of its mechanisms.
pub const USERS: [&str; 2] = ["weir", "guest"];

/// The password of each of them.
pub const PASSWORD: &str = "correct horse";

/// What is special about a broker.
#[derive(Clone, Debug, Default)]
pub struct Options {
    access_control: bool,
    fast: bool,
    settings: Vec<(String, String)>,
}

impl Options {
    /// Another property of the broker.
    pub fn set(mut self, name: &str, value: impl ToString) -> Options {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }

    /// The longest transaction timeout that it grants a producer.
    pub fn longest_transaction(self, timeout: Duration) -> Options {
        self.set("transaction.max.timeout.ms", timeout.as_millis())
    }

    /// Nothing is allowed to a user unless a rule says so (`Broker::allow`). Clients of the listener without encryption may do
    /// everything: they are nobody in particular, and tests prepare things by it.
    pub fn access_control(mut self) -> Options {
        self.access_control = true;
        self
    }

    /// A Java machine for throughput. Without it, it is one that starts fast and is small.
    pub fn fast(mut self) -> Options {
        self.fast = true;
        self
    }

    /// Options of the Java machine.
    pub(super) fn java(&self) -> Vec<&'static str> {
        let mut java = vec![
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            // Trouble, and what becomes of transactions: a log that a failing test can show.
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.kafka.coordinator.transaction.TransactionCoordinator=info",
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
        ];
        if self.fast {
            java.extend(["-Xmx1g", "-Xms1g"]);
        } else {
            java.extend(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        }
        java
    }
}

/// Where a broker listens.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    pub(super) plain: SocketAddr,
    pub(super) sasl: SocketAddr,
    pub(super) mutual: SocketAddr,
    pub(super) controller: SocketAddr,
    /// Each with the one that clients are told.
    pub(super) proxied: Vec<(SocketAddr, SocketAddr)>,
}

struct Listener {
    name: String,
    protocol: &'static str,
    /// Where the broker listens.
    own: SocketAddr,
    /// Where it says that it does.
    told: SocketAddr,
}

/// The contents of the broker's `server.properties`.
pub(super) fn properties(
    options: &Options,
    addresses: &Addresses,
    certificates: &Certificates,
    data: &Path,
) -> Result<String, String> {
    let common = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/broker/server.properties");
    let mut text =
        fs::read_to_string(&common).map_err(|error| format!("{}: {error}", common.display()))?;

    let listener = |name: &str, protocol, own, told| Listener {
        name: name.to_owned(),
        protocol,
        own,
        told,
    };
    let mut listeners = vec![
        listener("PLAINTEXT", "PLAINTEXT", addresses.plain, addresses.plain),
        listener("SASL", "SASL_SSL", addresses.sasl, addresses.sasl),
        listener("MUTUAL", "SSL", addresses.mutual, addresses.mutual),
    ];
    for (n, (own, told)) in addresses.proxied.iter().enumerate() {
        listeners.push(listener(&format!("PROXIED{n}"), "PLAINTEXT", *own, *told));
    }
    let list = |one: fn(&Listener) -> String| {
        let each: Vec<String> = listeners.iter().map(one).collect();
        each.join(",")
    };
    let controller = addresses.controller;
    let jaas = "org.apache.kafka.common.security";
    let users = USERS
        .map(|user| format!("user_{user}=\"{PASSWORD}\""))
        .join(" ");
    let mut lines = vec![
        ("log.dirs", data.display().to_string()),
        ("controller.quorum.voters", format!("1@{controller}")),
        (
            "listeners",
            list(|l| format!("{}://{}", l.name, l.own)) + &format!(",CONTROLLER://{controller}"),
        ),
        (
            "advertised.listeners",
            list(|l| format!("{}://{}", l.name, l.told)),
        ),
        (
            "listener.security.protocol.map",
            list(|l| format!("{}:{}", l.name, l.protocol)) + ",CONTROLLER:PLAINTEXT",
        ),
        ("ssl.keystore.type", "PEM".to_owned()),
        (
            "ssl.keystore.location",
            certificates.broker.display().to_string(),
        ),
        ("ssl.truststore.type", "PEM".to_owned()),
        (
            "ssl.truststore.location",
            certificates.authority.display().to_string(),
        ),
        (
            "listener.name.mutual.ssl.client.auth",
            "required".to_owned(),
        ),
        (
            "listener.name.sasl.sasl.enabled.mechanisms",
            "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned(),
        ),
        (
            "listener.name.sasl.plain.sasl.jaas.config",
            format!("{jaas}.plain.PlainLoginModule required {users};"),
        ),
        (
            "listener.name.sasl.scram-sha-256.sasl.jaas.config",
            format!("{jaas}.scram.ScramLoginModule required;"),
        ),
        (
            "listener.name.sasl.scram-sha-512.sasl.jaas.config",
            format!("{jaas}.scram.ScramLoginModule required;"),
        ),
    ];
    if options.access_control {
        lines.push((
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
        ));
        lines.push(("super.users", "User:ANONYMOUS".to_owned()));
    }
    for (name, value) in lines {
        writeln!(text, "{name}={value}").expect("a string takes everything");
    }
    for (name, value) in &options.settings {
        writeln!(text, "{name}={value}").expect("a string takes everything");
    }
    Ok(text)
}

/// Arguments by which the storage tool adds the users, for the mechanisms whose users are the cluster's data.
pub(super) fn scram_users() -> Vec<String> {
    let mut arguments = Vec::new();
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for user in USERS {
            arguments.push("--add-scram".to_owned());
            arguments.push(format!("{mechanism}=[name={user},password={PASSWORD}]"));
        }
    }
    arguments
}
