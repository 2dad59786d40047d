//! What is asked of Kafka before a job starts, and before each of its attempts.

use std::sync::Arc;

use super::{Guarantee, Refused};
use crate::attempt::Blueprint;
use crate::diagnostic::ExitCode;
use crate::graph::Plan;
use crate::job::model::Job;
use crate::kafka::preflight::{self, Found, Subject};
use crate::log;
use crate::memory::StateBudget;

/// Checks the job's Kafka outputs, and notes in `blueprint` what its sinks need to know of them. Warns of what may be wrong at
/// the first attempt only.
///
/// # Errors
/// A broker is away, a topic is missing, a setting does not fit.
pub(super) fn look_up(
    blueprint: &mut Blueprint,
    guarantee: &Guarantee,
    first: bool,
) -> Result<(), Refused> {
    let found = found(
        &blueprint.job,
        &blueprint.plan,
        guarantee,
        blueprint.memory.process(),
    )?;
    if first {
        found.warnings.iter().for_each(log::warn_of);
    }
    blueprint.kafka = Arc::new(found.outputs);
    Ok(())
}

/// Checks the job's Kafka outputs without running it, and warns of what may be wrong.
///
/// # Errors
/// As [`look_up`]; the job cannot give the delivery that it asks for.
pub(crate) fn check_kafka(job: &Job, plan: &Plan) -> Result<(), Refused> {
    let guarantee =
        Guarantee::of(job).map_err(|problem| Refused::one(problem, ExitCode::InvalidJob))?;
    let memory = StateBudget::new(job.memory).process();
    let found = found(job, plan, &guarantee, memory)?;
    found.warnings.iter().for_each(log::warn_of);
    Ok(())
}

fn found(job: &Job, plan: &Plan, guarantee: &Guarantee, memory: u64) -> Result<Found, Refused> {
    let subject = Subject {
        job,
        plan,
        exactly_once: guarantee.is_exactly_once(),
        memory,
    };
    preflight::check(subject).map_err(|refused| Refused {
        problems: refused.problems,
        code: refused.code,
    })
}
