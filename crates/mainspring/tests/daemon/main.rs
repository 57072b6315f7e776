//! The daemon from outside: the real program, in a folder of its own, with real clients and real
//! processes.

mod batch;
mod boot;
mod clients;
mod console;
mod crowds;
mod floors;
mod flows;
#[path = "../support/guest_module.rs"]
mod guest_module;
mod guests;
mod http;
mod orphans;
mod processes;
mod reload;
mod secrets;
mod service;
mod shutdown;
mod strangers;
mod support;
mod tcp;
mod telemetry;
mod tls;
mod unread;
