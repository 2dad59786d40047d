//! A loaded operator: compiled code that agrees with the contract, from which instances are made.

use std::marker::PhantomData;
use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, HasData, Lift, Linker, Lower};

use crate::cache::CacheUse;
use crate::call_error::CallError;
use crate::contract::bindings::{Operator, OperatorPre};
use crate::contract::wit::types as wit;
use crate::contract::{LIFECYCLE, NEEDED, PACKAGE, VERSION};
use crate::description::Description;
use crate::detached::Detached;
use crate::engine::Engine;
use crate::environment::Environment;
use crate::host::{Host, Kind, arm};
use crate::inspect::{Interface, examine};
use crate::instance::Instance;
use crate::limits::Limits;
use crate::load_error::{LoadError, Problem};
use crate::wasi::{self, HANDLES};

/// Bytes that a guest may hand over at once while it describes itself: a description, or why there
/// is none.
const DESCRIPTION_BYTES: usize = 1 << 20;

/// A loaded operator. Clones share the compiled code.
#[derive(Clone)]
pub struct Component {
    loaded: Arc<Loaded>,
}

struct Loaded {
    engine: Engine,
    component: wasmtime::component::Component,
    cache_use: CacheUse,
    sha256: String,
    origin: String,
    interface: Interface,
}

impl Component {
    /// See [`Engine::load`].
    pub(crate) fn load(
        engine: &Engine,
        bytes: &[u8],
        origin: &str,
    ) -> Result<Component, LoadError> {
        let error = |problem| LoadError {
            origin: origin.to_owned(),
            problem,
        };
        let (inspection, component) = examine(bytes);
        if let Some(problem) = inspection.problem {
            return Err(error(problem));
        }
        let component = component.expect("what has no problem is or makes a component");
        let compiled = match engine.cache() {
            Some(cache) => cache.component(engine.wasmtime(), &component),
            None => wasmtime::component::Component::from_binary(engine.wasmtime(), &component)
                .map(|component| (component, CacheUse::None)),
        };
        let (component, cache_use) = compiled.map_err(|invalid| {
            error(Problem::Invalid {
                detail: format!("{invalid:#}"),
            })
        })?;
        let loaded = Loaded {
            engine: engine.clone(),
            component,
            cache_use,
            sha256: inspection.sha256,
            origin: origin.to_owned(),
            interface: inspection.interface,
        };
        let component = Component {
            loaded: Arc::new(loaded),
        };
        component
            .check_types()
            .map_err(|detail| error(Problem::Mismatch { detail }))?;
        Ok(component)
    }

    /// SHA-256 of the bytes that were loaded, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.loaded.sha256
    }

    /// Whether it was compiled, or its code came from the engine's cache.
    pub fn cache_use(&self) -> &CacheUse {
        &self.loaded.cache_use
    }

    /// What the caller of [`Engine::load`] named it.
    pub fn origin(&self) -> &str {
        &self.loaded.origin
    }

    /// What it imports and exports.
    pub fn interface(&self) -> &Interface {
        &self.loaded.interface
    }

    /// Asks the operator what it is, given the JSON text of its configuration or, with `None`, for
    /// whatever it can be used as. Runs in an instance of its own. What the description breaks of
    /// the contract is [`CallError::Contract`]; a configuration that the operator refuses is
    /// [`CallError::Open`]. What the operator logs meanwhile is dropped.
    pub fn describe(
        &self,
        config: Option<&str>,
        limits: &Limits,
    ) -> Result<Description, CallError> {
        let nothing = Arc::new(Description {
            name: String::new(),
            version: String::new(),
            inputs: vec![],
            outputs: vec![],
            states: vec![],
            timers: vec![],
            on_watermark: false,
            options: vec![],
        });
        let (mut store, guest) = self.start(String::new(), &nothing, limits, Detached)?;
        store.set_hostcall_fuel(DESCRIPTION_BYTES);
        arm(&mut store);
        let described = guest
            .weir_operator_lifecycle()
            .call_describe(&mut store, config);
        let description = match described {
            Ok(Ok(description)) => Description::from(description),
            Ok(Err(message)) => return Err(CallError::Open(message)),
            Err(error) => {
                return Err(match store.data_mut().why(&error) {
                    CallError::Output { .. } => CallError::Contract(format!(
                        "it hands over more than {DESCRIPTION_BYTES} bytes to describe itself"
                    )),
                    why => why,
                });
            }
        };
        description.check().map_err(CallError::Contract)?;
        Ok(description)
    }

    /// Makes an instance that works in `env`, which is not called before [`Instance::process`] and
    /// the like, apart from `log`. `operator` is what the job calls the operator: it decides what an
    /// operator that asks WASI for random numbers gets. The description is what
    /// [`describe`](Component::describe) returned for the configuration that [`Instance::open`] will
    /// get.
    pub fn instantiate<E: Environment>(
        &self,
        operator: &str,
        description: &Description,
        limits: Limits,
        env: E,
    ) -> Result<Instance<E>, CallError> {
        let description = Arc::new(description.clone());
        self.revive(operator.to_owned(), description, limits, env)
    }

    pub(crate) fn revive<E: Environment>(
        &self,
        operator: String,
        description: Arc<Description>,
        limits: Limits,
        env: E,
    ) -> Result<Instance<E>, CallError> {
        let (store, guest) = self.start(operator, &description, &limits, env)?;
        Ok(Instance::new(self.clone(), store, guest))
    }

    /// A store with the component in it. Its start functions run here, under the limits.
    fn start<E: Environment>(
        &self,
        operator: String,
        description: &Arc<Description>,
        limits: &Limits,
        env: E,
    ) -> Result<(Store<Host<E>>, Operator), CallError> {
        let engine = &self.loaded.engine;
        let host = Host::new(
            env,
            operator,
            Arc::clone(description),
            limits.clone(),
            engine.clock().clone(),
        );
        let mut store = Store::new(engine.wasmtime(), host);
        store.limiter(|host| &mut host.memory);
        store.set_hostcall_fuel(limits.import_bytes());
        store.set_max_component_handles(HANDLES);
        store.data_mut().start(Kind::Quiet, 0);
        arm(&mut store);
        let started = self
            .pre()
            .and_then(OperatorPre::new)
            .and_then(|pre| pre.instantiate(&mut store));
        match started {
            Ok(guest) => {
                store.data_mut().log_written();
                Ok((store, guest))
            }
            Err(error) => Err(store.data_mut().why(&error)),
        }
    }

    fn pre<E: Environment>(&self) -> wasmtime::Result<wasmtime::component::InstancePre<Host<E>>> {
        let mut linker = Linker::new(self.loaded.engine.wasmtime());
        Operator::add_to_linker::<Host<E>, Imports<E>>(&mut linker, |host| host)?;
        wasi::add_to_linker(&mut linker, &self.loaded.component)?;
        linker.instantiate_pre(&self.loaded.component)
    }

    /// Compares all types with the contract's, without running anything. The error says what
    /// differs.
    fn check_types(&self) -> Result<(), String> {
        self.pre::<Detached>()
            .map_err(|error| format!("{error:#}"))?;
        let component = &self.loaded.component;
        let name = format!("{PACKAGE}/{LIFECYCLE}@{VERSION}");
        let lifecycle = component
            .get_export_index(None, name.as_str())
            .ok_or_else(|| format!("`{name}` is exported, but not as an instance"))?;
        type Done = (Result<(), wit::Fault>,);
        self.check_export::<(Option<&str>,), (Result<wit::Description, String>,)>(
            &lifecycle, "describe",
        )?;
        self.check_export::<(&str,), (Result<(), String>,)>(&lifecycle, "open")?;
        self.check_export::<(wit::Batch<'_>, wit::Now), Done>(&lifecycle, "process")?;
        self.check_export::<(wit::Firing<'_>, wit::Now), Done>(&lifecycle, "on-timers")?;
        self.check_export::<(wit::Now,), Done>(&lifecycle, "on-watermark")?;
        self.check_export::<(wit::Now,), Done>(&lifecycle, "finish")?;
        type Migrated = (Result<wit::NullableResult, wit::Fault>,);
        self.check_export::<(
            &str,
            u32,
            Option<wit::ColumnParam<'_>>,
            wit::ColumnParam<'_>,
        ), Migrated>(&lifecycle, "migrate")
    }

    fn check_export<Params, Return>(
        &self,
        lifecycle: &ComponentExportIndex,
        name: &str,
    ) -> Result<(), String>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift,
    {
        let component = &self.loaded.component;
        match component.get_export(Some(lifecycle), name) {
            Some((ComponentItem::ComponentFunc(function), _)) => function
                .typecheck::<Params, Return>(&component.component_type().instance_type())
                .map_err(|error| {
                    format!("`{name}` is not of the type that `{NEEDED}` gives it: {error:#}")
                }),
            Some(_) => Err(format!("`{name}` is not a function")),
            None => Err(format!("`{name}` is missing")),
        }
    }
}

/// How the imports' implementation is found in a store's data: it is the data.
struct Imports<E>(PhantomData<E>);

impl<E: Environment> HasData for Imports<E> {
    type Data<'a> = &'a mut Host<E>;
}
