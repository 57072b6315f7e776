//! `Sys.Actors`: the actors with their state, their mailbox and how fast they are.

use super::Answer;
use super::chores::Slice;
use crate::actors::Actors;
use crate::flow::work;
use crate::out::Out;
use std::fmt::Write;

/// The list as far as it was made.
#[derive(Debug, Default)]
pub(crate) struct ListActors {
    at: usize,
    text: String,
}

impl ListActors {
    pub(super) fn step(&mut self, actors: &Actors, slice: &mut Slice, out: &Out) -> Option<Answer> {
        for capability in actors.ids().skip(self.at) {
            if slice.is_over() {
                return None;
            }
            self.at += 1;
            let Some(item) = actors.report(capability, out) else {
                slice.spend(work::LOOK);
                continue;
            };
            let before = self.text.len();
            append(&mut self.text, &item);
            slice.spend(2 * work::ITEM + (self.text.len() - before) as u64);
        }
        Some(Ok(format!("{{\"actors\":[{}]}}", self.text)))
    }
}

/// Adds an item to a list.
pub(crate) fn append(list: &mut String, item: &serde_json::Value) {
    if !list.is_empty() {
        list.push(',');
    }
    let _ = write!(list, "{item}");
}
