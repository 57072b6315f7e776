//! A start after an earlier run: what that one had accepted goes on, or ends.

use super::Durably;
use crate::api::effect::Level;
use crate::api::fact::{Fact, PeerName};
use crate::api::ids::{ConnectionId, Now};
use crate::api::manifest::Redeliver;
use crate::builtins::Builtin;
use crate::dead_letters::Owner;
use crate::facts::{Durable, Fate, Pending, Remembered, fate_of, time_left_ms};
use crate::flow::lanes::Sender;
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::out::{MS, ns};
use crate::requests::{Delegate, Origin, PeerId, Recipient, RequestKey, RestoredRequest, ShareId};
use crate::time::wheel::deadline_after;
use mainspring_message::{Envelope, Failure, Kind};
use std::collections::BTreeMap;

/// Whoever asked is gone with the run that it asked: no connection has this number.
pub(crate) const NOBODY: ConnectionId = ConnectionId(u64::MAX);

/// The monotonic time of a moment by the wall clock, as near as the two clocks are now.
fn mono_of(unix_ms: u64, now: Now) -> i64 {
    let ahead_ms = i128::from(unix_ms) - i128::from(now.unix_ms);
    let mono_ns = i128::from(now.mono_ns) + ahead_ms * i128::from(MS);
    i64::try_from(mono_ns).unwrap_or(if ahead_ms > 0 { i64::MAX } else { i64::MIN })
}

/// The peers of the earlier run, while what it left is taken up: each is held, and has a share for
/// what is remembered of it.
type RestoredPeers = BTreeMap<(bool, Box<str>), (PeerId, ShareId)>;

impl Kernel {
    /// Takes up what an earlier run left; the routes are there, the actors not yet.
    pub(crate) fn take_up(&mut self) {
        let Some(durable) = self.durability.restored.take() else { return };
        let unix_ms = self.out.now.unix_ms;
        self.out.record(&Fact::Started { build: env!("CARGO_PKG_VERSION"), unix_ms });
        let mut peers = RestoredPeers::default();
        self.take_up_letters(&durable, &mut peers);
        self.take_up_events(&durable);
        for (peer, remembered) in durable.remembered.iter() {
            self.take_up_answer(peer, remembered, &mut peers);
        }
        for (peer, timer_id, schedule) in durable.schedules() {
            let (peer, _) = self.peer_called(peer, &mut peers);
            self.requests.retain_peer(peer);
            let queue = self.schedules.queue_of(peer).unwrap_or_else(|| self.lanes.open(Sender::Kernel));
            let due_ns = mono_of(schedule.due_ms, self.out.now);
            self.schedules.restore((peer, queue), timer_id, schedule, due_ns, &mut self.out);
        }
        let mut fates = [0_usize; 3];
        for (number, pending) in &durable.pending {
            let fate = self.take_up_request(*number, pending, &mut peers);
            fates[match fate {
                Fate::Deliver => 0,
                Fate::DeliverAgain => 1,
                _ => 2,
            }] += 1;
        }
        for ((is_client, _), (peer, share)) in peers {
            if is_client {
                self.requests.disconnect(peer, share);
            }
        }
        if let [delivered, again, ended] = fates
            && delivered + again + ended > 0
        {
            let text = format!(
                "commands of the last run: {delivered} not yet delivered, {again} to be delivered again, \
                 {ended} ended with an error"
            );
            self.out.log(Level::Info, text);
        }
    }

    /// The peer of that name, whether or not it is connected. A capability that is no longer there
    /// has a name that no client can have.
    fn peer_called(&mut self, name: PeerName<&str>, peers: &mut RestoredPeers) -> (PeerId, ShareId) {
        let name: Box<str> = match name {
            PeerName::Client(name) => name.into(),
            PeerName::Capability(id) => {
                let there = self.actors.find(id).map(|(capability, _)| self.actors.sender(capability).0);
                if let Some(peer) = there
                    && let Some(share) = self.requests.share_of_actor(peer)
                {
                    return *peers.entry((false, id.into())).or_insert((peer, share));
                }
                format!("\0capability:{id}").into()
            }
        };
        *peers.entry((true, name.clone())).or_insert_with(|| self.requests.connect(&name))
    }

    fn take_up_letters(&mut self, durable: &Durable, peers: &mut RestoredPeers) {
        for (number, letter) in &durable.letters {
            let Ok(message) = Envelope::parse(letter.line.as_bytes()) else { continue };
            let owner = match &letter.owner {
                PeerName::Capability(id) => self.actors.find(id).map(|(at, _)| Owner::Capability(at)),
                PeerName::Client(_) => None,
            };
            let owner =
                owner.unwrap_or_else(|| Owner::Peer(self.peer_called(letter.owner.as_ref(), peers).0));
            let (attempts, unix_ms) = (letter.attempts, letter.unix_ms);
            self.dead_letters.restore(*number, owner, message, &letter.reason, attempts, unix_ms);
        }
        self.dead_letters.go_on_after(durable.last_letter);
    }

    fn take_up_answer(&mut self, peer: &PeerName, remembered: &Remembered, peers: &mut RestoredPeers) {
        if remembered.until_ms <= self.out.now.unix_ms {
            return;
        }
        let answer = remembered.answer().and_then(|answer| Envelope::parse(answer.line().as_bytes()).ok());
        let (peer, share) = self.peer_called(peer.as_ref(), peers);
        let route = answer.as_ref().and_then(|it| self.routes.handler(Kind::Command, it.type_name()));
        let request = RestoredRequest {
            peer,
            handler: route.unwrap_or(Handler::Builtin(Builtin::Ping)),
            hash: self.out.hash_id(&remembered.id),
            fingerprint: remembered.fingerprint,
            share: Some(share),
            origin: Origin::Connection(NOBODY),
            durable: Durably::No,
            attempts: 0,
            deadline_ns: self.out.now.mono_ns,
        };
        let ended_ns = mono_of(remembered.ended_ms, self.out.now).min(self.out.now.mono_ns);
        self.requests.restore_answer(request, &remembered.id, answer.as_ref(), ended_ns, &mut self.out);
    }

    fn take_up_request(&mut self, number: u64, pending: &Pending, peers: &mut RestoredPeers) -> Fate {
        // It was a message when it was recorded.
        let Ok(message) = Envelope::parse(pending.line.as_bytes()) else { return Fate::Discarded };
        let route = self.routes.handler(Kind::Command, message.type_name());
        let (redeliver, attempts) = match route {
            Some(Handler::Capability(capability)) => {
                let manifest = self.actors.manifest(capability);
                (manifest.redeliver, manifest.retry.attempts)
            }
            _ => (Redeliver::Never, 1),
        };
        let fate = fate_of(pending, redeliver, attempts, self.out.now.unix_ms);
        let key = self.insert_restored(number, pending, message, route, peers);
        let (failure, text) = match (fate, route) {
            (Fate::Deliver | Fate::DeliverAgain, Some(Handler::Capability(capability))) => {
                let bytes = self.requests.message(key).map_or(0, |message| message.line().len());
                self.actors.restore_request(capability, key, bytes);
                self.requests.enter_mailbox(key);
                return fate;
            }
            (Fate::Interrupted, _) => {
                (Failure::Interrupted, "the daemon ended while the capability worked on it".to_owned())
            }
            (Fate::GivenUp, _) => {
                let text = format!("the daemon ended over it {} times", pending.attempts);
                (Failure::Interrupted, text)
            }
            (Fate::Overdue, _) => (Failure::Timeout, "its deadline passed while no daemon ran".to_owned()),
            (_, Some(Handler::Capability(_))) => {
                let text = "the daemon ended before it was delivered, \
                            and the capability says `redeliver = \"never\"`";
                (Failure::ShuttingDown, text.to_owned())
            }
            _ => (Failure::Routing, "no capability handles it any more".to_owned()),
        };
        self.fail(key, failure, &text);
        fate
    }

    fn insert_restored(
        &mut self,
        number: u64,
        pending: &Pending,
        message: Envelope,
        route: Option<Handler>,
        peers: &mut RestoredPeers,
    ) -> RequestKey {
        let (peer, share) = self.peer_called(pending.peer.as_ref(), peers);
        let (origin, share) = match &pending.timer_id {
            Some(timer_id) => {
                let to = Recipient::Connection(NOBODY);
                let delegate = Delegate { to, timer_id: Some(timer_id.clone()) };
                (Origin::Delegate(Box::new(delegate)), None)
            }
            None => (Origin::Connection(NOBODY), Some(share)),
        };
        let now = self.out.now;
        let request = RestoredRequest {
            peer,
            // What is handled nowhere ends at once; until then it is nobody's.
            handler: route.unwrap_or(Handler::Builtin(Builtin::Ping)),
            hash: self.out.hash_id(message.id()),
            fingerprint: self.out.fingerprint(&message),
            share,
            origin,
            durable: Durably::Steps(number),
            attempts: pending.attempts,
            deadline_ns: deadline_after(now.mono_ns, ns(time_left_ms(pending, now.unix_ms))),
        };
        self.requests.restore(request, message, &mut self.out)
    }
}
