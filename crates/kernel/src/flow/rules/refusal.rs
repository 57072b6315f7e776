//! Why a message is refused, and which types nobody but the kernel may use.

use mainspring_message::{Failure, Started};

/// Why a message is refused: it was never accepted, and leaves no trace but the error.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) failure: Failure,
    /// What the sender is told.
    pub(crate) text: String,
    /// Whether an actor has what was asked: only of a repetition can that be said.
    pub(crate) started: Started,
}

impl Refusal {
    pub(crate) fn new(failure: Failure, text: impl Into<String>) -> Refusal {
        Refusal { failure, text: text.into(), started: Started::No }
    }

    /// Nothing new is taken any more.
    pub(crate) fn shutting_down() -> Refusal {
        Refusal::new(Failure::ShuttingDown, "the daemon is shutting down")
    }
}

/// Types that only the kernel itself may speak or serve.
pub(crate) fn is_reserved(type_name: &str) -> bool {
    ["Sys.", "Syscall.", "Timer.", "Kernel."].iter().any(|prefix| type_name.starts_with(prefix))
}
