//! The server with a real kernel behind it, as a client sees it. Names begin with the clause of
//! `docs/contracts/http.md` that they prove.

mod bounds;
mod console;
mod documents;
mod requests;
mod streams;
mod support;
mod tls;
