//! The beginning, the end, and whether the tables agree with each other. The boot and the shutdown drive the other parts in phases; the
//! audit only looks.

pub(crate) mod audit;
pub(crate) mod boot;
pub(crate) mod shutdown;
