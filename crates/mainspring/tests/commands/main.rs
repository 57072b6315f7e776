//! The commands that talk to a daemon, as a person or a script uses them.

mod beginning;
mod daily;
mod document;
mod fake;
mod finding;
mod giving_up;
#[path = "../support/guest_module.rs"]
mod guest_module;
mod impostors;
mod looking;
mod measuring;
mod models;
mod overview;
mod piping;
mod real;
mod refusals;
mod requests;
mod shop;
mod steering;
mod tcp;
mod together;
mod watching;
