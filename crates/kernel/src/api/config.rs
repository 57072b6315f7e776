//! Every number that an operator may turn, with what is shipped.

use serde::{Deserialize, Serialize};

/// When the loop ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It waits for the next input or deadline until it is told to shut down.
    #[default]
    Daemon,
    /// It ends when nothing is left to do: no adapter, no request, no timer, no unwritten byte.
    Batch,
}

/// The settings of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// When the loop ends.
    pub mode: Mode,
    /// How long a request without `metadata.timeout` may take.
    pub default_timeout_ms: u64,
    /// The longest `metadata.timeout`; a longer one is refused.
    pub timeout_ms_max: u64,
    /// How long the boot may take from SPAWN to READY.
    pub boot_timeout_ms: u64,
    /// How long a shutdown waits for requests in flight, and then again for unwritten bytes.
    pub drain_ms: u64,
    /// How long after its timeout an actor may keep a request in its hands before it is restarted as hung.
    pub hang_ms: u64,
    /// How long a finished command and its answer are remembered for the same id.
    pub window_ms: u64,
    /// Whether `Sys.Stats` asks the floors below for their numbers (by an effect that an input answers).
    pub collect_stats: bool,
    /// The bounds.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mode: Mode::Daemon,
            default_timeout_ms: 30_000,
            timeout_ms_max: 24 * 3_600_000,
            boot_timeout_ms: 30_000,
            drain_ms: 10_000,
            hang_ms: 30_000,
            window_ms: 120_000,
            collect_stats: false,
            limits: Limits::default(),
        }
    }
}

/// The bound of everything that can grow, and (in each comment) what happens there.
///
/// Bounds are per offender wherever there is one, so that neighbours do not pay.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of one line. Beyond: the line is refused (413) from a client, a fault from an actor.
    pub line_bytes_max: usize,
    /// Connections. Beyond: the new one is closed.
    pub connections_max: usize,
    /// Bad lines in a row from one connection. Beyond: the connection is closed.
    pub bad_lines_max: u32,
    /// Messages of one sender that wait in the User lane. Beyond: reading from it pauses; at twice this, a client's
    /// message is refused (429) and an actor is at fault.
    pub lane_messages_max: usize,
    /// Bytes of one sender that wait in the User lane; same policy.
    pub lane_bytes_max: usize,
    /// Unfinished requests of one peer. Beyond: refused (429).
    pub peer_requests_max: usize,
    /// Unfinished requests in all. Beyond: refused (503).
    pub requests_max: usize,
    /// Connections that wait for the one answer of the same request. Beyond: refused (429).
    pub duplicates_max: usize,
    /// Requests that cause each other in a chain. Beyond: refused (508).
    pub chain_max: u32,
    /// Bytes handed out to one connection and not yet written. Beyond: reading from it pauses, what it asked waits in its
    /// lane, and events wait in its queue, until it has read half. What was under way is kept for it: a client that reads
    /// is never closed. One that has four times this and has read nothing for 5 seconds is.
    pub egress_bytes_max: usize,
    /// Events that wait for one slow subscriber. Beyond: the oldest are dropped (counted and told) or it is closed.
    pub subscriber_events_max: usize,
    /// Bytes of events that wait for one slow subscriber; same policy.
    pub subscriber_bytes_max: usize,
    /// Subscriptions of one connection. Beyond: refused (429).
    pub subscriptions_max: usize,
    /// Remembered commands in all. Beyond: the oldest of the peers that have most are forgotten, and counted.
    pub window_answers_max: usize,
    /// Remembered commands of one peer. Beyond: the oldest of its connections that have most bytes are forgotten, and
    /// counted; a repetition is then done again. A sixteenth of the bound becomes free at once, here and below.
    pub window_peer_answers_max: usize,
    /// Bytes of remembered answers in all. Beyond: the oldest answers of the peers that have most go, and are counted; that
    /// the commands were done stays known.
    pub window_bytes_max: usize,
    /// Bytes of remembered answers of one peer. Beyond: the oldest answers of its connections that have most bytes go, and
    /// are counted; a repetition is then refused (409, `started: yes`). So is one whose answer alone is above this.
    pub window_peer_bytes_max: usize,
    /// Scheduled messages of one peer. Beyond: refused (429).
    pub peer_timers_max: usize,
    /// Bytes of scheduled messages of one peer (of the commands that made them). Beyond: refused (429).
    pub peer_timer_bytes_max: usize,
    /// Ticks per second of all repeating schedules of one peer, a second's worth of them at once. Beyond: a tick waits for its
    /// place, those of its schedule that are due in the meantime fold into it, and it says how many (counted, too).
    pub peer_ticks_per_second: usize,
    /// Scheduled messages in all. Beyond: refused (503).
    pub timers_max: usize,
    /// Bytes of scheduled messages in all. Beyond: refused (503).
    pub timer_bytes_max: usize,
    /// Dead letters. Beyond: the oldest of whoever has most is dropped, and counted.
    pub dead_letters_max: usize,
    /// Bytes of dead letters, with their reasons; the oldest of whoever has most bytes is dropped, and counted.
    pub dead_letter_bytes_max: usize,
    /// Bytes of the history that `Sys.Trace` reads. Beyond: the older half is forgotten. 0: none is kept.
    pub history_bytes_max: usize,
    /// Bytes that clients and actors make the daemon hold in all, by its own account: unwritten and waiting messages,
    /// begun lines, remembered answers, dead letters, schedules, history. Beyond: whoever has most loses the events that
    /// wait for it, is told and closed, or (a mailbox) has its newest messages refused (503). 0: half of what the control
    /// group or the machine has.
    pub memory_bytes_max: usize,
    /// Events that an actor took and that are remembered as possible causes of what it says.
    pub recent_events_max: usize,
    /// System signals handled per turn.
    pub system_per_turn: usize,
    /// Completions handled per turn.
    pub completions_per_turn: usize,
    /// Timers that fire per turn.
    pub timers_per_turn: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            line_bytes_max: 1 << 20,
            connections_max: 16_384,
            bad_lines_max: 100,
            lane_messages_max: 1024,
            lane_bytes_max: 4 << 20,
            peer_requests_max: 16_384,
            requests_max: 262_144,
            duplicates_max: 16,
            chain_max: 64,
            egress_bytes_max: 4 << 20,
            subscriber_events_max: 1024,
            subscriber_bytes_max: 4 << 20,
            subscriptions_max: 256,
            window_answers_max: 65_536,
            window_peer_answers_max: 8192,
            window_bytes_max: 64 << 20,
            window_peer_bytes_max: 8 << 20,
            peer_timers_max: 1024,
            peer_timer_bytes_max: 8 << 20,
            peer_ticks_per_second: 1_000,
            timers_max: 65_536,
            timer_bytes_max: 64 << 20,
            dead_letters_max: 1024,
            dead_letter_bytes_max: 16 << 20,
            history_bytes_max: 4 << 20,
            memory_bytes_max: 0,
            recent_events_max: 64,
            system_per_turn: 256,
            completions_per_turn: 256,
            timers_per_turn: 1024,
        }
    }
}
