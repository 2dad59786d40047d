//! Why records were not delivered, and what the result of a commit says.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::kafka::error::is_unauthorized;

/// Why a record was not sent or not delivered. But for the first, nothing that was sent since the last [`settle`](super::Sender::settle) can be
/// relied on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The attempt is being cancelled.
    #[error("cancelled")]
    Closed,
    /// Another producer with the same transactional id was initialized, or the broker ended the transaction because it was open for
    /// too long.
    #[error("the broker has shut this producer out: {0}")]
    Fenced(String),
    /// A record could not be delivered.
    #[error("topic `{topic}` partition {partition}: {reason}")]
    Undelivered {
        /// Its topic.
        topic: String,
        /// Its partition, -1 if it had none yet.
        partition: i32,
        /// Why.
        reason: String,
        /// As librdkafka numbers it.
        code: RDKafkaErrorCode,
    },
    /// The transaction has failed, with all that was sent in it, by whomever.
    #[error("the transaction has failed: {reason}")]
    Failed {
        /// Why, as librdkafka says it.
        reason: String,
        /// If the broker does not permit something.
        code: Option<RDKafkaErrorCode>,
    },
    /// Deliveries were not reported in time.
    #[error(
        "{waiting} records were not acknowledged within {} s{}",
        .patience.as_secs(),
        .trouble.as_deref().map(|trouble| format!(" ({trouble})")).unwrap_or_default()
    )]
    Unacknowledged {
        /// How many are left.
        waiting: u64,
        /// How long was waited.
        patience: Duration,
        /// The last that was heard of the connection.
        trouble: Option<String>,
    },
    /// The producer cannot go on.
    #[error("{0}")]
    Unusable(String),
}

impl Failure {
    /// Whether the broker does not permit it.
    pub fn is_unauthorized(&self) -> bool {
        match self {
            Failure::Undelivered { code, .. }
            | Failure::Failed {
                code: Some(code), ..
            } => is_unauthorized(*code),
            _ => false,
        }
    }

    /// Whether the same record would fail again on every try.
    pub fn is_permanent(&self) -> bool {
        use RDKafkaErrorCode as Code;
        let Failure::Undelivered { code, .. } = self else {
            return self.is_unauthorized();
        };
        let of_record = matches!(
            code,
            Code::MessageSizeTooLarge
                | Code::InvalidTimestamp
                | Code::InvalidRecord
                | Code::UnknownPartition
                | Code::PolicyViolation
        );
        of_record || is_unauthorized(*code)
    }
}

pub(super) fn fences(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch
    )
}

/// Why a commit is not known to have happened. The producer must not be used again, whichever it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The producer is shut out (see [`Failure::Fenced`]). Whether the commit happened before that is not known.
    #[error("the broker has shut this producer out: {0}")]
    Fenced(String),
    /// The broker does not permit what the transaction needs: it is not committed, and none will be.
    #[error("not permitted: {0}")]
    Refused(String),
    /// The transaction is not committed and never will be: it had failed before it was to be committed.
    #[error("the transaction had failed: {0}")]
    NotCommitted(String),
    /// Not known; or it was committed, but something went wrong on the way, and a copy of the request may still be on its way.
    #[error("whether the transaction was committed is not certain: {0}")]
    Unclear(String),
}

/// How a commit went.
pub(super) struct Circumstances {
    /// Quickly, and without trouble on the way.
    pub(super) clean: bool,
    /// Whether there was an answer to the request that ends the transaction.
    pub(super) asked: bool,
    /// In words.
    pub(super) text: String,
}

/// What the result of a commit says.
pub(super) fn judge(
    result: &Result<(), KafkaError>,
    circumstances: &Circumstances,
) -> Result<(), CommitError> {
    let Circumstances { clean, asked, text } = circumstances;
    let error = match result {
        Ok(()) if *clean => return Ok(()),
        Ok(()) => {
            let text = format!("the broker says that it was, {text}");
            return Err(CommitError::Unclear(text));
        }
        Err(error) => error,
    };
    let what = error.to_string();
    if error.rdkafka_error_code().is_some_and(fences) {
        return Err(CommitError::Fenced(what));
    }
    // A transaction that has failed is not even asked to be committed. But one may fail while it waits for the answer, which is then
    // not told of but in the error.
    let failed_before = *clean
        && !asked
        && !what.contains("EndTxn")
        && matches!(error, KafkaError::Transaction(error) if error.txn_requires_abort());
    if failed_before {
        Err(CommitError::NotCommitted(what))
    } else {
        Err(CommitError::Unclear(format!("{what}, {text}")))
    }
}
