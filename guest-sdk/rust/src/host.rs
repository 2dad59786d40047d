//! What the SDK needs of a host: the contract's imports, a column at a time.
//!
//! On `wasm32` the implementation is the component's imports; natively it is the test harness's
//! [`Store`](crate::test). Everything above this trait is the same code on both.

use crate::bindings::weir::operator::diagnostics::Level;
use crate::bindings::weir::operator::output::Rows;
use crate::bindings::weir::operator::state::{Cells, ItemLists, Page};
use crate::bindings::weir::operator::types::{Column, Fault, Nullable};

/// The imports of the contract. Each method means what its namesake in `wit/operator.wit` means; a
/// violation of the contract ends the instance there and panics here.
pub(crate) trait Host {
    fn get(&mut self, state: u32, at: &Cells) -> Nullable;
    fn put(&mut self, state: u32, at: &Cells, values: &Nullable);
    fn append(&mut self, state: u32, at: &Cells, items: &Column);
    fn get_items(&mut self, state: u32, at: &Cells) -> ItemLists;
    fn get_entries(&mut self, state: u32, at: &Cells, names: &Column) -> Nullable;
    fn put_entries(&mut self, state: u32, at: &Cells, names: &Column, values: &Nullable);
    fn scan(
        &mut self,
        state: u32,
        at: &Cells,
        start: &Nullable,
        end: &Nullable,
        descending: bool,
        limit: u32,
    ) -> Page;
    fn clear_entries(&mut self, state: u32, at: &Cells, start: &Nullable, end: &Nullable);
    fn clear(&mut self, state: u32, at: &Cells);
    fn touch(&mut self, state: u32, at: &Cells);
    fn set_timers(&mut self, timer: u32, at: &Cells, times: &[i64]);
    fn cancel_timers(&mut self, timer: u32, at: &Cells, times: &[i64]);
    fn emit(&mut self, output: u32, rows: &Rows);
    fn log(&mut self, level: Level, message: &str);
    fn reject(&mut self, faults: &[Fault]);
}

/// The component's imports.
#[cfg(target_arch = "wasm32")]
pub(crate) struct Imports;

#[cfg(target_arch = "wasm32")]
impl Host for Imports {
    fn get(&mut self, state: u32, at: &Cells) -> Nullable {
        crate::bindings::weir::operator::state::get(state, at)
    }

    fn put(&mut self, state: u32, at: &Cells, values: &Nullable) {
        crate::bindings::weir::operator::state::put(state, at, values);
    }

    fn append(&mut self, state: u32, at: &Cells, items: &Column) {
        crate::bindings::weir::operator::state::append(state, at, items);
    }

    fn get_items(&mut self, state: u32, at: &Cells) -> ItemLists {
        crate::bindings::weir::operator::state::get_items(state, at)
    }

    fn get_entries(&mut self, state: u32, at: &Cells, names: &Column) -> Nullable {
        crate::bindings::weir::operator::state::get_entries(state, at, names)
    }

    fn put_entries(&mut self, state: u32, at: &Cells, names: &Column, values: &Nullable) {
        crate::bindings::weir::operator::state::put_entries(state, at, names, values);
    }

    fn scan(
        &mut self,
        state: u32,
        at: &Cells,
        start: &Nullable,
        end: &Nullable,
        descending: bool,
        limit: u32,
    ) -> Page {
        crate::bindings::weir::operator::state::scan(state, at, start, end, descending, limit)
    }

    fn clear_entries(&mut self, state: u32, at: &Cells, start: &Nullable, end: &Nullable) {
        crate::bindings::weir::operator::state::clear_entries(state, at, start, end);
    }

    fn clear(&mut self, state: u32, at: &Cells) {
        crate::bindings::weir::operator::state::clear(state, at);
    }

    fn touch(&mut self, state: u32, at: &Cells) {
        crate::bindings::weir::operator::state::touch(state, at);
    }

    fn set_timers(&mut self, timer: u32, at: &Cells, times: &[i64]) {
        crate::bindings::weir::operator::timers::set(timer, at, times);
    }

    fn cancel_timers(&mut self, timer: u32, at: &Cells, times: &[i64]) {
        crate::bindings::weir::operator::timers::cancel(timer, at, times);
    }

    fn emit(&mut self, output: u32, rows: &Rows) {
        crate::bindings::weir::operator::output::emit(output, rows);
    }

    fn log(&mut self, level: Level, message: &str) {
        crate::bindings::weir::operator::diagnostics::log(level, message);
    }

    fn reject(&mut self, faults: &[Fault]) {
        crate::bindings::weir::operator::diagnostics::reject(faults);
    }
}
