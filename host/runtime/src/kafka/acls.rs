//! Permissions that a job needs, as the lines that grant them.

use crate::job::model::{KafkaConnection, KafkaSink};

/// `kafka-acls` up to what is granted.
fn grant(connection: &KafkaConnection) -> String {
    let user = match (&connection.sasl, &connection.tls) {
        (Some(sasl), _) => sasl.username.as_str(),
        (None, Some(tls)) if tls.certificate.is_some() => "<the subject of the certificate>",
        (None, _) => "ANONYMOUS",
    };
    format!(
        "kafka-acls --bootstrap-server {} --add --allow-principal 'User:{user}'",
        connection.brokers
    )
}

/// What `sink` needs, a command a line; more where it is written exactly once.
pub fn of_sink(sink: &KafkaSink, exactly_once: bool) -> Vec<String> {
    let grant = grant(&sink.connection);
    let mut lines: Vec<String> = sink
        .topic
        .names()
        .iter()
        .map(|topic| {
            format!(
                "{grant} --operation Write --operation Describe --operation DescribeConfigs --topic '{topic}'"
            )
        })
        .collect();
    lines.push(format!(
        "{grant} --operation IdempotentWrite --operation DescribeConfigs --cluster"
    ));
    if exactly_once {
        lines.push(of_ids(&sink.connection, &sink.transactional_id));
        lines.push(format!(
            "{grant} --operation Read --operation Write --operation Describe --operation DescribeConfigs --operation Create --topic '{}'",
            sink.commit_topic
        ));
    }
    lines
}

/// What the use of transactional ids that begin with `prefix` needs.
pub fn of_ids(connection: &KafkaConnection, prefix: &str) -> String {
    let grant = grant(connection);
    format!(
        "{grant} --operation Write --operation Describe --transactional-id '{prefix}' --resource-pattern-type prefixed"
    )
}

/// What a reader of `topics` that commits to `group` needs. `topics` may end in `*` where it stands for all that begin so.
pub fn of_source(connection: &KafkaConnection, topics: &[String], group: &str) -> Vec<String> {
    let grant = grant(connection);
    let mut lines: Vec<String> = topics
        .iter()
        .map(|topic| format!("{grant} --operation Read --operation Describe --topic '{topic}'"))
        .collect();
    lines.push(format!("{grant} --operation Read --group '{group}'"));
    lines
}

/// The lines as what follows a message.
pub fn note(lines: &[String]) -> String {
    let mut text = "\nwhat the job needs is granted by".to_owned();
    for line in lines {
        text.push_str("\n  ");
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_reads_its_topics_and_its_group() {
        let connection = KafkaConnection {
            brokers: "b:9092".to_owned(),
            ..KafkaConnection::default()
        };
        assert_eq!(
            of_source(&connection, &["orders".to_owned()], "weir-night"),
            [
                "kafka-acls --bootstrap-server b:9092 --add --allow-principal 'User:ANONYMOUS' --operation Read --operation Describe --topic 'orders'",
                "kafka-acls --bootstrap-server b:9092 --add --allow-principal 'User:ANONYMOUS' --operation Read --group 'weir-night'",
            ]
        );
    }
}
