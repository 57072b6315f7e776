//! The mailbox: what waits for an actor, in order, within its bounds.

use super::supervision::ActorState;
use super::{Actor, Actors};
use crate::api::effect::Effect;
use crate::api::ids::{ActorRef, CapabilityId};
use crate::out::Out;
use crate::requests::RequestKey;
use mainspring_message::{Envelope, Failure};
use std::collections::VecDeque;

/// A message in a mailbox.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A request of so many bytes, unless it has ended in the meantime.
    Request(RequestKey, u32),
    Event(Envelope),
}

/// What an actor takes next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextMail {
    Request(RequestKey),
    Event,
}

/// What waits for one actor.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    mail: VecDeque<Mail>,
    /// Messages that have not ended, and their bytes.
    len: usize,
    bytes: usize,
}

impl Mailbox {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, mail: Mail, bytes: usize) {
        self.len += 1;
        self.bytes += bytes;
        self.mail.push_back(mail);
    }

    /// A message is gone, or is in progress now.
    fn subtract(&mut self, bytes: usize) {
        self.len -= 1;
        self.bytes -= bytes;
    }
}

impl Actor {
    /// Whether the mailbox takes a message of so many bytes.
    #[inline]
    fn mailbox_takes(&self, bytes: usize) -> bool {
        let limits = &self.contract.manifest.limits;
        self.mailbox.len < limits.mailbox_messages
            && self.mailbox.bytes.saturating_add(bytes) <= limits.mailbox_bytes
    }

    fn is_closed(&self) -> bool {
        matches!(self.state, ActorState::Unhealthy(_) | ActorState::Stopped)
    }
}

impl Actors {
    /// Puts a request of so many bytes into a mailbox; else the error that ends it.
    #[inline]
    pub(crate) fn post_request(
        &mut self,
        capability: CapabilityId,
        key: RequestKey,
        bytes: usize,
    ) -> Result<(), (Failure, String)> {
        let it = self.get_mut(capability);
        if it.is_closed() {
            return Err(it.trouble());
        }
        if !it.mailbox_takes(bytes) {
            return Err((Failure::Overloaded, format!("the mailbox of {} is full", it.id())));
        }
        it.mailbox.push(Mail::Request(key, bytes as u32), bytes);
        Ok(())
    }

    /// Puts a request of an earlier run into a mailbox, whatever is in there: it had its place in
    /// that run.
    pub(crate) fn restore_request(&mut self, capability: CapabilityId, key: RequestKey, bytes: usize) {
        self.get_mut(capability).mailbox.push(Mail::Request(key, bytes as u32), bytes);
    }

    /// Puts an event into a mailbox; else why it is a dead letter.
    pub(crate) fn post_event(
        &mut self,
        capability: CapabilityId,
        event: &Envelope,
        is_flushing: bool,
    ) -> Result<(), String> {
        let bytes = event.line().len();
        let it = self.get_mut(capability);
        let closed = it.is_closed() || is_flushing;
        if closed || !it.mailbox_takes(bytes) {
            let trouble = if closed { it.state_name() } else { "out of room in its mailbox" };
            return Err(format!("its subscriber {} is {trouble}", it.id()));
        }
        it.mailbox.push(Mail::Event(event.clone()), bytes);
        Ok(())
    }

    /// What the actor takes next, if it takes anything now.
    #[inline]
    pub(crate) fn next_mail(&self, capability: CapabilityId) -> Option<NextMail> {
        let it = self.get(capability);
        if it.state != ActorState::Up || it.blocked || it.succession.holds_mail() {
            return None;
        }
        match it.mailbox.mail.front()? {
            Mail::Request(key, _) => Some(NextMail::Request(*key)),
            Mail::Event(_) => Some(NextMail::Event),
        }
    }

    /// The first message of a mailbox is a request that has ended there.
    pub(crate) fn drop_first(&mut self, capability: CapabilityId) {
        self.get_mut(capability).mailbox.mail.pop_front();
    }

    /// The actor is given the request that is first in its mailbox; returns where it stands among
    /// those in progress.
    #[inline]
    pub(crate) fn take_request(&mut self, capability: CapabilityId) -> Option<(ActorRef, u32)> {
        let it = self.get_mut(capability);
        let Some(Mail::Request(key, bytes)) = it.mailbox.mail.pop_front() else { return None };
        it.mailbox.subtract(bytes as usize);
        Some((it.reference(capability), it.progress.begin(key)))
    }

    /// The actor is given the event that is first in its mailbox.
    pub(crate) fn deliver_event(&mut self, capability: CapabilityId, out: &mut Out) {
        let recent_max = self.bounds.recent;
        let it = self.get_mut(capability);
        let Some(Mail::Event(event)) = it.mailbox.mail.pop_front() else { return };
        it.mailbox.subtract(event.line().len());
        it.causes.remember(&event, true, recent_max);
        out.counters.deliveries += 1;
        out.counters.events_delivered += 1;
        let actor = it.reference(capability);
        out.push_after(out.facts.of_any(), Effect::Deliver { actor, message: event });
    }

    /// A message of so many bytes ended in a mailbox. If it is a request, its trace stays until it
    /// comes first.
    pub(crate) fn forget_mail(&mut self, capability: CapabilityId, bytes: usize) {
        self.get_mut(capability).mailbox.subtract(bytes);
    }

    /// Removes the traces of requests that ended in a mailbox, once they outnumber the rest.
    /// `waits` tells which have not.
    #[inline]
    pub(crate) fn tidy_mailbox(&mut self, capability: CapabilityId, waits: impl Fn(RequestKey) -> bool) {
        let mailbox = &mut self.get_mut(capability).mailbox;
        if mailbox.mail.len() > 64 + 2 * mailbox.len {
            mailbox.mail.retain(|mail| match mail {
                Mail::Request(key, _) => waits(*key),
                Mail::Event(_) => true,
            });
        }
    }

    /// Takes everything out of a mailbox. It is counted there still, until each is
    /// [forgotten](Actors::forget_mail) or [put back](Actors::put_back).
    pub(crate) fn take_mail(&mut self, capability: CapabilityId) -> VecDeque<Mail> {
        std::mem::take(&mut self.get_mut(capability).mailbox.mail)
    }

    /// Puts back what is left of what was taken.
    pub(crate) fn put_back(&mut self, capability: CapabilityId, mail: VecDeque<Mail>) {
        self.get_mut(capability).mailbox.mail = mail;
    }

    /// Takes the newest message out of a mailbox; it is counted there still.
    pub(crate) fn take_newest(&mut self, capability: CapabilityId) -> Option<Mail> {
        self.get_mut(capability).mailbox.mail.pop_back()
    }

    /// Bytes that wait in a mailbox.
    pub(crate) fn mail_bytes(&self, capability: CapabilityId) -> usize {
        self.get(capability).mailbox.bytes
    }

    /// Why a mailbox takes nothing, and the error for a request that comes now.
    pub(crate) fn trouble(&self, capability: CapabilityId) -> (Failure, String) {
        self.get(capability).trouble()
    }

    /// The fullest mailbox, with its bytes.
    pub(crate) fn heaviest_mailbox(&self) -> Option<(usize, CapabilityId)> {
        let all = self.ids().map(|capability| (self.mail_bytes(capability), capability));
        all.max_by_key(|(bytes, capability)| (*bytes, std::cmp::Reverse(*capability)))
    }

    /// Whether mail waits for an actor that may still take it.
    pub(crate) fn mail_waits(&self) -> bool {
        self.list.iter().any(|it| it.mailbox.len > 0 && !it.is_closed())
    }

    /// Messages and bytes in a mailbox, and what `count` finds there; for audits.
    pub(crate) fn audit_mailbox(
        &self,
        capability: CapabilityId,
        waits: impl Fn(RequestKey) -> bool,
    ) -> Result<(usize, usize), String> {
        let mailbox = &self.get(capability).mailbox;
        let (mut len, mut bytes) = (0, 0);
        for mail in &mailbox.mail {
            let own = match mail {
                Mail::Request(key, _) if !waits(*key) => continue,
                Mail::Request(_, bytes) => *bytes as usize,
                Mail::Event(event) => event.line().len(),
            };
            (len, bytes) = (len + 1, bytes + own);
        }
        if (len, bytes) != (mailbox.len, mailbox.bytes) {
            let kept = (mailbox.len, mailbox.bytes);
            return Err(format!("a mailbox: counted {:?}, kept {kept:?}", (len, bytes)));
        }
        Ok((len, bytes))
    }

    /// How often a request stands in a mailbox; for audits.
    pub(crate) fn count_in_mailbox(&self, capability: CapabilityId, key: RequestKey) -> usize {
        let mail = self.get(capability).mailbox.mail.iter();
        mail.filter(|mail| matches!(mail, Mail::Request(there, _) if *there == key)).count()
    }
}
