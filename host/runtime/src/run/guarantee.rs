//! What a job can promise of its output, and whether it takes checkpoints at all.

use std::fmt;

use crate::diagnostic::Diagnostic;
use crate::job::model::{Delivery, Job, SinkConnector, SourceConnector};

/// The delivery of a job, resolved from what was asked for and what its connectors can give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    delivery: Delivery,
    checkpoints: bool,
    restarts: bool,
    /// What keeps it from being stronger, if anything does.
    because: Option<String>,
}

impl Guarantee {
    /// The strongest delivery that the job's connectors can give, or the one asked for if that is weaker.
    ///
    /// A job takes checkpoints if the file says so, if it writes files, which become visible with a checkpoint, or if it writes to
    /// Kafka what it could read again.
    ///
    /// # Errors
    /// A delivery was asked for that a connector cannot give.
    pub fn of(job: &Job) -> Result<Guarantee, Diagnostic> {
        let stdin = job
            .sources
            .iter()
            .find(|source| source.connector == SourceConnector::Stdin);
        let stdout = job
            .sinks
            .iter()
            .find(|sink| sink.connector == SinkConnector::Stdout);
        let files = job
            .sinks
            .iter()
            .any(|sink| matches!(sink.connector, SinkConnector::File { .. }));
        let kafka = job
            .sinks
            .iter()
            .any(|sink| matches!(sink.connector, SinkConnector::Kafka(_)));
        let checkpoints = job.checkpoint.is_some() || files || (kafka && stdin.is_none());
        let restarts = stdin.is_none();
        if let (Some(source), Some(sink), true) = (stdin, stdout, checkpoints) {
            let title = "checkpoints are of no use between standard input and standard output";
            return Err(Diagnostic::error("W0119", title)
                .note(format!(
                    "source `{}` cannot be read again and sink `{}` cannot take back what it wrote, so a resumed job would both lose and repeat",
                    source.id, sink.id
                ))
                .help("leave out `checkpoint:` and file sinks, or one of the two"));
        }
        let (strongest, because) = match (stdin, stdout) {
            _ if !checkpoints => {
                let why = "no checkpoints are taken (add `checkpoint:` to take some)".to_owned();
                (Delivery::AtMostOnce, Some(why))
            }
            (Some(source), _) => {
                let why = format!("source `{}` cannot be read again", source.id);
                (Delivery::AtMostOnce, Some(why))
            }
            (None, Some(sink)) => {
                let why = format!("sink `{}` cannot take back what it wrote", sink.id);
                (Delivery::AtLeastOnce, Some(why))
            }
            (None, None) => (Delivery::ExactlyOnce, None),
        };
        match job.delivery {
            Some(asked) if asked > strongest => {
                let because = because.unwrap_or_default();
                Err(Diagnostic::error("W0119", format!("`delivery: {}` is not possible here", name(asked)))
                    .note(format!("{because}, so the strongest is {}", name(strongest)))
                    .help("leave `delivery` out for the strongest that is possible"))
            }
            Some(Delivery::AtMostOnce) if strongest > Delivery::AtMostOnce => {
                Err(Diagnostic::error("W0119", "`delivery: at-most-once` is not possible for inputs that can be read again")
                    .note("after a failure state goes back to the last checkpoint with its timers, and what they had made would be made again")
                    .help("leave `delivery` out for the strongest that is possible"))
            }
            Some(asked) if asked < strongest => {
                Ok(Guarantee {
                delivery: asked,
                checkpoints,
                restarts,
                because: Some("as asked".into()),
            })
            }
            _ => Ok(Guarantee {
                delivery: strongest,
                checkpoints,
                restarts,
                because,
            }),
        }
    }

    /// Whether alignment blocks channels: only where effects may be repeated may what comes after a barrier be in its snapshot.
    pub fn blocks(&self) -> bool {
        self.delivery != Delivery::AtLeastOnce
    }

    /// Whether an effect is committed once, whatever is killed when.
    pub fn is_exactly_once(&self) -> bool {
        self.delivery == Delivery::ExactlyOnce
    }

    /// Whether a failed attempt may be followed by another in this process: what was read of standard input is gone.
    pub fn restarts(&self) -> bool {
        self.restarts
    }

    /// Whether checkpoints are taken.
    pub fn checkpoints(&self) -> bool {
        self.checkpoints
    }
}

fn name(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::AtMostOnce => "at-most-once",
        Delivery::AtLeastOnce => "at-least-once",
        Delivery::ExactlyOnce => "exactly-once",
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(self.delivery))?;
        match &self.because {
            Some(because) => write!(f, ": {because}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::job;

    fn guarantee(text: &str) -> Result<Guarantee, Diagnostic> {
        let text = format!("version: 1\njob: j\n{text}");
        let job = job::parse(&text, Path::new("/j.yaml"), &|_| None)
            .unwrap_or_else(|problems| panic!("{}", crate::diagnostic::render(&problems)));
        Guarantee::of(&job)
    }

    const MADE: &str = "sources: {s: {generator: {records: 1}}}\n";
    const STDIN: &str = "sources: {s: {stdin: {format: raw}}}\n";
    const FILES: &str = "sinks: {out: {input: s, file: {dir: o}}}\n";
    const STDOUT: &str = "sinks: {out: {input: s, stdout: {}}}\n";
    const KAFKA: &str = "sinks: {out: {input: s, kafka: {brokers: b:9092, topic: t}}}\n";
    const CHECKPOINT: &str = "checkpoint: {interval: 1s}\n";

    #[test]
    fn each_path_gets_the_strongest_that_it_can_give() {
        let cases = [
            (format!("{MADE}{FILES}"), Delivery::ExactlyOnce, true),
            (format!("{MADE}{STDOUT}"), Delivery::AtMostOnce, false),
            (
                format!("{MADE}{STDOUT}{CHECKPOINT}"),
                Delivery::AtLeastOnce,
                true,
            ),
            (format!("{STDIN}{FILES}"), Delivery::AtMostOnce, true),
            (format!("{STDIN}{STDOUT}"), Delivery::AtMostOnce, false),
            (
                format!("delivery: at-least-once\n{MADE}{FILES}"),
                Delivery::AtLeastOnce,
                true,
            ),
            (format!("{MADE}{KAFKA}"), Delivery::ExactlyOnce, true),
            (
                format!("delivery: at-least-once\n{MADE}{KAFKA}"),
                Delivery::AtLeastOnce,
                true,
            ),
            // Nothing could be resumed, and nothing becomes visible by a checkpoint.
            (format!("{STDIN}{KAFKA}"), Delivery::AtMostOnce, false),
        ];
        for (text, delivery, checkpoints) in cases {
            let guarantee = guarantee(&text).expect(&text);
            assert_eq!(
                (guarantee.delivery, guarantee.checkpoints()),
                (delivery, checkpoints),
                "{text}"
            );
            // Unaligned barriers repeat effects, which only at-least-once allows.
            assert_eq!(
                guarantee.blocks(),
                delivery != Delivery::AtLeastOnce,
                "{text}"
            );
            assert_eq!(guarantee.restarts(), !text.contains("stdin"), "{text}");
        }
    }

    #[test]
    fn what_no_path_can_give_is_refused() {
        for text in [
            format!("{STDIN}{STDOUT}{CHECKPOINT}"),
            format!("delivery: at-least-once\n{MADE}{STDOUT}"),
            format!("delivery: at-most-once\n{MADE}{FILES}"),
            format!("delivery: at-most-once\n{MADE}{KAFKA}"),
        ] {
            let problem = guarantee(&text).expect_err(&text);
            assert!(problem.help.is_some(), "{problem}");
        }
    }
}
