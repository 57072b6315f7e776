//! What is known of a capability through all its manifests, so that reloads can be checked.

use mainspring_kernel::Manifest;

/// The history of one capability.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// The manifest that the running incarnation is held to.
    pub(crate) contract: Manifest,
    /// Events that it has wanted all the time.
    pub(crate) always_wants: Vec<String>,
    /// The most deliveries of one request that a manifest of it allowed.
    pub(crate) attempts_max: u32,
    /// The largest mailbox that a manifest of it allowed, in messages and bytes.
    pub(crate) mailbox_max: (usize, usize),
    pub(crate) removed: bool,
    /// It was reloaded, and its next incarnation has not begun.
    pub(crate) succession: bool,
    /// The incarnation that may be given nothing new, and whether because of another manifest.
    pub(crate) held: Option<(u32, bool)>,
    /// When that incarnation must be over, or have had its input ended.
    pub(crate) over_by_ns: Option<(u32, i64)>,
}

impl Ledger {
    pub(crate) fn new(manifest: &Manifest) -> Ledger {
        Ledger {
            contract: manifest.clone(),
            always_wants: manifest.subscribes.clone(),
            attempts_max: manifest.retry.attempts,
            mailbox_max: (manifest.limits.mailbox_messages, manifest.limits.mailbox_bytes),
            removed: false,
            succession: false,
            held: None,
            over_by_ns: None,
        }
    }

    /// It has another manifest from here on.
    pub(crate) fn replace(&mut self, manifest: &Manifest) {
        self.always_wants.retain(|event| manifest.subscribes.contains(event));
        self.attempts_max = self.attempts_max.max(manifest.retry.attempts);
        let (messages, bytes) = self.mailbox_max;
        let limits = &manifest.limits;
        self.mailbox_max = (messages.max(limits.mailbox_messages), bytes.max(limits.mailbox_bytes));
        self.removed = false;
    }

    /// An incarnation begins.
    pub(crate) fn begin(&mut self, manifest: &Manifest) {
        self.contract = manifest.clone();
        self.succession = false;
    }
}
