//! What a job file may name in a later release. It is refused by name rather than as a misspelling, and never ignored.

/// Fields: the raw type they would belong to, their name, and what to do without them.
const FIELDS: &[(&str, &str, &str)] = &[
    (
        "JobFile",
        "savepoint",
        "leave it out; copy the checkpoint directory of a stopped job instead",
    ),
    (
        "JobFile",
        "savepoints",
        "leave it out; copy the checkpoint directory of a stopped job instead",
    ),
    ("JobFile", "stop_timeout", "leave it out"),
    (
        "StateSection",
        "cache",
        "leave it out; all state is in memory",
    ),
    ("CheckpointSection", "savepoint_dir", "leave it out"),
    ("CheckpointSection", "savepoints", "leave it out"),
    ("KafkaSource", "schema_registry", REGISTRY),
    ("KafkaSink", "schema_registry", REGISTRY),
];

/// Without a schema registry.
const REGISTRY: &str = "values with a schema's id before them pass unchanged with `format: raw`, for an operator to decode";

/// Values: the raw enumeration they would belong to, the value (or the key of its fields), and what to do without them.
const VALUES: &[(&str, &str, &str)] = &[
    ("StateBackend", "rocksdb", "use `memory`"),
    (
        "ExchangeName",
        "broadcast",
        "use `forward`, `by-key` or `rebalance`",
    ),
    ("SaslMechanismName", "GSSAPI", "use `SCRAM-SHA-512`"),
    (
        "SaslMechanismName",
        "OAUTHBEARER",
        "use `SCRAM-SHA-512`, or `tls` with a certificate",
    ),
    ("KafkaFormatName", "avro", REGISTRY),
];

fn find(table: &[(&str, &str, &'static str)], owner: &str, name: &str) -> Option<&'static str> {
    table
        .iter()
        .find(|entry| (entry.0, entry.1) == (owner, name))
        .map(|entry| entry.2)
}

/// The remedy, if field `name` of raw type `owner` comes later.
pub(super) fn field(owner: &str, name: &str) -> Option<&'static str> {
    find(FIELDS, owner, name)
}

/// The remedy, if value `name` of raw enumeration `owner` comes later.
pub(super) fn value(owner: &str, name: &str) -> Option<&'static str> {
    find(VALUES, owner, name)
}
