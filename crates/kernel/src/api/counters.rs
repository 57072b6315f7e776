//! What has happened so far, in numbers.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident => $wire:literal,)*) => {
        /// Counts since the start. They only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Every counter with its name on the wire.
            pub fn each(&self) -> Vec<(&'static str, u64)> {
                vec![$(($wire, self.$name)),*]
            }
        }
    };
}

counters! {
    /// Lines that came from clients.
    lines_in => "linesIn",
    /// Lines that clients sent and that were refused.
    refused => "refused",
    /// Commands and queries accepted.
    requests_accepted => "requestsAccepted",
    /// Accepted requests that ended in a reply.
    requests_replied => "requestsReplied",
    /// Accepted requests that ended in an error.
    requests_failed => "requestsFailed",
    /// Accepted requests whose deadline passed.
    requests_timed_out => "requestsTimedOut",
    /// Accepted requests that their requesters cancelled.
    requests_cancelled => "requestsCancelled",
    /// Deliveries of requests after the first.
    retries => "retries",
    /// Requests that were answered from the window or together with the first of the same id.
    duplicates => "duplicates",
    /// Answers of commands forgotten before their time, though it is known that the commands were
    /// done: they were too large, or there were too many bytes of them.
    window_evictions => "windowEvictions",
    /// Commands forgotten before their time because there were too many: a repetition would be done
    /// again.
    window_forgotten => "windowForgotten",
    /// Requests that a capability had and that were forgotten as causes before their time, because
    /// there were too many.
    causes_forgotten => "causesForgotten",
    /// Outcomes whose requester was gone.
    unclaimed => "unclaimed",
    /// Outcomes that came after the deadline.
    late_outcomes => "lateOutcomes",
    /// Events accepted, from clients and actors.
    events_accepted => "eventsAccepted",
    /// Events delivered to an actor or written to a client, once for each.
    events_delivered => "eventsDelivered",
    /// Events that nobody wanted.
    events_unheard => "eventsUnheard",
    /// Events that slow subscribers lost.
    events_dropped => "eventsDropped",
    /// The kernel's own events that were dropped because the System lane was full.
    signals_dropped => "signalsDropped",
    /// Clients closed, subscribers robbed of waiting events and mailboxes emptied because the
    /// memory was used up.
    shed => "shed",
    /// Messages delivered to actors.
    deliveries => "deliveries",
    /// Lines written to clients.
    lines_out => "linesOut",
    /// Messages from actors.
    actor_outputs => "actorOutputs",
    /// Messages from incarnations of actors that were given up.
    stale_outputs => "staleOutputs",
    /// Invalid behaviour of actors.
    actor_faults => "actorFaults",
    /// Actors that ended unasked.
    actor_crashes => "actorCrashes",
    /// Actors started again.
    actor_restarts => "actorRestarts",
    /// Changes of capabilities that reloads made.
    reloads => "reloads",
    /// Reloads that were refused.
    reloads_refused => "reloadsRefused",
    /// Messages that became dead letters.
    dead_letters => "deadLetters",
    /// Scheduled messages that were sent.
    timers_fired => "timersFired",
    /// Ticks of repeating schedules that were folded into a later one.
    timer_ticks_missed => "timerTicksMissed",
    /// Connections opened.
    connections_opened => "connectionsOpened",
    /// Connections that the kernel closed.
    connections_evicted => "connectionsEvicted",
    /// Turns.
    turns => "turns",
    /// Signals served from the System lane.
    system_served => "systemServed",
    /// Outcomes served from the Completions lane.
    completions_served => "completionsServed",
    /// Messages served from the User lane.
    user_served => "userServed",
}
