//! What an operator says it is, and the check of that.

use std::collections::BTreeSet;
use std::fmt;

use crate::contract::wit::types as wit;

/// Pairs of name and value that extend a declaration. A checked description has no others than those
/// whose names are defined: [`CONFIG_SCHEMA`] of the operator itself.
pub type Options = Vec<(String, String)>;

/// The option of a description whose value is the JSON Schema of the operator's configuration.
pub const CONFIG_SCHEMA: &str = "config-schema";

/// What an operator is and needs. Positions in the lists are what calls refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The operator's name, for people.
    pub name: String,
    /// The operator's version, for people; may be empty.
    pub version: String,
    /// At least one.
    pub inputs: Vec<InputDecl>,
    /// What it emits to.
    pub outputs: Vec<OutputDecl>,
    /// What it keeps.
    pub states: Vec<StateDecl>,
    /// What it sets.
    pub timers: Vec<TimerDecl>,
    /// Whether it wants to hear of watermarks.
    pub on_watermark: bool,
    /// [`CONFIG_SCHEMA`], or none.
    pub options: Options,
}

/// An input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputDecl {
    /// By which a job file connects it; unique among the inputs.
    pub name: String,
    /// How its records are spread over the operator's instances.
    pub kind: InputKind,
    /// Whether the operator wants to see the records' headers.
    pub headers: bool,
    /// None are defined yet.
    pub options: Options,
}

/// How an input's records are spread over the operator's instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// By key; state and timers may be used.
    Keyed,
    /// Any way; keys may be null.
    Unkeyed,
    /// To all of them; not supported yet.
    Broadcast,
}

/// An output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputDecl {
    /// By which a job file connects it; unique among the outputs.
    pub name: String,
    /// Where its rows' keys come from.
    pub keys: OutputKeys,
    /// None are defined yet.
    pub options: Options,
}

/// Where the keys of an output's rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKeys {
    /// From the rows' origins, always.
    Kept,
    /// From the guest; what it leaves out, from the rows' origins.
    Given,
    /// Nowhere: they are null.
    Absent,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDecl {
    /// Which identifies it when a job is restored; unique among the states.
    pub name: String,
    /// What a cell holds.
    pub kind: StateKind,
    /// Of the values' schema.
    pub version: u32,
    /// The versions that can be migrated to this one.
    pub migrates_from: Vec<u32>,
    /// `None`: values live until they are deleted.
    pub ttl: Option<Ttl>,
    /// How values and items are encoded; empty if not said.
    pub value_encoding: String,
    /// How entries' names are encoded; empty if not said.
    pub entry_encoding: String,
    /// None are defined yet.
    pub options: Options,
}

/// What a cell of a state holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateKind {
    /// One value or none.
    Value,
    /// A list of items.
    Items,
    /// A map ordered by names.
    Entries,
    /// One map for the whole operator; not supported yet.
    SharedEntries,
}

/// Time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl {
    /// Milliseconds of processing time, at least 1.
    pub millis: u64,
    /// What starts them anew.
    pub renewal: TtlRenewal,
}

/// What extends the life of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TtlRenewal {
    /// Writing it.
    Write,
    /// Writing it and `touch`.
    Access,
}

/// A timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerDecl {
    /// Which identifies it when a job is restored; unique among the timers.
    pub name: String,
    /// The clock it follows.
    pub domain: TimeDomain,
    /// None are defined yet.
    pub options: Options,
}

/// Which clock a timer follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeDomain {
    /// The watermark.
    Event,
    /// The wall clock.
    Processing,
}

/// Bytes of names and encodings.
const NAME_BYTES: usize = 64;

/// Bytes of an operator's own name and version.
const TITLE_BYTES: usize = 256;

/// Declarations of one sort, and versions a state migrates from.
const DECLARATIONS: usize = 256;

impl Description {
    /// The JSON Schema of the configuration, as text, if the operator declares one. Not looked into here.
    pub fn config_schema(&self) -> Option<&str> {
        let option = self.options.iter().find(|(name, _)| name == CONFIG_SCHEMA);
        option.map(|(_, schema)| schema.as_str())
    }

    /// Checks what the contract asks of a description and what this host supports. The error is a
    /// sentence about the operator.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("its name is empty".to_owned());
        }
        for (what, title) in [("name", &self.name), ("version", &self.version)] {
            if title.len() > TITLE_BYTES || title.chars().any(char::is_control) {
                return Err(format!(
                    "its {what} is longer than {TITLE_BYTES} bytes or has control characters"
                ));
            }
        }
        if self.inputs.is_empty() {
            return Err("it declares no inputs".to_owned());
        }
        names(
            "input",
            self.inputs.iter().map(|input| &input.name),
            connects,
        )?;
        names(
            "output",
            self.outputs.iter().map(|output| &output.name),
            connects,
        )?;
        names(
            "state",
            self.states.iter().map(|state| &state.name),
            identifies,
        )?;
        names(
            "timer",
            self.timers.iter().map(|timer| &timer.name),
            identifies,
        )?;
        let mut others = self.options.clone();
        if let Some(first) = others.iter().position(|(name, _)| name == CONFIG_SCHEMA) {
            others.remove(first);
        }
        match others.first() {
            Some((name, _)) if name == CONFIG_SCHEMA => {
                return Err(format!("it has the option {CONFIG_SCHEMA:?} twice"));
            }
            _ => no_options("it", &others)?,
        }
        self.inputs.iter().try_for_each(InputDecl::check)?;
        for output in &self.outputs {
            no_options(&format!("output `{}`", output.name), &output.options)?;
        }
        self.states.iter().try_for_each(StateDecl::check)?;
        for timer in &self.timers {
            no_options(&format!("timer `{}`", timer.name), &timer.options)?;
        }
        if !self
            .inputs
            .iter()
            .any(|input| input.kind == InputKind::Keyed)
        {
            let unusable = self.states.first().map(|state| ("state", &state.name));
            if let Some((what, name)) =
                unusable.or(self.timers.first().map(|timer| ("timer", &timer.name)))
            {
                return Err(format!(
                    "it declares {what} `{name}`, but no keyed input from which to use it"
                ));
            }
        }
        Ok(())
    }
}

impl InputDecl {
    fn check(&self) -> Result<(), String> {
        let InputDecl {
            name,
            kind,
            headers: _,
            options,
        } = self;
        if *kind == InputKind::Broadcast {
            return Err(format!(
                "input `{name}` is broadcast, which is not supported yet"
            ));
        }
        no_options(&format!("input `{name}`"), options)
    }
}

impl StateDecl {
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if self.kind == StateKind::SharedEntries {
            return Err(format!(
                "state `{name}` is shared-entries, which is not supported yet"
            ));
        }
        if self.ttl.is_some_and(|ttl| ttl.millis == 0) {
            return Err(format!("state `{name}` has a TTL of 0 ms"));
        }
        if self.migrates_from.len() > DECLARATIONS {
            return Err(format!(
                "state `{name}` migrates from more than {DECLARATIONS} versions"
            ));
        }
        if self.migrates_from.contains(&self.version) {
            return Err(format!(
                "state `{name}` migrates from its own version, {}",
                self.version
            ));
        }
        for (what, encoding) in [
            ("value", &self.value_encoding),
            ("entry", &self.entry_encoding),
        ] {
            if encoding.len() > NAME_BYTES || encoding.chars().any(char::is_control) {
                return Err(format!(
                    "the {what} encoding of state `{name}` is longer than {NAME_BYTES} bytes or has \
                     control characters"
                ));
            }
        }
        no_options(&format!("state `{name}`"), &self.options)
    }
}

/// Names of one sort: not too many, each acceptable, none twice.
fn names<'a>(
    what: &str,
    names: impl ExactSizeIterator<Item = &'a String>,
    acceptable: fn(char) -> bool,
) -> Result<(), String> {
    if names.len() > DECLARATIONS {
        return Err(format!(
            "it declares {} {what}s; the limit is {DECLARATIONS}",
            names.len()
        ));
    }
    let mut seen = BTreeSet::new();
    for (position, name) in names.enumerate() {
        if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(acceptable) {
            return Err(format!(
                "the name of {what} {position}, {name:?}, is empty, too long or has characters it may \
                 not"
            ));
        }
        if !seen.insert(name) {
            return Err(format!("it declares two {what}s `{name}`"));
        }
    }
    Ok(())
}

/// Inputs and outputs are named in job files, as `operator.output`.
fn connects(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// States and timers are named in messages and by tools.
fn identifies(c: char) -> bool {
    !c.is_control() && !c.is_whitespace()
}

fn no_options(what: &str, options: &Options) -> Result<(), String> {
    match options.first() {
        Some((name, _)) => Err(format!(
            "{what} has an option that this host does not know, {name:?}"
        )),
        None => Ok(()),
    }
}

/// Shows enumerations by their names in the contract.
macro_rules! display_by_contract_name {
    ($($kind:ident { $($case:ident => $name:literal),+ })+) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($kind::$case => $name),+ })
            }
        }
    )+};
}

display_by_contract_name! {
    InputKind { Keyed => "keyed", Unkeyed => "unkeyed", Broadcast => "broadcast" }
    OutputKeys { Kept => "kept", Given => "given", Absent => "absent" }
    StateKind {
        Value => "value", Items => "items", Entries => "entries", SharedEntries => "shared-entries"
    }
    TtlRenewal { Write => "write", Access => "access" }
    TimeDomain { Event => "event", Processing => "processing" }
}

impl From<wit::Description> for Description {
    fn from(of: wit::Description) -> Self {
        Description {
            name: of.name,
            version: of.version,
            inputs: of.inputs.into_iter().map(Into::into).collect(),
            outputs: of.outputs.into_iter().map(Into::into).collect(),
            states: of.states.into_iter().map(Into::into).collect(),
            timers: of.timers.into_iter().map(Into::into).collect(),
            on_watermark: of.on_watermark,
            options: of.options,
        }
    }
}

impl From<wit::InputDecl> for InputDecl {
    fn from(of: wit::InputDecl) -> Self {
        let kind = match of.kind {
            wit::InputKind::Keyed => InputKind::Keyed,
            wit::InputKind::Unkeyed => InputKind::Unkeyed,
            wit::InputKind::Broadcast => InputKind::Broadcast,
        };
        InputDecl {
            name: of.name,
            kind,
            headers: of.headers,
            options: of.options,
        }
    }
}

impl From<wit::OutputDecl> for OutputDecl {
    fn from(of: wit::OutputDecl) -> Self {
        let keys = match of.keys {
            wit::OutputKeys::Kept => OutputKeys::Kept,
            wit::OutputKeys::Given => OutputKeys::Given,
            wit::OutputKeys::Absent => OutputKeys::Absent,
        };
        OutputDecl {
            name: of.name,
            keys,
            options: of.options,
        }
    }
}

impl From<wit::StateDecl> for StateDecl {
    fn from(of: wit::StateDecl) -> Self {
        StateDecl {
            name: of.name,
            kind: match of.kind {
                wit::StateKind::Value => StateKind::Value,
                wit::StateKind::Items => StateKind::Items,
                wit::StateKind::Entries => StateKind::Entries,
                wit::StateKind::SharedEntries => StateKind::SharedEntries,
            },
            version: of.version,
            migrates_from: of.migrates_from,
            ttl: of.ttl.map(|ttl| Ttl {
                millis: ttl.millis,
                renewal: match ttl.renewal {
                    wit::TtlRenewal::Write => TtlRenewal::Write,
                    wit::TtlRenewal::Access => TtlRenewal::Access,
                },
            }),
            value_encoding: of.value_encoding,
            entry_encoding: of.entry_encoding,
            options: of.options,
        }
    }
}

impl From<wit::TimerDecl> for TimerDecl {
    fn from(of: wit::TimerDecl) -> Self {
        let domain = match of.domain {
            wit::TimeDomain::Event => TimeDomain::Event,
            wit::TimeDomain::Processing => TimeDomain::Processing,
        };
        TimerDecl {
            name: of.name,
            domain,
            options: of.options,
        }
    }
}

#[cfg(test)]
mod tests;
