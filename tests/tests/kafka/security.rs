//! The broker's other listeners let in whom they should, so that a test of who is let in proves something.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use weir_tests::kafka::{Broker, Isolation, Options, PASSWORD, Record, Topics, USERS};

/// Why a client cannot come in, if it cannot.
fn comes_in(config: &ClientConfig) -> Result<(), String> {
    let consumer: BaseConsumer = config.create().map_err(|error| error.to_string())?;
    consumer
        .fetch_metadata(None, Duration::from_secs(5))
        .map(drop)
        .map_err(|error| error.to_string())
}

fn sasl(broker: &Broker, mechanism: &str, password: &str) -> ClientConfig {
    let authority = broker.certificates().authority.display().to_string();
    let mut config = broker.client();
    config
        .set("bootstrap.servers", broker.sasl_address())
        .set("security.protocol", "sasl_ssl")
        .set("ssl.ca.location", authority)
        .set("sasl.mechanism", mechanism)
        .set("sasl.username", USERS[0])
        .set("sasl.password", password);
    config
}

#[test]
fn passwords_are_asked_for_by_each_mechanism() {
    let broker = Broker::shared();
    if broker.is_foreign("a listener with SASL") {
        return;
    }
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        comes_in(&sasl(broker, mechanism, PASSWORD)).unwrap();
        assert!(
            comes_in(&sasl(broker, mechanism, "guessed")).is_err(),
            "{mechanism}"
        );
    }
    let stranger = broker.certificates().stranger.display().to_string();
    let mut config = sasl(broker, "PLAIN", PASSWORD);
    config.set("ssl.ca.location", stranger);
    assert!(
        comes_in(&config).is_err(),
        "the broker's certificate is not trusted"
    );
}

#[test]
fn certificates_are_asked_for() {
    let broker = Broker::shared();
    if broker.is_foreign("a listener that asks for certificates") {
        return;
    }
    let certificates = broker.certificates();
    let mut config = broker.client();
    config
        .set("bootstrap.servers", broker.mutual_address())
        .set("security.protocol", "ssl")
        .set(
            "ssl.ca.location",
            certificates.authority.display().to_string(),
        );
    assert!(comes_in(&config).is_err());
    config
        .set(
            "ssl.certificate.location",
            certificates.client.display().to_string(),
        )
        .set(
            "ssl.key.location",
            certificates.client_key.display().to_string(),
        );
    comes_in(&config).unwrap();
    config
        .set(
            "ssl.key.location",
            certificates.encrypted_client_key.display().to_string(),
        )
        .set("ssl.key.password", PASSWORD);
    comes_in(&config).unwrap();
}

#[test]
fn nothing_is_allowed_until_it_is() {
    let Some(broker) = Broker::own(&Options::default().access_control()) else {
        return;
    };
    let topics = Topics::named(&broker, "allowed");
    let name = topics.create("some", 1);
    topics.produce("some", &[Record::to(0).value("x")]);
    assert_eq!(topics.read("some", Isolation::Committed).len(), 1);

    let sees = || {
        let consumer: BaseConsumer = sasl(&broker, "PLAIN", PASSWORD).create().unwrap();
        let metadata = consumer
            .fetch_metadata(None, Duration::from_secs(20))
            .unwrap();
        metadata.topics().iter().any(|topic| topic.name() == name)
    };
    assert!(!sees());
    broker.allow(USERS[0], &["--operation", "Describe", "--topic", &name]);
    assert!(sees());
}
