//! A client's side of the server: its socket, with or without encryption, HTTP on it, and bodies
//! within bounds.
//!
//! `connection` drives one client and asks `answers` what to say; `stream` and [`tls`] are its
//! socket as hyper wants it; `body` is what is sent and read. Nothing here knows messages.

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod stream;
pub mod tls;
