//! Who is there, and who offers what. Nodes tell each other by hellos which capabilities they
//! share; what this node imports becomes capabilities of its kernel, and each request finds its
//! node here. `machine` and `requests` ask; nothing here sends a request.

pub(crate) mod catalogue;
pub(crate) mod imports;
pub(crate) mod nodes;
pub(crate) mod partition;
pub(crate) mod share;
