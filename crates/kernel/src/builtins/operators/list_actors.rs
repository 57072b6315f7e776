//! `Sys.Actors`: the actors with their state, their mailbox and how fast they are.

use crate::builtins::chores::Slice;
use crate::builtins::{Answer, Caller};
use crate::flow::work;
use crate::kernel::Kernel;
use serde_json::{Value, json};
use std::fmt::Write;

/// The list as far as it was made.
#[derive(Debug)]
pub(crate) struct ListActors {
    caller: Caller,
    /// What the floors below say of each, by its id.
    floors: Value,
    at: usize,
    text: String,
}

impl ListActors {
    pub(in crate::builtins) fn new(caller: Caller, floors: Value) -> ListActors {
        ListActors { caller, floors, at: 0, text: String::new() }
    }

    pub(in crate::builtins) fn step(&mut self, kernel: &Kernel, slice: &mut Slice) -> Option<Answer> {
        let is_operator = kernel.is_operator(self.caller.recipient);
        for capability in kernel.actors.ids().skip(self.at) {
            if slice.is_over() {
                return None;
            }
            self.at += 1;
            let is_shown = is_operator || {
                let handles = kernel.actors.announced(capability).map_or(&[][..], |(_, handles)| handles);
                handles.is_empty()
                    || handles.iter().any(|(_, name)| kernel.may_see(self.caller.recipient, name))
            };
            let Some(mut item) = kernel.actors.report(capability, &kernel.out).filter(|_| is_shown) else {
                slice.spend(work::LOOK);
                continue;
            };
            let floor = &self.floors[kernel.actors.id(capability)];
            for (name, key) in
                [("program", "kind"), ("pid", "pid"), ("memoryBytes", "memoryBytes"), ("cpuMs", "cpuMs")]
            {
                if !floor[key].is_null() {
                    item[name] = floor[key].clone();
                }
            }
            if let Some(us) = floor["cpuUs"].as_u64() {
                item["cpuMs"] = json!(us / 1000);
            }
            if !is_operator {
                // What it wrote may be about the requests of others.
                if let Some(fault) = item["lastFault"].as_object_mut() {
                    fault.remove("words");
                    fault.remove("message");
                }
                item.as_object_mut().map(|item| item.remove("pid"));
            }
            let before = self.text.len();
            append(&mut self.text, &item);
            slice.spend(2 * work::ITEM + (self.text.len() - before) as u64);
        }
        Some(Ok(format!("{{\"actors\":[{}]}}", self.text)))
    }
}

/// Adds an item to a list.
pub(crate) fn append(list: &mut String, item: &Value) {
    if !list.is_empty() {
        list.push(',');
    }
    let _ = write!(list, "{item}");
}
