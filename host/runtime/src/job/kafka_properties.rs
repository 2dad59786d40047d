//! The properties of librdkafka (2.12) and whose they are: which a job file may set under `properties:`, and which not because
//! Weir sets them itself, or because setting them would break a promise.

/// Which clients a property is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Sources.
    Consumer,
    /// Sinks.
    Producer,
    /// All.
    Both,
}

use Side::{Both, Consumer, Producer};

/// What is passed on.
const PASSED: &[(&str, Side)] = &[
    ("api.version.fallback.ms", Both),
    ("api.version.request", Both),
    ("api.version.request.timeout.ms", Both),
    ("batch.num.messages", Producer),
    ("batch.size", Producer),
    ("broker.address.family", Both),
    ("broker.address.ttl", Both),
    ("broker.version.fallback", Both),
    ("check.crcs", Consumer),
    ("client.dns.lookup", Both),
    ("client.rack", Both),
    ("compression.level", Producer),
    ("connections.max.idle.ms", Both),
    ("coordinator.query.interval.ms", Consumer),
    ("enable.metrics.push", Both),
    ("enable.random.seed", Both),
    ("enable.ssl.certificate.verification", Both),
    ("fetch.error.backoff.ms", Consumer),
    ("fetch.max.bytes", Consumer),
    ("fetch.message.max.bytes", Consumer),
    ("fetch.min.bytes", Consumer),
    ("fetch.queue.backoff.ms", Consumer),
    ("fetch.wait.max.ms", Consumer),
    ("linger.ms", Producer),
    ("log.connection.close", Both),
    ("max.in.flight", Both),
    ("max.in.flight.requests.per.connection", Both),
    ("max.partition.fetch.bytes", Consumer),
    ("message.copy.max.bytes", Both),
    ("message.max.bytes", Both),
    ("metadata.max.age.ms", Both),
    ("metadata.recovery.rebootstrap.trigger.ms", Both),
    ("metadata.recovery.strategy", Both),
    ("queue.buffering.backpressure.threshold", Producer),
    ("queue.buffering.max.ms", Producer),
    ("receive.message.max.bytes", Both),
    ("reconnect.backoff.jitter.ms", Both),
    ("reconnect.backoff.max.ms", Both),
    ("reconnect.backoff.ms", Both),
    ("request.timeout.ms", Producer),
    ("retry.backoff.max.ms", Both),
    ("retry.backoff.ms", Both),
    ("socket.blocking.max.ms", Both),
    ("socket.connection.setup.timeout.ms", Both),
    ("socket.keepalive.enable", Both),
    ("socket.max.fails", Both),
    ("socket.nagle.disable", Both),
    ("socket.receive.buffer.bytes", Both),
    ("socket.send.buffer.bytes", Both),
    ("socket.timeout.ms", Both),
    ("ssl.ca.certificate.stores", Both),
    ("ssl.cipher.suites", Both),
    ("ssl.crl.location", Both),
    ("ssl.curves.list", Both),
    ("ssl.endpoint.identification.algorithm", Both),
    ("ssl.keystore.location", Both),
    ("ssl.keystore.password", Both),
    ("ssl.providers", Both),
    ("ssl.sigalgs.list", Both),
    ("sticky.partitioning.linger.ms", Producer),
    ("topic.metadata.propagation.max.ms", Both),
    ("topic.metadata.refresh.fast.cnt", Both),
    ("topic.metadata.refresh.fast.interval.ms", Both),
    ("topic.metadata.refresh.interval.ms", Both),
    ("topic.metadata.refresh.sparse", Both),
];

/// Remedies that several properties share.
const BROKERS: &str = "name the brokers in `brokers`";
const SECURITY: &str = "say it with `tls` and `sasl`";
const CA: &str = "name the file in `tls: {ca: FILE}`";
const CERTIFICATE: &str = "name the file in `tls: {certificate: FILE, key: FILE}`";
const SASL: &str = "write `sasl: {mechanism: …, username: …, password: …}`";
const MECHANISM: &str = "leave it out: the mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512";
const CODE: &str = "leave it out: Weir loads no code into itself that a job file names";
const CALLBACK: &str = "leave it out: only a program can set it";
const LOG: &str = "leave it out: what librdkafka warns of is in Weir's log";
const NO_GROUP: &str =
    "leave it out: partitions are dealt to subtasks by Weir, in no consumer group";
const POSITIONS: &str =
    "leave it out: positions are part of checkpoints, and committed to `group` after each";
const START: &str = "say it with `start`, and for what retention removed with `on_gap`";
const MEMORY: &str = "leave it out: queues are bounded by the job's `memory`";
const SAFE: &str = "leave it out: records are acknowledged by all replicas, in order and once";
const PATIENCE: &str = "leave it out: how long output may take is said by `checkpoint.timeout`";
const TRANSACTION: &str = "say it with `transaction_timeout` and `transactional_id`";
const COMPRESSION: &str = "say it with `compression`";
const PARTITION: &str = "say it with `partition_by`";

/// What is refused, and what to do instead.
const OWNED: &[(&str, &str)] = &[
    ("acks", SAFE),
    (
        "allow.auto.create.topics",
        "leave it out: Weir creates no topic that records are in; create it before the job starts",
    ),
    ("auto.commit.enable", POSITIONS),
    ("auto.commit.interval.ms", POSITIONS),
    ("auto.offset.reset", START),
    ("background_event_cb", CALLBACK),
    ("bootstrap.servers", BROKERS),
    ("builtin.features", "leave it out: it cannot be set"),
    (
        "client.id",
        "leave it out: it is made of the names of job, source or sink, so that brokers' logs name them",
    ),
    ("closesocket_cb", CALLBACK),
    ("compression.codec", COMPRESSION),
    ("compression.type", COMPRESSION),
    ("connect_cb", CALLBACK),
    ("consume.callback.max.messages", CALLBACK),
    ("consume_cb", CALLBACK),
    ("debug", LOG),
    ("default_topic_conf", CALLBACK),
    ("delivery.report.only.error", SAFE),
    ("delivery.timeout.ms", PATIENCE),
    ("dr_cb", CALLBACK),
    ("dr_msg_cb", CALLBACK),
    ("enable.auto.commit", POSITIONS),
    ("enable.auto.offset.store", POSITIONS),
    ("enable.gapless.guarantee", SAFE),
    ("enable.idempotence", SAFE),
    (
        "enable.partition.eof",
        "leave it out: say with `stop` whether reading ends",
    ),
    ("enable.sasl.oauthbearer.unsecure.jwt", MECHANISM),
    ("enabled_events", CALLBACK),
    ("error_cb", CALLBACK),
    ("group.id", "name the group in `group`"),
    ("group.instance.id", NO_GROUP),
    ("group.protocol", NO_GROUP),
    ("group.protocol.type", NO_GROUP),
    ("group.remote.assignor", NO_GROUP),
    ("heartbeat.interval.ms", NO_GROUP),
    ("https.ca.location", MECHANISM),
    ("https.ca.pem", MECHANISM),
    ("interceptors", CALLBACK),
    (
        "internal.termination.signal",
        "leave it out: signals are Weir's",
    ),
    ("isolation.level", "say it with `isolation`"),
    ("log.queue", LOG),
    ("log.thread.name", LOG),
    ("log_cb", LOG),
    ("log_level", LOG),
    ("max.poll.interval.ms", NO_GROUP),
    ("message.send.max.retries", PATIENCE),
    ("message.timeout.ms", PATIENCE),
    ("metadata.broker.list", BROKERS),
    ("msg_order_cmp", CALLBACK),
    ("oauthbearer_token_refresh_cb", MECHANISM),
    ("offset.store.method", POSITIONS),
    ("offset.store.path", POSITIONS),
    ("offset.store.sync.interval.ms", POSITIONS),
    ("offset_commit_cb", CALLBACK),
    ("opaque", CALLBACK),
    ("open_cb", CALLBACK),
    ("partition.assignment.strategy", NO_GROUP),
    ("partitioner", PARTITION),
    ("partitioner_cb", PARTITION),
    ("plugin.library.paths", CODE),
    ("produce.offset.report", SAFE),
    ("queue.buffering.max.kbytes", MEMORY),
    ("queue.buffering.max.messages", MEMORY),
    ("queued.max.messages.kbytes", MEMORY),
    ("queued.min.messages", MEMORY),
    ("queuing.strategy", SAFE),
    ("rebalance_cb", CALLBACK),
    ("request.required.acks", SAFE),
    ("resolve_cb", CALLBACK),
    ("retries", PATIENCE),
    ("sasl.kerberos.keytab", MECHANISM),
    ("sasl.kerberos.kinit.cmd", MECHANISM),
    ("sasl.kerberos.min.time.before.relogin", MECHANISM),
    ("sasl.kerberos.principal", MECHANISM),
    ("sasl.kerberos.service.name", MECHANISM),
    ("sasl.mechanism", SASL),
    ("sasl.mechanisms", SASL),
    ("sasl.oauthbearer.assertion.algorithm", MECHANISM),
    ("sasl.oauthbearer.assertion.claim.aud", MECHANISM),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", MECHANISM),
    ("sasl.oauthbearer.assertion.claim.iss", MECHANISM),
    ("sasl.oauthbearer.assertion.claim.jti.include", MECHANISM),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", MECHANISM),
    ("sasl.oauthbearer.assertion.claim.sub", MECHANISM),
    ("sasl.oauthbearer.assertion.file", MECHANISM),
    ("sasl.oauthbearer.assertion.jwt.template.file", MECHANISM),
    ("sasl.oauthbearer.assertion.private.key.file", MECHANISM),
    (
        "sasl.oauthbearer.assertion.private.key.passphrase",
        MECHANISM,
    ),
    ("sasl.oauthbearer.assertion.private.key.pem", MECHANISM),
    ("sasl.oauthbearer.client.credentials.client.id", MECHANISM),
    (
        "sasl.oauthbearer.client.credentials.client.secret",
        MECHANISM,
    ),
    ("sasl.oauthbearer.client.id", MECHANISM),
    ("sasl.oauthbearer.client.secret", MECHANISM),
    ("sasl.oauthbearer.config", MECHANISM),
    ("sasl.oauthbearer.extensions", MECHANISM),
    ("sasl.oauthbearer.grant.type", MECHANISM),
    ("sasl.oauthbearer.metadata.authentication.type", MECHANISM),
    ("sasl.oauthbearer.method", MECHANISM),
    ("sasl.oauthbearer.scope", MECHANISM),
    ("sasl.oauthbearer.token.endpoint.url", MECHANISM),
    ("sasl.password", SASL),
    ("sasl.username", SASL),
    ("security.protocol", SECURITY),
    ("session.timeout.ms", NO_GROUP),
    ("socket_cb", CALLBACK),
    ("ssl.ca.location", CA),
    ("ssl.ca.pem", CA),
    ("ssl.certificate.location", CERTIFICATE),
    ("ssl.certificate.pem", CERTIFICATE),
    ("ssl.certificate.verify_cb", CALLBACK),
    ("ssl.engine.id", CODE),
    ("ssl.engine.location", CODE),
    ("ssl.key.location", CERTIFICATE),
    (
        "ssl.key.password",
        "say where it is in `tls: {key_password: …}`",
    ),
    ("ssl.key.pem", CERTIFICATE),
    ("ssl_ca", CA),
    ("ssl_certificate", CERTIFICATE),
    ("ssl_engine_callback_data", CODE),
    ("ssl_key", CERTIFICATE),
    ("statistics.interval.ms", LOG),
    ("stats_cb", CALLBACK),
    ("throttle_cb", CALLBACK),
    ("topic.blacklist", "say with `topics` what is read"),
    ("transaction.timeout.ms", TRANSACTION),
    ("transactional.id", TRANSACTION),
];

/// What to do instead, if property `name` is one that a job file must not set.
pub(crate) fn owned(name: &str) -> Option<&'static str> {
    let (_, remedy) = OWNED.iter().find(|(known, _)| *known == name)?;
    Some(remedy)
}

/// Which clients property `name` is for, if a job file may set it.
pub(crate) fn passed(name: &str) -> Option<Side> {
    let (_, side) = PASSED.iter().find(|(known, _)| *known == name)?;
    Some(*side)
}

/// The names of all properties.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let passed = PASSED.iter().map(|(name, _)| *name);
    passed.chain(OWNED.iter().map(|(name, _)| *name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_property_is_in_one_list_once() {
        let mut seen = HashSet::new();
        let twice: Vec<_> = names().filter(|name| !seen.insert(*name)).collect();
        assert_eq!(twice, Vec::<&str>::new());
    }

    /// The lists are those of the librdkafka that is linked: a name that it does not know would be refused at start only.
    #[cfg(feature = "kafka")]
    #[test]
    fn each_property_is_one_of_librdkafka() {
        let known = |name: &str| {
            // A value that fits few: only whether the name is known matters.
            let mut config = rdkafka::ClientConfig::new();
            let refused = config.set(name, "0").create_native_config().err();
            !refused.is_some_and(|error| error.to_string().contains("No such configuration"))
        };
        assert!(!known("no.such.property"));
        let unknown: Vec<_> = names().filter(|name| !known(name)).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }
}
