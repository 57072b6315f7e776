//! The promises that can be checked at any time.

use mainspring_kernel::{Census, Counters};
use mainspring_message::{Envelope, Kind};

use crate::world::client::Client;
use crate::world::{Checked, World, must};

/// How often (in steps) the kernel's own tables are compared with each other: that takes time.
const THOROUGH_EVERY: u64 = 8;

/// After this time a client that reads nothing of far too much is closed.
const STALLED_NS: i64 = 5_000_000_000;

/// The lanes at one moment.
pub(crate) struct Lanes {
    pub(crate) census: Census,
    pub(crate) counters: Counters,
}

/// Where a message that was written during a turn came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    System,
    Completions,
    User,
}

impl Lane {
    /// The lane of what a turn writes to a client, where its type tells.
    fn of(message: &Envelope) -> Option<Lane> {
        let by_the_loop =
            ["Sys.", "Syscall.", "Timer."].iter().any(|name| message.type_name().starts_with(name));
        match message.kind() {
            Kind::Event if message.type_name() == "Sys.EventsDropped" => None,
            Kind::Event => Some(if by_the_loop { Lane::System } else { Lane::User }),
            Kind::Reply => Some(if by_the_loop { Lane::User } else { Lane::Completions }),
            // Errors come from every lane.
            Kind::Command | Kind::Query | Kind::Error => None,
        }
    }
}

/// Outcomes that are owed to one client.
pub(crate) fn owed_to(client: &Client) -> u32 {
    client.debts.values().map(|debt| debt.requests.saturating_sub(debt.answers)).sum()
}

impl World {
    /// Outcomes owed to clients that are still there.
    pub(crate) fn client_debts(&self) -> u32 {
        self.clients.iter().map(owed_to).sum()
    }

    /// Outcomes owed to clients and actors.
    pub(crate) fn owed(&self) -> u32 {
        let to_actors =
            self.actors.iter().flat_map(|actor| actor.asked.values()).filter(|answers| **answers == 0);
        self.client_debts() + to_actors.count() as u32
    }

    /// What is owed, in words.
    pub(crate) fn debts(&self) -> String {
        let clients = self.clients.iter().flat_map(|client| {
            let open = client.debts.iter().filter(|(_, debt)| debt.requests > debt.answers);
            open.map(|(id, debt)| format!("{} {id} {debt:?}", client.connection))
        });
        let actors = self.actors.iter().enumerate().flat_map(|(at, actor)| {
            actor
                .asked
                .iter()
                .filter(|(_, answers)| **answers == 0)
                .map(move |(id, _)| format!("cap{at} {id}"))
        });
        clients.chain(actors).take(8).collect::<Vec<_>>().join("; ")
    }

    /// System before Completions before User, one User message at a time, and nobody starves.
    pub(crate) fn check_turn(&self, before: &Lanes, after: &Lanes) -> Checked {
        if self.ended.is_some() || !self.booted {
            return Ok(());
        }
        let limits = &self.scenario.config.limits;
        let system = after.counters.system_served - before.counters.system_served;
        let completions = after.counters.completions_served - before.counters.completions_served;
        let user = after.counters.user_served - before.counters.user_served;
        must!(user <= 1, "{user} User messages in one turn");
        let system_due = before.census.system_lane.min(limits.system_per_turn) as u64;
        must!(system >= system_due, "{system} of {system_due} System signals served");
        must!(system <= limits.system_per_turn as u64, "{system} System signals in one turn");
        let completions_due = before.census.completions_lane.min(limits.completions_per_turn) as u64;
        must!(completions >= completions_due, "{completions} of {completions_due} Completions served");
        must!(completions <= limits.completions_per_turn as u64, "{completions} Completions in one turn");
        // A client that has not read what it has is held back, and may be so from this very turn
        // on; if it is closed at the end of the same turn, nobody sees that it was.
        let held = before.census.user_held.max(after.census.user_held);
        let evicted = after.counters.connections_evicted - before.counters.connections_evicted;
        must!(
            user == 1 || before.census.user_lane <= held || evicted > 0,
            "a User message waits though it is its turn: {:?}, then {:?}",
            before.census,
            after.census
        );
        Ok(())
    }

    /// Within a turn, System comes before Completions before User.
    pub(crate) fn check_lane(&mut self, message: &Envelope) -> Checked {
        if let (Some(before), Some(lane)) = (self.lane, Lane::of(message)) {
            must!(lane >= before, "{lane:?} was served after {before:?} in one turn: {message:?}");
            self.lane = Some(lane);
        }
        Ok(())
    }

    /// After the kernel has come to rest, nothing that is due is left undone.
    pub(crate) fn check_settled(&self) -> Checked {
        if self.ended.is_some() || !self.booted {
            return Ok(());
        }
        for client in &self.clients {
            for (id, debt) in &client.debts {
                let overdue = debt.requests > debt.answers && debt.deadline_ns < self.now.mono_ns;
                must!(!overdue, "{} still waits for {id} after its deadline: {debt:?}", client.connection);
            }
        }
        for (capability, actor) in self.actors.iter().enumerate() {
            if let Some(deed) = actor.doomed {
                must!(false, "cap{capability} lives on though {deed}");
            }
        }
        self.check_successions()
    }

    /// After everything is answered, nothing is left of it.
    pub(crate) fn check_at_rest(&self) -> Checked {
        self.kernel.audit().map_err(crate::world::Violation)?;
        self.check_events()?;
        let census = self.kernel.census();
        must!(
            census.user_lane + census.system_lane + census.completions_lane == 0,
            "at rest, but {census:?}"
        );
        let counters = self.kernel.counters();
        let ended = counters.requests_replied + counters.requests_failed;
        must!(
            counters.requests_accepted == ended + census.requests as u64,
            "{} requests accepted, {ended} ended, {} there",
            counters.requests_accepted,
            census.requests
        );
        Ok(())
    }

    /// Every event came to every capability that wants it, or is a dead letter.
    fn check_events(&self) -> Checked {
        let mut missing = 0;
        for (capability, ledger) in self.ledgers.iter().enumerate() {
            for token in self.tokens.each() {
                let wanted =
                    token.accepted_event.as_ref().is_some_and(|event| ledger.always_wants.contains(event));
                missing += u64::from(wanted && !token.deliveries.contains_key(&capability));
            }
        }
        // Those that wait for an actor's next incarnation are still there.
        let (waiting, dead) = (self.kernel.census().mailboxes as u64, self.kernel.counters().dead_letters);
        must!(
            missing <= waiting + dead,
            "{missing} events are gone, but {waiting} wait and {dead} are dead letters"
        );
        Ok(())
    }

    /// Every bound, after every step.
    pub(crate) fn check_bounds(&self) -> Checked {
        if self.ended.is_some() {
            return Ok(());
        }
        let limits = &self.scenario.config.limits;
        let census = self.kernel.census();
        must!(census.connections <= limits.connections_max, "{} connections", census.connections);
        let referring = census.connections + census.requests + census.window_answers + census.schedules;
        must!(
            census.peers <= referring + self.actors.len() + 1,
            "{} peers, though only {referring} can refer to one",
            census.peers
        );
        must!(census.requests <= limits.requests_max, "{} requests", census.requests);
        must!(
            census.window_answers <= limits.window_answers_max,
            "{} remembered answers",
            census.window_answers
        );
        must!(census.window_bytes <= limits.window_bytes_max, "{} remembered bytes", census.window_bytes);
        must!(census.history_bytes <= limits.history_bytes_max, "{} bytes of history", census.history_bytes);
        must!(census.schedules <= limits.timers_max, "{} schedules", census.schedules);
        must!(census.dead_letters <= limits.dead_letters_max, "{} dead letters", census.dead_letters);
        must!(
            census.dead_letter_bytes <= limits.dead_letter_bytes_max,
            "{} bytes of dead letters",
            census.dead_letter_bytes
        );
        for client in &self.clients {
            // A client that reads is never closed for what it has not read yet.
            let unread_max = 4 * limits.egress_bytes_max + limits.line_bytes_max;
            let stalled_ns = client.written_ns - client.moved_ns;
            must!(
                client.unread_bytes <= unread_max || stalled_ns < STALLED_NS,
                "{} bytes unread by {}, which read nothing for {stalled_ns} ns",
                client.unread_bytes,
                client.connection
            );
        }
        if self.counts.effects.is_multiple_of(THOROUGH_EVERY) {
            self.check_thoroughly()?;
        }
        Ok(())
    }

    /// Bounds per sender and per capability, and whether the kernel's tables agree with each other.
    fn check_thoroughly(&self) -> Checked {
        let limits = &self.scenario.config.limits;
        let audit = self.kernel.audit().map_err(crate::world::Violation)?;
        let lane_max = 2 * limits.lane_messages_max;
        must!(audit.longest_queue <= lane_max, "{} messages of one sender wait", audit.longest_queue);
        let bytes_max = 2 * limits.lane_bytes_max + limits.line_bytes_max;
        must!(audit.widest_queue_bytes <= bytes_max, "{} bytes of one sender wait", audit.widest_queue_bytes);
        let events_max = limits.subscriber_events_max;
        must!(audit.most_waiting_events <= events_max, "{} events wait", audit.most_waiting_events);
        must!(
            audit.most_requests <= limits.peer_requests_max,
            "{} requests of one peer",
            audit.most_requests
        );
        must!(
            audit.most_schedules <= limits.peer_timers_max,
            "{} schedules of one peer",
            audit.most_schedules
        );
        let remembered = audit.most_remembered;
        must!(remembered <= limits.window_peer_answers_max, "{remembered} remembered commands of one peer");
        let remembered = audit.most_remembered_bytes;
        must!(remembered <= limits.window_peer_bytes_max, "{remembered} remembered bytes of one peer");
        must!(audit.wasted_bytes <= limits.window_bytes_max, "{} bytes between answers", audit.wasted_bytes);
        let (most, all) = (audit.most_schedule_bytes, audit.schedule_bytes);
        must!(most <= limits.peer_timer_bytes_max, "{most} bytes of schedules of one peer");
        must!(all <= limits.timer_bytes_max, "{all} bytes of schedules");
        for (capability, mailbox) in audit.mailboxes.iter().enumerate() {
            let (messages_max, bytes_max) = self.ledgers[capability].mailbox_max;
            must!(mailbox.0 <= messages_max, "{} messages in the mailbox of cap{capability}", mailbox.0);
            must!(mailbox.1 <= bytes_max, "{} bytes in the mailbox of cap{capability}", mailbox.1);
        }
        Ok(())
    }
}
