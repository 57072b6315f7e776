//! Who is who: the identities under which ids are unique and limits are counted.

use crate::requests::{NO_SHARE, PeerWindow};
use hashbrown::HashMap;
use slab::Slab;

#[derive(Debug)]
pub(crate) struct Peer {
    /// The client's identity; nothing for an actor.
    pub(crate) name: Option<Box<str>>,
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// Its scheduled messages, and their bytes.
    pub(crate) timers: usize,
    pub(crate) timer_bytes: usize,
    /// Where they wait in the User lane when they are due; there while there are any.
    pub(crate) timer_queue: Option<u32>,
    /// Until when the ticks that were sent fill what its repeating schedules may send in a second.
    pub(crate) ticks_until_ns: i64,
    /// What is remembered of its commands.
    pub(crate) window: PeerWindow,
    /// The share of an actor in that; those of clients are their connections'.
    pub(crate) share: u32,
}

/// The peers. One is forgotten as soon as nothing refers to it, so their number is bounded by what refers to them.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: Slab<Peer>,
    by_name: HashMap<Box<str>, u32, foldhash::fast::FixedState>,
}

impl Peers {
    /// A peer for an actor; it is never forgotten.
    pub(crate) fn add_actor(&mut self) -> u32 {
        self.peers.insert(Peer::new(None, 1)) as u32
    }

    /// The peer of that name, with one more connection.
    pub(crate) fn connect(&mut self, name: &str) -> u32 {
        if let Some(&peer) = self.by_name.get(name) {
            self.peers[peer as usize].connections += 1;
            return peer;
        }
        let peer = self.peers.insert(Peer::new(Some(name.into()), 1)) as u32;
        self.by_name.insert(name.into(), peer);
        peer
    }

    pub(crate) fn get(&self, peer: u32) -> &Peer {
        &self.peers[peer as usize]
    }

    pub(crate) fn get_mut(&mut self, peer: u32) -> &mut Peer {
        &mut self.peers[peer as usize]
    }

    /// Forgets the peer if nothing refers to it any more.
    pub(crate) fn release(&mut self, peer: u32) {
        let it = &self.peers[peer as usize];
        if it.connections == 0 && it.requests == 0 && it.timers == 0 && it.window.requests == 0 {
            if let Some(name) = &it.name {
                self.by_name.remove(name);
            }
            self.peers.remove(peer as usize);
        }
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().map(|(_, peer)| peer)
    }

    /// The peer of which most is remembered, by bytes or by number.
    pub(crate) fn heaviest(&self, of: impl Fn(&PeerWindow) -> usize) -> Option<u32> {
        let all = self.peers.iter().map(|(peer, it)| (of(&it.window), peer as u32));
        all.max_by_key(|(weight, peer)| (*weight, std::cmp::Reverse(*peer))).map(|(_, peer)| peer)
    }

    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }
}

impl Peer {
    fn new(name: Option<Box<str>>, connections: usize) -> Peer {
        Peer {
            name,
            connections,
            requests: 0,
            timers: 0,
            timer_bytes: 0,
            timer_queue: None,
            ticks_until_ns: i64::MIN,
            window: PeerWindow::default(),
            share: NO_SHARE,
        }
    }
}
