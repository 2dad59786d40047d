//! The environment of `describe`.

use crate::call_error::Fault;
use crate::columns::{ColumnRef, Nullable, NullableRef};
use crate::environment::{Cells, Environment, HostError, ItemLists, Level, Page, Rows};

/// Nothing but the log can be reached from `describe`, so the rest answers that it fails.
pub(crate) struct Detached;

/// Why a detached environment fails.
fn detached() -> HostError {
    HostError::new("`describe` has no state, timers or output")
}

impl Environment for Detached {
    fn begin(&mut self) {}

    fn apply(&mut self) -> Result<(), HostError> {
        Ok(())
    }

    fn discard(&mut self) {}

    fn get(&mut self, _: u32, _: Cells<'_>) -> Result<Nullable, HostError> {
        Err(detached())
    }

    fn put(&mut self, _: u32, _: Cells<'_>, _: NullableRef<'_>) -> Result<(), HostError> {
        Err(detached())
    }

    fn append(&mut self, _: u32, _: Cells<'_>, _: ColumnRef<'_>) -> Result<(), HostError> {
        Err(detached())
    }

    fn get_items(&mut self, _: u32, _: Cells<'_>) -> Result<ItemLists, HostError> {
        Err(detached())
    }

    fn get_entries(
        &mut self,
        _: u32,
        _: Cells<'_>,
        _: ColumnRef<'_>,
    ) -> Result<Nullable, HostError> {
        Err(detached())
    }

    fn put_entries(
        &mut self,
        _: u32,
        _: Cells<'_>,
        _: ColumnRef<'_>,
        _: NullableRef<'_>,
    ) -> Result<(), HostError> {
        Err(detached())
    }

    fn scan(
        &mut self,
        _: u32,
        _: Cells<'_>,
        _: NullableRef<'_>,
        _: NullableRef<'_>,
        _: bool,
        _: u32,
    ) -> Result<Page, HostError> {
        Err(detached())
    }

    fn clear_entries(
        &mut self,
        _: u32,
        _: Cells<'_>,
        _: NullableRef<'_>,
        _: NullableRef<'_>,
    ) -> Result<(), HostError> {
        Err(detached())
    }

    fn clear(&mut self, _: u32, _: Cells<'_>) -> Result<(), HostError> {
        Err(detached())
    }

    fn touch(&mut self, _: u32, _: Cells<'_>) -> Result<(), HostError> {
        Err(detached())
    }

    fn set_timers(&mut self, _: u32, _: Cells<'_>, _: &[i64]) -> Result<(), HostError> {
        Err(detached())
    }

    fn cancel_timers(&mut self, _: u32, _: Cells<'_>, _: &[i64]) -> Result<(), HostError> {
        Err(detached())
    }

    fn emit(&mut self, _: u32, _: Rows) -> Result<(), HostError> {
        Err(detached())
    }

    fn log(&mut self, _: Level, _: &str) {}

    fn reject(&mut self, _: Vec<Fault>) -> Result<(), HostError> {
        Err(detached())
    }
}
