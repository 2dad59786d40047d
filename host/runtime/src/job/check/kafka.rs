//! Kafka: how a cluster is reached. What is read and written of it, and what the Kafka connectors of a job have to do with each
//! other, is in the modules below.

mod sink;
mod source;
mod topics;
mod transactions;

use std::collections::BTreeMap;

use super::Check;
use crate::job::file::{
    KafkaFormatName, SaslMechanismName, SaslSection, SecretSection, TlsEntry, TlsSection,
};
use crate::job::forms::{Named, PropertyEntry, SecretReference};
use crate::job::kafka_properties::{self, Side};
use crate::job::model::{
    KafkaConnection, KafkaFormat, KafkaSasl, KafkaTls, PropertyValue, SaslMechanism, Secret,
};
use crate::job::print::is_secret;
use crate::job::suggest::nearest;
use crate::job::tree::shorten;
use crate::job::wording::{list, owner, subject};

/// How a job file says to reach a cluster.
struct RawConnection {
    brokers: String,
    tls: Option<TlsEntry>,
    sasl: Option<SaslSection>,
    properties: Option<Named<PropertyEntry>>,
}

/// The path of a field of what is at `path`.
fn below<'p>(path: &[&'p str], field: &'p str) -> Vec<&'p str> {
    [path, &[field]].concat()
}

impl Check<'_> {
    /// Refuses the connector at `path` in a weir that was built without Kafka.
    fn needs_kafka(&self, path: &[&str]) {
        if !self.has_kafka {
            let title = format!(
                "{} is of Kafka, which this weir was built without",
                subject(path)
            );
            self.push(
                self.error("W0124", path, title)
                    .help("build weir with its default features"),
            );
        }
    }

    /// Checks that exactly one of the fields of what is at `path` is there, and reports otherwise.
    fn exactly_one(&self, path: &[&str], given: &[(&str, bool)]) -> bool {
        let mut there = given.iter().filter(|(_, there)| *there);
        match (there.next(), there.next()) {
            (Some(_), None) => true,
            (None, _) => {
                let title = format!("{} is empty", subject(path));
                let all = list(given.iter().map(|(name, _)| *name));
                self.push(
                    self.error("W0104", path, title)
                        .note(format!("it needs one of {all}")),
                );
                false
            }
            (Some((first, _)), Some((second, _))) => {
                self.misplaced(
                    &below(path, second),
                    format!("and `{first}` exclude each other"),
                );
                false
            }
        }
    }

    /// A text that is not empty.
    fn name(&self, path: &[&str], text: String) -> Option<String> {
        if text.is_empty() || text.contains(char::is_control) {
            let wrong = match text.is_empty() {
                true => "is empty",
                false => "has control characters in it",
            };
            self.push(self.error("W0109", path, format!("{} {wrong}", subject(path))));
            return None;
        }
        Some(text)
    }

    /// How the connector at `path` reaches its cluster.
    fn connection(&self, path: &[&str], side: Side, raw: RawConnection) -> Option<KafkaConnection> {
        let brokers = self.brokers(&below(path, "brokers"), &raw.brokers);
        let tls = match raw.tls {
            None | Some(TlsEntry::Switch(false)) => Some(None),
            Some(TlsEntry::Switch(true)) => Some(Some(KafkaTls::default())),
            Some(TlsEntry::Settings(section)) => self.tls(&below(path, "tls"), section).map(Some),
        };
        let sasl = match raw.sasl {
            None => Some(None),
            Some(section) => self.sasl(&below(path, "sasl"), section).map(Some),
        };
        let Named(properties) = raw.properties.unwrap_or_default();
        let properties = self.properties(&below(path, "properties"), side, properties);
        Some(KafkaConnection {
            brokers: brokers?,
            tls: tls?,
            sasl: sasl?,
            properties: properties?,
        })
    }

    fn brokers(&self, path: &[&str], text: &str) -> Option<String> {
        if text.trim().is_empty() {
            self.push(self.error("W0109", path, format!("{} is empty", subject(path))));
            return None;
        }
        let brokers: Vec<&str> = text.split(',').map(str::trim).collect();
        if let Some(wrong) = brokers.iter().find(|broker| !is_broker(broker)) {
            let title = format!("{}: `{}` is not a broker", subject(path), shorten(wrong));
            self.push(self.error("W0109", path, title).note(
                "it is `host:port`, as in `kafka-1:9092` or `[::1]:9092`; several are separated by commas",
            ));
            return None;
        }
        Some(brokers.join(","))
    }

    fn tls(&self, path: &[&str], raw: TlsSection) -> Option<KafkaTls> {
        for (field, given, needs, there) in [
            (
                "key",
                raw.key.is_some(),
                "certificate",
                raw.certificate.is_some(),
            ),
            (
                "certificate",
                raw.certificate.is_some(),
                "key",
                raw.key.is_some(),
            ),
            (
                "key_password",
                raw.key_password.is_some(),
                "key",
                raw.key.is_some(),
            ),
        ] {
            if given && !there {
                self.misplaced(&below(path, field), format!("needs `{needs}`"));
            }
        }
        let file = |field, text: Option<String>| match text {
            Some(text) => self.absolute(&below(path, field), &text).map(Some),
            None => Some(None),
        };
        let key_password = match raw.key_password {
            Some(SecretReference(section)) => {
                self.secret(&below(path, "key_password"), section).map(Some)
            }
            None => Some(None),
        };
        Some(KafkaTls {
            ca: file("ca", raw.ca)?,
            certificate: file("certificate", raw.certificate)?,
            key: file("key", raw.key)?,
            key_password: key_password?,
        })
    }

    fn sasl(&self, path: &[&str], raw: SaslSection) -> Option<KafkaSasl> {
        let SecretReference(password) = raw.password;
        let username = self.name(&below(path, "username"), raw.username);
        let password = self.secret(&below(path, "password"), password);
        Some(KafkaSasl {
            mechanism: match raw.mechanism {
                SaslMechanismName::Plain => SaslMechanism::Plain,
                SaslMechanismName::ScramSha256 => SaslMechanism::ScramSha256,
                SaslMechanismName::ScramSha512 => SaslMechanism::ScramSha512,
            },
            username: username?,
            password: password?,
        })
    }

    fn secret(&self, path: &[&str], raw: SecretSection) -> Option<Secret> {
        let given = [
            ("file", raw.file.is_some()),
            ("env", raw.env.is_some()),
            ("credential", raw.credential.is_some()),
        ];
        if !self.exactly_one(path, &given) {
            return None;
        }
        let malformed = |field, wanted: &str| {
            let path = below(path, field);
            let title = format!("{} must be {wanted}", subject(&path));
            self.push(self.error("W0109", &path, title));
            None
        };
        match (raw.file, raw.env, raw.credential) {
            (Some(file), ..) => self.absolute(&below(path, "file"), &file).map(Secret::File),
            (_, Some(name), _) if name.is_empty() || name.contains(['=', '\0']) => {
                malformed("env", "the name of an environment variable")
            }
            (_, Some(name), _) => Some(Secret::Env(name)),
            (_, _, Some(name))
                if matches!(name.as_str(), "" | "." | "..") || name.contains(['/', '\0']) =>
            {
                malformed("credential", "the name of a credential, without folders")
            }
            (_, _, name) => name.map(Secret::Credential),
        }
    }

    fn properties(
        &self,
        path: &[&str],
        side: Side,
        raw: Vec<(String, PropertyEntry)>,
    ) -> Option<BTreeMap<String, PropertyValue>> {
        let mut all_good = true;
        let mut properties = BTreeMap::new();
        for (name, value) in raw {
            match self.property(path, side, &name, value) {
                Some(value) => {
                    properties.insert(name, value);
                }
                None => all_good = false,
            }
        }
        all_good.then_some(properties)
    }

    fn property(
        &self,
        section: &[&str],
        side: Side,
        name: &str,
        value: PropertyEntry,
    ) -> Option<PropertyValue> {
        let path = below(section, name);
        if let Some(remedy) = kafka_properties::owned(name) {
            let title = format!("{} is not for a job file to set", subject(&path));
            self.push(self.error("W0127", &path, title).help(remedy));
            return None;
        }
        match kafka_properties::passed(name) {
            Some(Side::Consumer) if side == Side::Producer => {
                self.misplaced(&path, "is a property of consumers, which a sink is not");
                return None;
            }
            Some(Side::Producer) if side == Side::Consumer => {
                self.misplaced(&path, "is a property of producers, which a source is not");
                return None;
            }
            Some(_) => {}
            None => {
                let title = format!("unknown property `{}` in {}", shorten(name), owner(section));
                let error = self.error("W0102", &path, title);
                self.push(match nearest(name, kafka_properties::names()) {
                    Some(meant) => error.note(format!("did you mean `{meant}`?")),
                    None => error.note("properties are those of librdkafka 2.12, by its names"),
                });
                return None;
            }
        }
        match value {
            PropertyEntry::Text(_) if is_secret(name) => {
                let title = format!("{}: a secret does not belong in a job file", subject(&path));
                self.push(self.error("W0109", &path, title).help(
                    "say where it is: `{file: PATH}`, `{env: NAME}` or `{credential: NAME}`",
                ));
                None
            }
            PropertyEntry::Text(text) if text.contains('\0') => {
                let title = format!("{} has a zero byte in it", subject(&path));
                self.push(self.error("W0109", &path, title));
                None
            }
            PropertyEntry::Text(text) => Some(PropertyValue::Text(text)),
            PropertyEntry::Secret(section) => {
                self.secret(&path, section).map(PropertyValue::Secret)
            }
        }
    }
}

/// Whether `text` is `host:port`.
fn is_broker(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    is_host
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// What a value is; raw unless the file says.
fn format(name: Option<KafkaFormatName>) -> KafkaFormat {
    match name {
        None | Some(KafkaFormatName::Raw) => KafkaFormat::Raw,
        Some(KafkaFormatName::String) => KafkaFormat::Text,
        Some(KafkaFormatName::Json) => KafkaFormat::Json,
    }
}

#[cfg(test)]
mod tests {
    use super::is_broker;

    #[test]
    fn brokers_are_hosts_with_ports() {
        for (text, expected) in [
            ("kafka-1:9092", true),
            ("10.0.0.1:1", true),
            ("a_b.example:65535", true),
            ("[::1]:9092", true),
            ("kafka-1", false),
            ("kafka-1:", false),
            ("kafka-1:0", false),
            ("kafka-1:65536", false),
            ("kafka-1:+9092", false),
            (":9092", false),
            ("::1:9092", false),
            ("[kafka]:9092", false),
            ("SSL://kafka-1:9092", false),
            ("me@kafka:9092", false),
            ("kafka 1:9092", false),
            ("", false),
        ] {
            assert_eq!(is_broker(text), expected, "{text}");
        }
    }
}
