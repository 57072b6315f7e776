//! The C library as C programs see it.

mod compiler;
mod echo_server;
mod headers;
mod interface;
mod library;
mod programs;
mod run;
