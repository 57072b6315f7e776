//! The network: a server to which every node has a link that may be slow, cut, or cut without
//! anybody knowing.

use crate::random::Random;
use std::collections::BTreeMap;

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) to: usize,
    pub(super) subject: String,
    pub(super) message: Vec<u8>,
}

/// What a node publishes.
pub(super) struct Published<'a> {
    pub(super) subject: &'a str,
    /// Where it is told that nobody listens.
    pub(super) reply: Option<&'a str>,
    pub(super) message: &'a [u8],
}

/// What a node listens to.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) subject: String,
    pub(super) is_group: bool,
}

/// Whether a message reaches a node, and what it knows of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LinkState {
    #[default]
    Up,
    /// It is cut, and the node knows.
    Down,
    /// It is cut, and nobody knows.
    Dead,
}

/// The server and all links.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// Messages by when they arrive, and in which order they were sent.
    pub(super) on_their_way: BTreeMap<(i64, u64), Packet>,
    pub(super) serial: u64,
    pub(super) subscriptions: Vec<Vec<Subscription>>,
    pub(super) links: Vec<LinkState>,
    /// Of a hundred messages, so many are lost, and so many come twice.
    pub(super) loss: u64,
    pub(super) doubles: u64,
    pub(super) delay_ms: u64,
    pub(super) messages: u64,
    pub(super) bundles: u64,
    pub(super) lost: u64,
}

/// Whether a subject fits a pattern of NATS.
pub(super) fn fits(pattern: &str, subject: &str) -> bool {
    let (mut patterns, mut words) = (pattern.split('.'), subject.split('.'));
    loop {
        match (patterns.next(), words.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(pattern), Some(word)) if pattern == word => {}
            _ => return false,
        }
    }
}

impl Network {
    /// A node publishes a message.
    pub(super) fn publish(
        &mut self,
        from: usize,
        published: &Published<'_>,
        now_ns: i64,
        random: &mut Random,
    ) {
        let Published { subject, reply, message } = *published;
        self.messages += 1;
        self.bundles += u64::from(message.starts_with(b"many\n"));
        if self.links[from] != LinkState::Up {
            self.lost += 1;
            return;
        }
        let (mut group, mut all) = (Vec::new(), Vec::new());
        for (node, subscriptions) in self.subscriptions.iter().enumerate() {
            let fit = |of: &&Subscription| fits(&of.subject, subject);
            match subscriptions.iter().find(fit) {
                Some(_) if self.links[node] == LinkState::Down || node == from => {}
                Some(subscription) if subscription.is_group => group.push(node),
                Some(_) => all.push(node),
                None => {}
            }
        }
        if !group.is_empty() {
            all.push(random.pick(&group));
        }
        if all.is_empty() {
            if let Some(reply) = reply {
                let packet = Packet { to: from, subject: reply.to_owned(), message: Vec::new() };
                self.send(packet, now_ns, random);
            }
            return;
        }
        for to in all {
            let packet = Packet { to, subject: subject.to_owned(), message: message.to_vec() };
            self.send(packet, now_ns, random);
        }
    }

    fn send(&mut self, packet: Packet, now_ns: i64, random: &mut Random) {
        if self.links[packet.to] == LinkState::Dead || random.percent(self.loss) {
            self.lost += 1;
            return;
        }
        let copies = 1 + u64::from(random.percent(self.doubles));
        for _ in 0..copies {
            self.serial += 1;
            let delay_ns = (random.below(self.delay_ms * 1000) * 1000) as i64 + 50_000;
            self.on_their_way.insert((now_ns + delay_ns, self.serial), packet.clone());
        }
    }

    /// A node is gone, and with it what was on its way there.
    pub(super) fn forget(&mut self, node: usize) {
        self.subscriptions[node].clear();
        self.on_their_way.retain(|_, packet| packet.to != node);
    }

    /// A message waits for a node that is stopped.
    pub(super) fn wait(&mut self, packet: Packet, until_ns: i64) {
        self.serial += 1;
        self.on_their_way.insert((until_ns, self.serial), packet);
    }

    pub(super) fn next_ns(&self) -> Option<i64> {
        self.on_their_way.keys().next().map(|(at_ns, _)| *at_ns)
    }

    /// The next message that arrives until then.
    pub(super) fn arrive(&mut self, now_ns: i64) -> Option<Packet> {
        let at = *self.on_their_way.keys().next().filter(|(at_ns, _)| *at_ns <= now_ns)?;
        let packet = self.on_their_way.remove(&at)?;
        if self.links[packet.to] != LinkState::Up {
            self.lost += 1;
            return self.arrive(now_ns);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_nats() {
        assert!(fits("a.*.c", "a.b.c") && fits("a.>", "a.b.c") && fits("a.b", "a.b"));
        assert!(!fits("a.*", "a.b.c") && !fits("a.>", "a") && !fits("a.b.c", "a.b") && !fits("a", "a.b"));
    }
}
