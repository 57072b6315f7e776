//! What nodes tell each other of what they share: a list in parts, and a manifest for each hash
//! that somebody does not know yet.

use crate::machine::Uplink;
use crate::sharing::nodes::SHARES_MAX;
use crate::sharing::share::{Share, SharedManifest};
use crate::wire::head::Head;
use crate::wire::subject::Direct;
use mainspring_kernel::{Kernel, Now};

/// How long an answer to a question about what is shared is waited for.
const ASK_AGAIN_NS: i64 = 2_000_000_000;
/// Bytes of one part of a catalogue.
const CATALOGUE_PART_BYTES: usize = 256 << 10;

impl Uplink {
    pub(crate) fn ask_for_catalogue(&mut self, name: &str, now: Now) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let is_due = now.mono_ns.saturating_sub(node.asked_ns) > ASK_AGAIN_NS;
        // Who wants nothing of others need not know what they share.
        if node.known_digest == node.digest || !is_due || self.settings.import.is_empty() {
            return;
        }
        node.asked_ns = now.mono_ns;
        node.incoming.clear();
        let subject = self.subjects.direct(name, Direct::Catalogue);
        self.publish_text(subject, "catalogue?", b"");
    }

    pub(crate) fn ask_for_manifest(&mut self, node: &str, hash: &str, now: Now) {
        if !self.imports.may_ask(hash, now.mono_ns) {
            return;
        }
        let subject = self.subjects.direct(node, Direct::Manifest);
        self.publish(subject, &Head::Manifest { hash: hash.to_owned() }, b"");
    }

    /// Tells a node what is shared here, in parts that any server carries.
    pub(crate) fn tell_catalogue(&mut self, to: &str) {
        let subject = self.subjects.reply(to);
        let shares: Vec<String> =
            self.shares.iter().filter_map(|(share, _)| serde_json::to_string(share).ok()).collect();
        let mut from = 0;
        loop {
            let (mut bytes, mut end) = (0, from);
            while end < shares.len() && (end == from || bytes + shares[end].len() < CATALOGUE_PART_BYTES) {
                bytes += shares[end].len();
                end += 1;
            }
            let payload = format!("[{}]", shares[from..end].join(","));
            let is_last = end == shares.len();
            let head = Head::Catalogue { digest: self.digest.clone(), from, is_last };
            self.publish(subject.clone(), &head, payload.as_bytes());
            from = end;
            if is_last {
                return;
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are what stands on the wire")]
    pub(crate) fn take_catalogue(
        &mut self,
        from: &str,
        digest: String,
        at: usize,
        is_last: bool,
        payload: &[u8],
        kernel: &mut Kernel,
        now: Now,
    ) {
        let Some(node) = self.nodes.get_mut(from) else { return };
        let Ok(shares) = serde_json::from_slice::<Vec<Share>>(payload) else {
            self.counters.invalid += 1;
            return;
        };
        // Parts come in order; if one was lost, all are asked for again.
        if at != node.incoming.len() || digest != node.digest || at + shares.len() > SHARES_MAX {
            return;
        }
        node.incoming.extend(shares);
        if is_last {
            node.shares = std::mem::take(&mut node.incoming);
            node.known_digest = digest;
            self.note_change(kernel, now);
        }
    }

    pub(crate) fn tell_manifest(&mut self, to: &str, hash: &str) {
        let found = self.shares.iter().find(|(share, _)| share.hash == hash);
        let payload = found.and_then(|(_, shared)| serde_json::to_vec(shared).ok()).unwrap_or_default();
        let subject = self.subjects.reply(to);
        self.publish(subject, &Head::Manifest { hash: hash.to_owned() }, &payload);
    }

    pub(crate) fn take_manifest(&mut self, hash: &str, payload: &[u8], kernel: &mut Kernel, now: Now) {
        let shared = serde_json::from_slice::<SharedManifest>(payload).ok();
        match shared.filter(|shared| shared.fits(hash)) {
            Some(shared) => {
                self.imports.note_manifest(hash, shared);
                self.note_change(kernel, now);
            }
            None => self.counters.invalid += 1,
        }
    }
}
