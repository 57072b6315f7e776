//! What is wrong with a configuration: problems and how they are shown (`problem`), the files that
//! were read with everything that was found so far (`sources`), complaints about one table
//! (`table`), and what somebody may have meant (`suggest`).

mod problem;
mod sources;
mod suggest;
mod table;

pub use problem::{ConfigError, Problem};
pub(super) use sources::Sources;
pub(super) use suggest::{nearest, suggest};
pub(super) use table::TableReport;
