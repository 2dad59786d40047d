//! What can go wrong between a job and a cluster.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// Why something cannot be done with Kafka. Further lines of a message are notes and help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No broker answers; may pass.
    #[error("Kafka at {brokers} cannot be reached: {why}")]
    Unreachable {
        /// Where it was looked for.
        brokers: String,
        /// What librdkafka says, or that nothing was heard.
        why: String,
    },
    /// The brokers do not believe who we are.
    #[error("{what}: {why}")]
    Unknown {
        /// What was tried.
        what: String,
        /// What the broker says.
        why: String,
    },
    /// The brokers do not let us.
    #[error("{what}: {why}")]
    Refused {
        /// What was tried.
        what: String,
        /// What the broker says.
        why: String,
    },
    /// librdkafka does not take the settings.
    #[error(
        "the settings of {client} are not usable: {why}\n  help: correct `properties:`, `tls:` or `sasl:`"
    )]
    Settings {
        /// Which client.
        client: String,
        /// What librdkafka says.
        why: String,
    },
    /// A secret that a job file refers to is not there.
    #[error("{what} cannot be read: {why}")]
    Secret {
        /// The reference.
        what: String,
        /// Why not.
        why: String,
    },
    /// Anything else that a broker or librdkafka says; may pass.
    #[error("{what}: {why}")]
    Failed {
        /// What was tried.
        what: String,
        /// The cause.
        why: String,
    },
}

impl Error {
    /// Its permanent code.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Unreachable { .. } => "W0901",
            Error::Unknown { .. } | Error::Refused { .. } => "W0902",
            Error::Settings { .. } => "W0903",
            Error::Secret { .. } => "W0904",
            Error::Failed { .. } => "W0905",
        }
    }

    /// Whether trying again later may help.
    pub fn may_pass(&self) -> bool {
        matches!(self, Error::Unreachable { .. } | Error::Failed { .. })
    }

    /// A client called `client` could not be made. Of a setting that librdkafka does not take only the name is told: its own words
    /// repeat the value, which may be a secret.
    pub fn client(client: &str, error: &KafkaError) -> Error {
        Error::Settings {
            client: client.to_owned(),
            why: match error {
                KafkaError::ClientConfig(_, _, property, _) => {
                    format!("the value of `{property}` is not one that librdkafka takes")
                }
                other => other.to_string(),
            },
        }
    }

    /// A thread of a client could not be started.
    pub fn thread(client: &str, error: &std::io::Error) -> Error {
        Error::Failed {
            what: format!("cannot start a thread for {client}"),
            why: error.to_string(),
        }
    }

    /// The producer called `client` could not begin; `trouble` is what was heard of the connection last.
    pub fn initialize(client: &str, error: &KafkaError, trouble: Option<String>) -> Error {
        Error::of(&format!("producer {client} cannot begin"), error, trouble)
    }

    /// `what` failed with `error`; `trouble` is what was heard of the connection last.
    pub fn of(what: &str, error: &KafkaError, trouble: Option<String>) -> Error {
        let what = what.to_owned();
        let why = match trouble {
            Some(trouble) => format!("{error} ({trouble})"),
            None => error.to_string(),
        };
        match error.rdkafka_error_code() {
            Some(code) if is_unauthorized(code) => Error::Refused { what, why },
            Some(code) if is_refusal(code) => Error::Unknown { what, why },
            _ => Error::Failed { what, why },
        }
    }
}

/// Whether an error is the broker's no to who we are or what we may do.
pub(super) fn is_refusal(code: RDKafkaErrorCode) -> bool {
    let unknown = matches!(
        code,
        RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed
    );
    unknown || is_unauthorized(code)
}

/// Whether an error is the broker's no to what we may do.
pub(super) fn is_unauthorized(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
    )
}

/// Whether asking again may help: brokers that start or are away, leaders that are elected, coordinators that are created.
pub(crate) fn is_passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::NotCoordinator
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::WaitingForCoordinator
            | Code::NotController
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::OffsetNotAvailable
            | Code::ReplicaNotAvailable
            | Code::BrokerNotAvailable
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::NetworkException
            | Code::KafkaStorageError
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_taken_is_named_without_its_value() {
        let mut config = rdkafka::ClientConfig::new();
        config.set("linger.ms", "hunter2");
        let refused = config
            .create::<rdkafka::producer::BaseProducer>()
            .err()
            .expect("it is no number");
        assert!(
            refused.to_string().contains("hunter2"),
            "so its words must not be passed on"
        );
        let text = Error::client("sink `out`", &refused).to_string();
        assert!(text.contains("`linger.ms`"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}
