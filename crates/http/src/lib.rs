//! HTTP on Mainspring's reactor: requests become messages, replies become responses.
//!
//! ```text
//! POST /v1/commands/{Type}     the data is the body            GET  /openapi.json   /asyncapi.json
//! POST /v1/queries/{Type}      or GET with ?data=              GET  /schemas/{Type}.json
//! POST /v1/events/{Type}       or CloudEvents at /v1/events    GET  /metrics
//! GET  /v1/events?types=&tap=  server-sent events or NDJSON    GET  /livez   /readyz
//! POST /v1/messages            the protocol itself, NDJSON both ways
//! GET  /                       the console, where there is one; POST /v1/console/session opens it
//! ```
//!
//! A [`Server`] is given accepted sockets and a [`Bus`]: whoever routes messages. It knows HTTP,
//! tokens and limits; the bus knows types, schemas and rights. There is no second runtime and no
//! thread: hyper's connections are tasks of the reactor. `docs/contracts/http.md` says clause by
//! clause what a client may rely on.
//!
//! - [`bus`]: what stands behind the server, and the connection on it that serves one client.
//! - [`access`]: tokens, and which hosts and origins may ask.
//! - [`console`]: the page, and the sessions that it runs under.
//! - [`limits`]: every bound, with what happens at it.
//! - [`tls`]: certificates, and the encrypted stream.
//!
//! Within: `server` takes sockets, `wire` drives each of them, `routes` and `answers` say what a
//! request is for and what it is told, `documents` and `metrics` are made on request.

pub mod access;
mod answers;
pub mod bus;
mod cloud_events;
pub mod console;
mod documents;
pub mod limits;
mod metrics;
mod problem;
mod routes;
mod server;
mod wire;

pub use access::{Access, Token};
pub use bus::{Bus, Closed, Health, Inbox, Link, Peer};
pub use console::{Session, Sessions};
pub use limits::Limits;
pub use server::{Options, Server};
pub use wire::tls;
