//! A random story of several nodes.

use super::NodesReport;
use super::ledger::NodesLedger;
use super::network::{LinkState, Network};
use super::node::{Place, Surroundings};
use crate::random::Random;
use crate::world::{Checked, Violation, must};
use mainspring_kernel::Now;
use mainspring_uplink::Incoming;
use serde_json::json;

const MS: i64 = 1_000_000;
/// The longest that a request may take here.
const TIMEOUT_MS: u64 = 20_000;

pub(super) struct NodesStory {
    places: Vec<Place>,
    network: Network,
    ledger: NodesLedger,
    random: Random,
    now: Now,
    serial: u64,
    faults: u64,
}

/// What a node acts upon, apart from the node itself.
macro_rules! surroundings {
    ($story:ident) => {
        &mut Surroundings {
            network: &mut $story.network,
            ledger: &mut $story.ledger,
            random: &mut $story.random,
        }
    };
}

impl NodesStory {
    pub(super) fn new(mut random: Random) -> Result<NodesStory, Violation> {
        let serving = 1 + random.below(3) as usize;
        let asking = 1 + random.below(2) as usize;
        let has_journal = random.percent(50);
        let places: Vec<Place> = (0..serving + asking)
            .map(|index| Place::new(format!("n{index}"), index < serving, has_journal))
            .collect();
        let network = Network {
            subscriptions: vec![Vec::new(); places.len()],
            links: vec![LinkState::Up; places.len()],
            loss: random.pick(&[0, 0, 2, 10]),
            doubles: random.pick(&[0, 5, 20]),
            delay_ms: random.pick(&[1, 5, 200]),
            ..Network::default()
        };
        let now = Now { mono_ns: 1_000_000_000, unix_ms: 1_700_000_000_000 };
        let mut story =
            NodesStory { places, network, ledger: NodesLedger::default(), random, now, serial: 0, faults: 0 };
        for index in 0..story.places.len() {
            story.start(index)?;
        }
        story.pass(2_000)?;
        Ok(story)
    }

    fn start(&mut self, index: usize) -> Checked {
        let now = self.now;
        self.places[index].stopped_until_ns = 0;
        self.places[index].start(index, now, surroundings!(self))
    }

    pub(super) fn step(&mut self) -> Checked {
        let index = self.random.below(self.places.len() as u64) as usize;
        match self.random.below(100) {
            0..60 => self.ask(index)?,
            60..64 => self.kill(index),
            64..70 => self.revive(index)?,
            70..73 => {
                self.faults += 1;
                self.places[index].stopped_until_ns = self.now.mono_ns + self.random.below(8000) as i64 * MS;
            }
            73..78 => self.cut(index)?,
            78..86 => self.mend(index)?,
            _ => {
                let ms = self.random.pick(&[1, 10, 100, 1000, 4000]);
                self.pass(ms)?;
            }
        }
        let ms = self.random.below(30);
        self.pass(ms)
    }

    /// The client of a node sends requests: one, or several at once.
    fn ask(&mut self, index: usize) -> Checked {
        if !self.places[index].running(self.now.mono_ns) {
            return Ok(());
        }
        let count = if self.random.percent(20) { 2 + self.random.below(8) } else { 1 };
        let lines: Vec<String> = (0..count).map(|_| self.request(index)).collect();
        let now = self.now;
        self.places[index].ask(&lines, now, surroundings!(self))
    }

    /// A request of the client of a node.
    fn request(&mut self, index: usize) -> String {
        self.serial += 1;
        let id = format!("q{}", self.serial);
        let is_command = self.random.percent(70);
        let (kind, name) = if is_command { ("command", "Work.Do") } else { ("query", "Work.Get") };
        let mut metadata = json!({ "id": id, "timestamp": 1, "timeout": 1 + self.random.below(TIMEOUT_MS) });
        if self.random.percent(20) {
            let to = self.random.below(self.places.len() as u64);
            metadata["to_node"] = json!(format!("n{to}"));
        }
        self.ledger.sent(&id, index, is_command);
        json!({ "kind": kind, "type": name, "data": {}, "metadata": metadata }).to_string()
    }

    fn kill(&mut self, index: usize) {
        if self.places[index].node.take().is_some() {
            self.faults += 1;
            self.ledger.orphan(index);
            self.network.forget(index);
        }
    }

    fn revive(&mut self, index: usize) -> Checked {
        if self.places[index].node.is_none() {
            self.start(index)?;
        }
        Ok(())
    }

    fn cut(&mut self, index: usize) -> Checked {
        // A node that knows that its link is cut is not told otherwise before it is mended.
        if self.network.links[index] != LinkState::Up {
            return Ok(());
        }
        self.faults += 1;
        let knows = self.random.percent(50);
        self.network.links[index] = if knows { LinkState::Down } else { LinkState::Dead };
        if knows {
            let now = self.now;
            self.places[index].with(now, surroundings!(self), |uplink, _| uplink.disconnected())?;
        }
        Ok(())
    }

    fn mend(&mut self, index: usize) -> Checked {
        let before = std::mem::replace(&mut self.network.links[index], LinkState::Up);
        if before == LinkState::Down {
            let now = self.now;
            self.places[index].reconnect(now, surroundings!(self))?;
        }
        Ok(())
    }

    /// Lets time pass, from one thing that happens to the next.
    fn pass(&mut self, ms: u64) -> Checked {
        let end_ns = self.now.mono_ns + ms as i64 * MS;
        for _ in 0..1_000_000 {
            let own = self.places.iter().filter_map(Place::next_ns).min();
            let next_ns = [own, self.network.next_ns()].into_iter().flatten().min();
            let Some(next_ns) = next_ns.filter(|next_ns| *next_ns <= end_ns) else {
                self.set_time(end_ns);
                return Ok(());
            };
            self.set_time(next_ns.max(self.now.mono_ns));
            self.happen()?;
        }
        Err(Violation("time does not pass".into()))
    }

    fn set_time(&mut self, mono_ns: i64) {
        let passed_ms = (mono_ns / MS - self.now.mono_ns / MS) as u64;
        self.now = Now { mono_ns, unix_ms: self.now.unix_ms + passed_ms };
    }

    /// Everything that happens now.
    fn happen(&mut self) -> Checked {
        let now = self.now;
        let mut waiting = Vec::new();
        while let Some(packet) = self.network.arrive(now.mono_ns) {
            if !self.places[packet.to].running(now.mono_ns) {
                // What comes for a node that is stopped waits; for one that is gone, it is lost.
                if self.places[packet.to].node.is_some() {
                    waiting.push(packet);
                }
                continue;
            }
            let incoming = Incoming { subject: &packet.subject, message: &packet.message };
            self.places[packet.to].receive(incoming, now, surroundings!(self))?;
        }
        for packet in waiting {
            let until_ns = self.places[packet.to].stopped_until_ns;
            self.network.wait(packet, until_ns);
        }
        for index in 0..self.places.len() {
            let place = &self.places[index];
            if place.running(now.mono_ns) && place.next_ns().is_some_and(|at_ns| at_ns <= now.mono_ns) {
                self.places[index].act(now, surroundings!(self))?;
            }
        }
        Ok(())
    }

    /// Mends everything, and waits until every request has ended.
    pub(super) fn end(mut self) -> Result<NodesReport, Violation> {
        for index in 0..self.places.len() {
            self.places[index].stopped_until_ns = 0;
            self.mend(index)?;
            self.revive(index)?;
        }
        self.pass(TIMEOUT_MS + 15_000)?;
        // A healed bus works.
        (self.network.loss, self.network.doubles, self.network.delay_ms) = (0, 0, 1);
        self.pass(5_000)?;
        let before = self.ledger.report;
        let asking = self.places.len() - 1;
        for _ in 0..10 {
            self.serial += 1;
            let id = format!("q{}", self.serial);
            self.ledger.sent(&id, asking, true);
            let line = json!({ "kind": "command", "type": "Work.Do", "data": {},
                "metadata": { "id": id, "timestamp": 1, "timeout": TIMEOUT_MS } });
            let now = self.now;
            self.places[asking].ask(&[line.to_string()], now, surroundings!(self))?;
            self.pass(10)?;
        }
        self.pass(TIMEOUT_MS)?;
        let replied = self.ledger.report.replied - before.replied;
        must!(replied == 10, "only {replied} of 10 requests were answered on a healed bus");
        self.ledger.report.messages = self.network.messages;
        self.ledger.report.lost = self.network.lost;
        self.ledger.report.bundles = self.network.bundles;
        self.ledger.report.faults = self.faults;
        self.ledger.finish()
    }
}
