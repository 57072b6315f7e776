//! What stands on the wire: names that may be part of a subject, the subjects, the head that each
//! message has, and several messages as one. Everything here is plain text in and out, and knows
//! nothing of the kernel. What a stranger writes is refused here first.

pub(crate) mod bundle;
pub(crate) mod head;
pub(crate) mod names;
pub(crate) mod subject;
pub(crate) mod text;
