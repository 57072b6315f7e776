//! Parts of the product that cargo alone does not build: guests, the bridge to models, the C
//! library, and the applications of `examples/` that are put together of them.

pub(crate) mod example;
pub(crate) mod guests;
pub(crate) mod install_c;
pub(crate) mod mcp;
