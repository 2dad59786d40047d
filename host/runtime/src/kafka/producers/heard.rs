//! What librdkafka's log says of transactions, and nothing else does.

use rdkafka::error::RDKafkaErrorCode;

/// What a transactional producer has said of its commits so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Answers to the request that ends a transaction, its loss included.
    pub(super) answers: u64,
    /// Those that are not a plain yes.
    pub(super) bad: u64,
    /// Commits that have come to an end, whichever.
    pub(super) ended: u64,
}

impl Heard {
    /// Takes note of a line of librdkafka's debug log. Lines come in the order of what they tell of.
    pub(super) fn line(&mut self, facility: &str, message: &str) {
        match facility {
            "ENDTXN" if message.contains("EndTxn returned ") => {
                self.answers += 1;
                let yes = message.contains("EndTxn returned NO_ERROR ");
                self.bad += u64::from(!yes);
            }
            "TXNAPI" if message.contains("API commit_transaction return") => self.ended += 1,
            _ => {}
        }
    }
}

/// Why a transaction has failed. Its records are thrown away then, and that is all that is said of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// In librdkafka's words.
    pub(super) reason: String,
    /// If it is one that matters.
    pub(super) code: Option<RDKafkaErrorCode>,
}

impl Cause {
    /// From librdkafka's log, if the line tells of such a thing: `… failed in state S: reason (NAME)`.
    pub(super) fn of(facility: &str, message: &str) -> Option<Cause> {
        use RDKafkaErrorCode as Code;
        if facility != "TXNERR" {
            return None;
        }
        let (_, told) = message.split_once("transaction failed in state ")?;
        let (_, reason) = told.split_once(": ")?;
        let name = reason.rsplit_once('(').map(|(_, name)| name);
        let code = match name {
            Some("TOPIC_AUTHORIZATION_FAILED)") => Some(Code::TopicAuthorizationFailed),
            Some("TRANSACTIONAL_ID_AUTHORIZATION_FAILED)") => {
                Some(Code::TransactionalIdAuthorizationFailed)
            }
            Some("CLUSTER_AUTHORIZATION_FAILED)") => Some(Code::ClusterAuthorizationFailed),
            _ => None,
        };
        let reason = reason.to_owned();
        Some(Cause { reason, code })
    }
}
