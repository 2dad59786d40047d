//! The mistakes found in a job file so far.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;

use super::model::Place;
use crate::diagnostic::{Diagnostic, Location};

/// Shown at once; the rest are counted.
const MAX_ERRORS: usize = 20;

/// Collects mistakes. Shared while a tree is decoded, which is why it takes `&self`.
pub(super) struct Report {
    file: Arc<Path>,
    errors: RefCell<Vec<Diagnostic>>,
    uncounted: Cell<usize>,
}

impl Report {
    /// For mistakes in `file`, shown as the user named it.
    pub(super) fn new(file: &Path) -> Report {
        Report {
            file: file.into(),
            errors: RefCell::default(),
            uncounted: Cell::new(0),
        }
    }

    /// An error at `place`, to be pushed.
    pub(super) fn error(
        &self,
        code: &'static str,
        place: Place,
        title: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::error(code, title).at(Location {
            file: self.file.clone(),
            line: place.line,
            column: place.column,
        })
    }

    /// Adds one.
    pub(super) fn push(&self, error: Diagnostic) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() < MAX_ERRORS {
            errors.push(error);
        } else {
            self.uncounted.set(self.uncounted.get() + 1);
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    /// All, in the order of the file.
    pub(super) fn into_errors(self) -> Vec<Diagnostic> {
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(|error| error.place.as_ref().map(|place| (place.line, place.column)));
        let more = self.uncounted.get();
        if let (Some(last), 1..) = (errors.last_mut(), more) {
            last.notes.push(format!("and {more} more errors"));
        }
        errors
    }
}
