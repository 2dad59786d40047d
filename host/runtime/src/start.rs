//! Everything that can be refused before a job starts: components, ports, directories. Used by `weir check` and `weir run`.

mod config;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_operator::{CacheUse, CallError, CompileCache, Component, Engine, Limits, LoadError};

use crate::attempt::LoadedOperator;
use crate::checkpoint;
use crate::diagnostic::{Diagnostic, Location};
use crate::graph::{self, Plan};
use crate::job::model::{Job, JobName, Operator, Place, SinkConnector};
use crate::log::{self, Level, Line};
use crate::{sink, source};
pub(crate) use config::check_argument;

/// Largest component file that is read.
const MAX_COMPONENT_BYTES: u64 = 512 << 20;

/// A job that was checked against its components.
pub struct Checked {
    /// The operators' components, in the order of the job.
    pub operators: Vec<LoadedOperator>,
    /// The plan.
    pub plan: Plan,
}

fn at(job: &Job, place: Place) -> Option<Location> {
    (place.line > 0).then(|| Location {
        file: job.file.clone().into(),
        line: place.line,
        column: place.column,
    })
}

/// A message with its place in the job file, if it has one.
pub fn placed(diagnostic: Diagnostic, job: &Job, place: Place) -> Diagnostic {
    match at(job, place) {
        Some(location) => diagnostic.at(location),
        None => diagnostic,
    }
}

/// Loads and checks every component, and plans the job at `parallelism` where it does not say otherwise. `checkpoints` is where the
/// job's checkpoint storage is or would be: it may keep a component whose file is missing.
///
/// # Errors
/// All that is wrong, not only the first.
pub fn check(
    job: &Job,
    engine: &Engine,
    parallelism: u16,
    checkpoints: &Path,
) -> Result<Checked, Vec<Diagnostic>> {
    let mut problems = Vec::new();
    let mut operators = Vec::new();
    // One file may serve several operators; it is compiled once.
    let mut compiled = Vec::new();
    for operator in &job.operators {
        let limits = limits(operator);
        let (component, bytes) = match load(job, operator, engine, &mut compiled, checkpoints) {
            Ok(loaded) => loaded,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let described = component.describe(Some(&operator.config), &limits);
        let wrong = config::problems(job, operator, &component, &described, &limits);
        match described {
            Ok(description) if wrong.is_empty() => operators.push(LoadedOperator {
                component,
                bytes,
                description,
                limits,
            }),
            Err(error) if wrong.is_empty() => {
                problems.push(describe_problem(job, operator, &error));
            }
            _ => problems.extend(wrong),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let descriptions: Vec<_> = operators
        .iter()
        .map(|loaded| loaded.description.clone())
        .collect();
    let plan = graph::plan(job, &descriptions, parallelism).map_err(|problems| {
        let diagnostic = |problem: graph::Problem| {
            let diagnostic = Diagnostic::error(problem.code, problem.title).help(problem.help);
            placed(diagnostic, job, problem.place)
        };
        problems.into_iter().map(diagnostic).collect::<Vec<_>>()
    })?;
    Ok(Checked { operators, plan })
}

/// The operator's limits over the loader's defaults.
fn limits(operator: &Operator) -> Limits {
    let (asked, default) = (&operator.limits, Limits::default());
    let bytes = |asked: Option<u64>, default| {
        asked.map_or(default, |bytes| {
            usize::try_from(bytes).unwrap_or(usize::MAX)
        })
    };
    Limits {
        memory_bytes: bytes(asked.memory, default.memory_bytes),
        call_time: asked.call_time.unwrap_or(default.call_time),
        output_bytes: bytes(asked.output, default.output_bytes),
        value_bytes: bytes(asked.value, default.value_bytes),
    }
}

fn load(
    job: &Job,
    operator: &Operator,
    engine: &Engine,
    compiled: &mut Vec<(PathBuf, Component, Arc<[u8]>)>,
    checkpoints: &Path,
) -> Result<(Component, Arc<[u8]>), Diagnostic> {
    let path = &operator.component;
    let shown = shown(job, path);
    let known = compiled.iter().find(|(known, ..)| known == path);
    let (component, bytes) = match known {
        Some((_, component, bytes)) => (component.clone(), bytes.clone()),
        None => {
            let bytes: Arc<[u8]> = read(path)
                .map_err(|error| unreadable(job, operator, &shown, &error, checkpoints))?
                .into();
            let component = engine
                .load(&bytes, &shown)
                .map_err(|error| placed(load_problem(&error), job, operator.place))?;
            compiled.push((path.clone(), component.clone(), bytes.clone()));
            (component, bytes)
        }
    };
    if let Some(pinned) = &operator.sha256
        && pinned != component.sha256()
    {
        let diagnostic = Diagnostic::error("W0202", format!("{shown} is not the pinned component"))
            .note(format!("pinned: {pinned}\nfound:  {}", component.sha256()))
            .help("restore the pinned file, or pin the new one");
        return Err(placed(diagnostic, job, operator.place));
    }
    Ok((component, bytes))
}

/// A component's file that cannot be read. The job does not fall back to the one it ran last, which may not be the one that the
/// job file means; but if checkpoint storage keeps that, it is said where.
fn unreadable(
    job: &Job,
    operator: &Operator,
    shown: &str,
    error: &std::io::Error,
    checkpoints: &Path,
) -> Diagnostic {
    let title = format!("cannot read component {shown}: {error}");
    let diagnostic = Diagnostic::error("W0201", title);
    let kept = checkpoint::kept_component(checkpoints, job.name.as_str(), operator.id.as_str());
    let diagnostic = match kept {
        Some(kept) => diagnostic
            .note(format!(
                "checkpoint {} was taken with a component that is kept as\n{}",
                kept.n,
                kept.file.display()
            ))
            .help(format!(
                "copy that one to {shown}, or build it anew, or correct the path"
            )),
        None => {
            diagnostic.help("build it first, or correct the path; it is relative to the job file")
        }
    };
    placed(diagnostic, job, operator.place)
}

/// A file as messages name it: relative to the job file if it is below its folder.
pub fn shown(job: &Job, path: &Path) -> String {
    path.strip_prefix(&job.dir)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// Reads a component's file, unless it is absurdly large.
///
/// # Errors
/// The file cannot be read or is larger than 512 MiB.
pub fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let length = fs::metadata(path)?.len();
    if length > MAX_COMPONENT_BYTES {
        return Err(std::io::Error::other(format!(
            "{length} bytes are more than {MAX_COMPONENT_BYTES}"
        )));
    }
    fs::read(path)
}

/// A component that is none, in words.
pub fn load_problem(error: &LoadError) -> Diagnostic {
    let problem = &error.problem;
    let diagnostic = Diagnostic::error("W0210", format!("{} {}", error.origin, problem.headline()))
        .note(problem.detail());
    match problem.help() {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

/// An enumerator of a component's description, as the contract spells it.
pub fn lower(kind: &impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// A source's error, which may name the source itself.
pub fn source_problem(source: &str, error: &source::Error) -> Diagnostic {
    let text = error.to_string();
    let named = text.starts_with("source `");
    let title = if named {
        text
    } else {
        format!("source `{source}`: {text}")
    };
    Diagnostic::error_of(error.code(), &title)
}

/// Whether every source finds something to read.
///
/// # Errors
/// One for each that does not.
pub fn check_inputs(job: &Job) -> Result<(), Vec<Diagnostic>> {
    let problems: Vec<_> = job
        .sources
        .iter()
        .filter_map(|source| {
            let error = source::discover(source).err()?;
            Some(placed(
                source_problem(source.id.as_str(), &error),
                job,
                source.place,
            ))
        })
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Whether every file sink can write to its directory; with `create`, one that is missing is made.
///
/// # Errors
/// One for each that cannot.
pub fn check_directories(job: &Job, create: bool) -> Result<(), Vec<Diagnostic>> {
    let problems: Vec<_> = job
        .sinks
        .iter()
        .filter_map(|sink| {
            let SinkConnector::File { dir, .. } = &sink.connector else {
                return None;
            };
            let error = sink::parts::check_dir(sink.id.as_str(), dir, create).err()?;
            Some(placed(
                Diagnostic::error(error.code(), error.to_string()),
                job,
                sink.place,
            ))
        })
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// The plan in words: a line an edge.
pub fn outline(job: &Job, checked: &Checked) -> String {
    let plan = &checked.plan;
    let mut text = format!("job {}, {} key groups\n", job.name, job.max_parallelism);
    for edge in &plan.edges {
        let (from, to) = (&plan.nodes[edge.from], &plan.nodes[edge.to]);
        let how = if edge.chained {
            "chained".to_owned()
        } else {
            lower(&edge.exchange)
        };
        text.push_str(&format!(
            "  {} ×{} -> {} ×{} ({how})\n",
            from.id, from.parallelism, to.id, to.parallelism
        ));
    }
    text
}

fn describe_problem(job: &Job, operator: &Operator, error: &CallError) -> Diagnostic {
    let (code, help) = match error {
        CallError::Open(_) => ("W0212", "correct `config:` of the operator"),
        _ => (
            "W0211",
            "the component must be corrected; `weir inspect` shows what it declares",
        ),
    };
    placed(
        Diagnostic::error(code, format!("operator `{}`: {error}", operator.id)).help(help),
        job,
        operator.place,
    )
}

/// Where the job keeps its own files: as asked, else `$STATE_DIRECTORY`, else `.weir/NAME` beside the job file.
pub fn data_dir(job: &Job, asked: Option<PathBuf>) -> PathBuf {
    data_dir_of(&job.dir, &job.name, asked)
}

/// The same for a job of which only the name and the folder of its file are known.
pub fn data_dir_of(folder: &Path, name: &JobName, asked: Option<PathBuf>) -> PathBuf {
    asked
        .or_else(|| {
            // A service manager may name several, separated by colons; the first is ours.
            let dirs = std::env::var_os("STATE_DIRECTORY")?;
            std::env::split_paths(&dirs)
                .next()
                .filter(|dir| !dir.as_os_str().is_empty())
        })
        .unwrap_or_else(|| folder.join(".weir").join(name.as_str()))
}

/// Where the job's checkpoint storage is: as the job file says, else `checkpoints` in the data directory.
pub fn checkpoint_dir(job: &Job, data_dir: &Path) -> PathBuf {
    let asked = job.checkpoint.as_ref().and_then(|it| it.dir.clone());
    asked.unwrap_or_else(|| data_dir.join("checkpoints"))
}

/// An engine that keeps compiled operators where `$WEIR_CACHE` says, else in `cache` of the data directory, else nowhere: a verb
/// that only looks has no data directory.
///
/// # Errors
/// The engine does not start on this machine.
pub fn engine(data_dir: Option<&Path>) -> Result<Engine, weir_operator::Error> {
    match cache_dir(std::env::var_os("WEIR_CACHE"), data_dir) {
        Some(dir) => Engine::with_cache(CompileCache::new(dir)),
        None => Engine::new(),
    }
}

fn cache_dir(asked: Option<OsString>, data_dir: Option<&Path>) -> Option<PathBuf> {
    asked
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from)
        .or_else(|| data_dir.map(|dir| dir.join("cache")))
}

/// Says why compiled operators could not be kept (W0203), each reason once.
pub fn warn_of_cache<'a>(components: impl IntoIterator<Item = &'a Component>) {
    let reasons: BTreeSet<String> = components
        .into_iter()
        .filter_map(|component| match component.cache_use() {
            CacheUse::Failed(error) => Some(error.to_string()),
            CacheUse::None | CacheUse::Hit | CacheUse::Stored => None,
        })
        .collect();
    for reason in reasons {
        let text =
            format!("compiled operators are not kept, each start compiles them again: {reason}");
        log::write(Line::new(Level::Warn, text).code("W0203"));
    }
}

/// Subtasks of what does not say its own: the job's, else the CPUs this process may use.
pub fn parallelism(job: &Job) -> u16 {
    let cpus = std::thread::available_parallelism()
        .map_or(1, |cpus| u16::try_from(cpus.get()).unwrap_or(u16::MAX));
    job.parallelism
        .unwrap_or(cpus)
        .clamp(1, job.max_parallelism)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_it_is_asked_for_else_with_the_job() {
        let dir = |asked: Option<&str>, data_dir: Option<&str>| {
            cache_dir(asked.map(OsString::from), data_dir.map(Path::new))
        };
        assert_eq!(dir(Some("/c"), Some("/d")), Some("/c".into()));
        assert_eq!(dir(Some("/c"), None), Some("/c".into()));
        assert_eq!(dir(Some(""), Some("/d")), Some("/d/cache".into()));
        assert_eq!(dir(None, Some("/d")), Some("/d/cache".into()));
        assert_eq!(dir(None, None), None);
    }
}
