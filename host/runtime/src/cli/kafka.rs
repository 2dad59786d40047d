//! `weir kafka`: what is done to Kafka for a job that does not run.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use super::{args, load, print, refuse};
use crate::checkpoint::Ownership;
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::job::model::{Job, KafkaConnection, KafkaSink, SinkConnector};
use crate::kafka::{self, acls};
use crate::run::{Guarantee, Refused};
use crate::{log, start};

/// How long a cluster may take to do it.
const PATIENCE: Duration = Duration::from_secs(20);

/// `weir kafka clear`.
pub(super) fn clear(args: &args::KafkaClear) -> ExitCode {
    let job = match load(&args.job) {
        Ok(job) => job,
        Err(problems) => return refuse(&problems, ExitCode::InvalidJob),
    };
    log::start(job.name.as_str(), false);
    match cleared(&job, args) {
        Ok(text) => print(&text),
        Err(refused) => refuse(&refused.problems, refused.code),
    }
}

/// Does it, and gives what is to be said of it.
fn cleared(job: &Job, args: &args::KafkaClear) -> Result<String, Refused> {
    let sink = sink(job, args.ids.is_some())?;
    let prefix = args.ids.as_deref().unwrap_or(&sink.transactional_id);
    // Of the job that is named; ids of another one may be anywhere.
    let dir = start::data_dir(job, args.data_dir.clone());
    let dirs = [start::checkpoint_dir(job, &dir), dir];
    let there: Vec<_> = dirs
        .iter()
        .filter(|dir| dir.is_dir())
        .map(|dir| dir.as_path())
        .collect();
    if there.is_empty() && !args.not_running {
        return Err(cannot_tell(job, &dirs));
    }
    let _ownership = Ownership::take(&there, job.name.as_str())?;
    let timeout = sink.transaction_timeout(&job.checkpoint.clone().unwrap_or_default());
    let ids = kafka::clear(&sink.connection, prefix, timeout, PATIENCE)
        .map_err(|error| not_cleared(sink, prefix, &error))?;
    Ok(report(&sink.connection, &ids))
}

/// Neither the data directory nor the checkpoints are there, so no lock can tell.
fn cannot_tell(job: &Job, [checkpoints, data]: &[PathBuf; 2]) -> Refused {
    let title = format!("whether job {} runs cannot be told from here", job.name);
    let problem = Diagnostic::error("W0907", title)
        .note(format!(
            "there is no data directory {}, and no checkpoints in {}",
            data.display(),
            checkpoints.display()
        ))
        .help("name the job's data directory with `--data-dir`; of a job that ran on another machine and runs nowhere, say so with `--not-running`");
    Refused {
        problems: vec![problem],
        code: ExitCode::StartRefused,
    }
}

fn not_cleared(sink: &KafkaSink, prefix: &str, error: &kafka::Error) -> Refused {
    let mut what = error.to_string();
    if matches!(error, kafka::Error::Refused { .. }) {
        what.push_str(&acls::note(&[acls::of_ids(&sink.connection, prefix)]));
    }
    let problem = Diagnostic::error_of(error.code(), &what).note(format!(
        "what `{prefix}-0` and `{prefix}-1` have open may be as it was; the same command may be tried again"
    ));
    Refused {
        problems: vec![problem],
        code: if error.may_pass() {
            ExitCode::DependencyUnavailable
        } else {
            ExitCode::StartRefused
        },
    }
}

/// A sink by which to reach the cluster: one whose output is in transactions, unless other ids are named.
fn sink(job: &Job, named: bool) -> Result<&KafkaSink, Refused> {
    let refuse = |title: String, help: &str| Refused {
        problems: vec![Diagnostic::error("W0906", title).help(help)],
        code: ExitCode::InvalidJob,
    };
    let mut sinks = job.sinks.iter().filter_map(|sink| match &sink.connector {
        SinkConnector::Kafka(kafka) => Some((kafka.as_ref(), sink.inputs.is_empty())),
        SinkConnector::File { .. } | SinkConnector::Stdout | SinkConnector::Blackhole => None,
    });
    let first = sinks.clone().find(|(_, only_letters)| !only_letters);
    let Some((sink, _)) = first.or_else(|| sinks.next()) else {
        let title = format!(
            "job {} has no sink in Kafka, so it has no transactions",
            job.name
        );
        return Err(refuse(title, "name the job file as it was when it had one"));
    };
    let exactly_once = Guarantee::of(job).is_ok_and(|guarantee| guarantee.is_exactly_once());
    if !exactly_once && !named {
        let title = format!("job {} does not write to Kafka in transactions", job.name);
        return Err(refuse(
            title,
            "to clear ids that it had before, name what they begin with: `--ids PREFIX`",
        ));
    }
    Ok(sink)
}

fn report(connection: &KafkaConnection, ids: &[String; 2]) -> String {
    let [even, odd] = ids;
    let mut text = format!(
        "{even}, {odd}: what they had open is aborted, and what they were committing is committed\n\n\
         Kafka lists the transactions that there are with\n"
    );
    let config = if connection.sasl.is_some() || connection.tls.is_some() {
        " --command-config CLIENT.PROPERTIES"
    } else {
        ""
    };
    let tool = format!(
        "kafka-transactions --bootstrap-server {}{config}",
        connection.brokers
    );
    let _ = writeln!(text, "  {tool} list");
    for id in ids {
        let _ = writeln!(text, "  {tool} describe --transactional-id {id}");
    }
    text
}
