//! What is passed on: the book, packages, the static program, and what they must fulfil. The test
//! command calls the quick ones; the others are run for a release (CONTRIBUTING.md).

pub(crate) mod book;
pub(crate) mod deny;
pub(crate) mod dist;
pub(crate) mod package;
pub(crate) mod semver;
