//! ZCL1 over `zi_write` and `zi_read`: requests cut out of whatever pieces a guest writes,
//! responses kept until it reads them, and handles made of both. Capabilities use it, those of
//! other crates through [`Framed`]; nothing here knows what a request means.

pub(crate) mod framed;
pub(crate) mod requests;
pub(crate) mod responses;

pub use framed::{Framed, Reply, Service};
pub use responses::Responses;
