//! Settings of librdkafka's clients, and what they tell about their connections.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use std::{env, fs};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::Error;
use super::error::is_refusal;
use crate::job::model::{KafkaConnection, PropertyValue, SaslMechanism, Secret};
use crate::{clock, log};

/// Settings of a client called `client_id` that reaches a cluster by `connection`. Secrets are read now, so one that was changed since
/// is seen by the next client.
///
/// # Errors
/// A secret is not there.
pub fn config(connection: &KafkaConnection, client_id: &str) -> Result<ClientConfig, Error> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &connection.brokers)
        .set("client.id", client_id)
        // Topics are created by people. Only consumers ask for that, and some brokers grant it.
        .set("allow.auto.create.topics", "false")
        // By default a broker that was away is looked for again after up to ten seconds.
        .set(
            "reconnect.backoff.max.ms",
            reconnect_after_at_most(connection).to_string(),
        );
    config.set_log_level(RDKafkaLogLevel::Warning);
    let protocol = match (&connection.tls, &connection.sasl) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    config.set("security.protocol", protocol);
    if let Some(tls) = &connection.tls {
        let mut path = |property: &str, file: &Option<std::path::PathBuf>| {
            if let Some(file) = file {
                config.set(property, file.to_string_lossy());
            }
        };
        path("ssl.ca.location", &tls.ca);
        path("ssl.certificate.location", &tls.certificate);
        path("ssl.key.location", &tls.key);
        if let Some(password) = &tls.key_password {
            config.set("ssl.key.password", secret(password)?);
        }
    }
    if let Some(sasl) = &connection.sasl {
        let mechanism = match sasl.mechanism {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
        };
        config
            .set("sasl.mechanism", mechanism)
            .set("sasl.username", &sasl.username)
            .set("sasl.password", secret(&sasl.password)?);
    }
    for (name, value) in &connection.properties {
        match value {
            PropertyValue::Text(text) => config.set(name, text),
            PropertyValue::Secret(reference) => config.set(name, secret(reference)?),
        };
    }
    Ok(config)
}

/// Milliseconds; not less than where a job file has it begin.
fn reconnect_after_at_most(connection: &KafkaConnection) -> u64 {
    const AT_MOST: u64 = 2_000;
    match connection.properties.get("reconnect.backoff.ms") {
        Some(PropertyValue::Text(begin)) => {
            begin.parse().map_or(AT_MOST, |begin| AT_MOST.max(begin))
        }
        _ => AT_MOST,
    }
}

/// What a reference refers to.
fn secret(secret: &Secret) -> Result<String, Error> {
    let unreadable = |why: String| Error::Secret {
        what: format!("secret {secret:?}"),
        why,
    };
    let file = |path: &Path| {
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
    };
    match secret {
        Secret::File(path) => file(path),
        Secret::Env(name) => env::var(name).map_err(|error| unreadable(error.to_string())),
        Secret::Credential(name) => match env::var_os("CREDENTIALS_DIRECTORY") {
            Some(dir) => file(&Path::new(&dir).join(name)),
            None => Err(unreadable(
                "`$CREDENTIALS_DIRECTORY` is not set: was the job started by a service manager that hands credentials over?"
                    .to_owned(),
            )),
        },
    }
}

/// What a client tells: its log goes into ours, and its troubles are kept for whoever waits for it.
#[derive(Debug)]
pub struct Context {
    owner: String,
    troubles: AtomicU64,
    last: Mutex<Option<Trouble>>,
}

#[derive(Clone, Debug)]
struct Trouble {
    at: Instant,
    what: String,
    refusal: bool,
}

impl Context {
    /// Of the client that messages call `owner`.
    pub fn new(owner: impl Into<String>) -> Context {
        Context {
            owner: owner.into(),
            troubles: AtomicU64::new(0),
            last: Mutex::new(None),
        }
    }

    fn last(&self) -> Option<Trouble> {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The newest trouble with a connection, and when it was heard of.
    pub fn trouble(&self) -> Option<(Instant, String)> {
        self.last().map(|trouble| (trouble.at, trouble.what))
    }

    /// The newest trouble, if it is that the broker does not believe who we are.
    pub fn refusal(&self) -> Option<String> {
        self.last()
            .filter(|trouble| trouble.refusal)
            .map(|trouble| trouble.what)
    }

    /// How many troubles there were.
    pub fn troubles(&self) -> u64 {
        self.troubles.load(Ordering::SeqCst)
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let text = format!("{}: librdkafka {facility}: {message}", self.owner);
        // A coordinator that is still loading, or completing what it was asked for, is asked again: nothing to be alarmed by.
        if facility == "GETPID" {
            return log::debug(&text);
        }
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => log::warn(&text),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                log::debug(&text);
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        // Said of every bounded or idle partition; no trouble.
        if code == Some(RDKafkaErrorCode::PartitionEOF) {
            return;
        }
        let trouble = Trouble {
            at: clock::now(),
            what: reason.to_owned(),
            refusal: code.is_some_and(is_refusal),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
        self.troubles.fetch_add(1, Ordering::SeqCst);
    }
}

impl ConsumerContext for Context {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::{KafkaSasl, KafkaTls};

    fn connection() -> KafkaConnection {
        KafkaConnection {
            brokers: "a:1,b:2".to_owned(),
            ..KafkaConnection::default()
        }
    }

    #[test]
    fn security_follows_from_tls_and_sasl() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("password");
        fs::write(&file, "open sesame\n").expect("written");
        let sasl = KafkaSasl {
            mechanism: SaslMechanism::ScramSha512,
            username: "weir".to_owned(),
            password: Secret::File(file),
        };
        for (tls, sasl, protocol) in [
            (None, None, "plaintext"),
            (Some(KafkaTls::default()), None, "ssl"),
            (None, Some(sasl.clone()), "sasl_plaintext"),
            (Some(KafkaTls::default()), Some(sasl), "sasl_ssl"),
        ] {
            let with_password = sasl.is_some();
            let connection = KafkaConnection {
                tls,
                sasl,
                ..connection()
            };
            let config = config(&connection, "c").expect("all there");
            assert_eq!(config.get("security.protocol"), Some(protocol));
            let password = with_password.then_some("open sesame");
            assert_eq!(config.get("sasl.password"), password, "{protocol}");
        }
    }

    #[test]
    fn brokers_that_were_away_are_looked_for_soon() {
        let at_most = |begin: Option<&str>| {
            let mut connection = connection();
            let begin = begin.map(|begin| PropertyValue::Text(begin.to_owned()));
            connection
                .properties
                .extend(begin.map(|begin| ("reconnect.backoff.ms".to_owned(), begin)));
            let config = config(&connection, "c").expect("no secrets");
            config
                .create::<rdkafka::producer::BaseProducer>()
                .expect("settings that librdkafka takes");
            config.get("reconnect.backoff.max.ms").map(str::to_owned)
        };
        assert_eq!(at_most(None).as_deref(), Some("2000"));
        assert_eq!(at_most(Some("100")).as_deref(), Some("2000"));
        assert_eq!(at_most(Some("5000")).as_deref(), Some("5000"));
    }

    #[test]
    fn a_secret_that_is_not_there_is_named_by_its_reference() {
        let mut connection = connection();
        connection.properties.insert(
            "ssl.keystore.password".to_owned(),
            PropertyValue::Secret(Secret::Env("WEIR_NO_SUCH_VARIABLE".to_owned())),
        );
        let error = config(&connection, "c").expect_err("it is not set");
        assert_eq!(error.code(), "W0904");
        assert!(
            error.to_string().contains("WEIR_NO_SUCH_VARIABLE"),
            "{error}"
        );
    }
}
