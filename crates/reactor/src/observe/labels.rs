//! Names that users give to watchers and timers, kept once each and shared with the thread that
//! watches for stalls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(pub(crate) u32);

impl Label {
    /// No name was given.
    pub(crate) const NONE: Label = Label(0);
}

/// Most distinct names that are kept; later ones are dropped, so that generated names cannot grow
/// the table for ever.
const LABELS_MAX: usize = 65_536;

#[derive(Default)]
pub(crate) struct Labels {
    numbers: HashMap<Arc<str>, u32>,
    names: Arc<Mutex<Vec<Arc<str>>>>,
}

impl Labels {
    pub(crate) fn intern(&mut self, name: &str) -> Label {
        if let Some(&number) = self.numbers.get(name) {
            return Label(number);
        }
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() == LABELS_MAX {
            return Label::NONE;
        }
        let name: Arc<str> = name.into();
        names.push(name.clone());
        let number = names.len() as u32;
        self.numbers.insert(name, number);
        Label(number)
    }

    /// In a forked child: the thread that watches for stalls stayed in the parent, and may have the
    /// names locked for ever.
    pub(crate) fn after_fork(&mut self) {
        if Arc::strong_count(&self.names) == 1 {
            return;
        }
        let mut names: Vec<Arc<str>> = vec![Arc::from(""); self.numbers.len()];
        for (name, &number) in &self.numbers {
            names[number as usize - 1] = name.clone();
        }
        std::mem::forget(std::mem::replace(&mut self.names, Arc::new(Mutex::new(names))));
    }

    /// A view of the names for another thread.
    pub(crate) fn names(&self) -> LabelNames {
        LabelNames(self.names.clone())
    }
}

/// The names, readable from any thread.
#[derive(Clone)]
pub(crate) struct LabelNames(Arc<Mutex<Vec<Arc<str>>>>);

impl LabelNames {
    pub(crate) fn get(&self, label: Label) -> Option<Arc<str>> {
        let index = (label.0 as usize).checked_sub(1)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned()
    }
}
