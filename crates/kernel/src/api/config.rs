//! Every number that an operator may turn, with what is shipped.

use crate::keys::Bytes;
use mainspring_message::LINE_BYTES_CEILING;

/// When the kernel ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It waits for the next input or deadline until it is told to shut down.
    #[default]
    Daemon,
    /// It ends when nothing is left to do: no adapter, no request, no timer, no unwritten byte.
    Batch,
}

/// The settings of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// When the kernel ends.
    pub mode: Mode,
    /// How long a request without `metadata.timeout` may take.
    pub default_timeout_ms: u64,
    /// The longest `metadata.timeout`; a longer one is refused.
    pub timeout_ms_max: u64,
    /// How long the boot may take from SPAWN to READY.
    pub boot_timeout_ms: u64,
    /// How long a shutdown waits for requests in flight, and then again for unwritten bytes.
    pub drain_ms: u64,
    /// How long after its timeout an actor may keep a request in progress before it is restarted as
    /// hung.
    pub hang_ms: u64,
    /// How long a finished command and its answer are remembered for the same id.
    pub window_ms: u64,
    /// Whether `Sys.Stats` asks the floors below for their numbers (by an effect that an input
    /// answers).
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

crate::keys! {
    /// The bound of everything that can grow, and what happens at the bound.
    ///
    /// Bounds are per offender wherever there is one, so that neighbours do not pay.
    pub struct Limits {
        /// Bytes of one line. Beyond: the line is refused (413) from a client, a fault from an
        /// actor.
        line_bytes_max: usize as Bytes = 1 << 20, in 1..=LINE_BYTES_CEILING;
        /// Connections. Beyond: the new one is closed.
        connections_max: usize = 16_384, in 1..;
        /// Bad lines in a row from one connection. Beyond: the connection is closed.
        bad_lines_max: u32 = 100, in 1..;
        /// Messages of one sender that wait in the User lane. Beyond: reading from it pauses; at
        /// twice this, a client's message is refused (429) and an actor is at fault.
        lane_messages_max: usize = 1024, in 1..;
        /// Bytes of one sender that wait in the User lane; same policy.
        lane_bytes_max: usize as Bytes = 4 << 20, in 1..;
        /// Unfinished requests of one peer. Beyond: refused (429).
        peer_requests_max: usize = 16_384, in 1..;
        /// Unfinished requests in all. Beyond: refused (503).
        requests_max: usize = 262_144, in 1..;
        /// Connections that wait for the one answer of the same request. Beyond: refused (429).
        duplicates_max: usize = 16, in 1..;
        /// Requests that cause each other in a chain. Beyond: refused (508).
        chain_max: u32 = 64, in 1..;
        /// Bytes written to one connection that have not left. Beyond: reading from it pauses, what
        /// it asked waits in its lane, and events wait in its queue, until it has read half. What
        /// was under way is kept for it: a client that reads is never closed. One that has four
        /// times this and has read nothing for 5 seconds is.
        egress_bytes_max: usize as Bytes = 4 << 20, in 1..;
        /// Events that wait for one slow subscriber. Beyond: the oldest are dropped (counted and
        /// told) or it is closed.
        subscriber_events_max: usize = 1024, in 1..;
        /// Bytes of events that wait for one slow subscriber; same policy.
        subscriber_bytes_max: usize as Bytes = 4 << 20, in 1..;
        /// Subscriptions of one connection. Beyond: refused (429).
        subscriptions_max: usize = 256, in 1..;
        /// Remembered commands in all. Beyond: the oldest of the peers that have most are
        /// forgotten, and counted.
        window_answers_max: usize = 65_536, in 1..;
        /// Remembered commands of one peer. Beyond: the oldest of its connections that have most
        /// bytes are forgotten, and counted; a repetition is then done again. A sixteenth of the
        /// bound becomes free at once, here and below.
        window_peer_answers_max: usize = 8192, in 1..;
        /// Bytes of remembered answers in all. Beyond: the oldest answers of the peers that have
        /// most go, and are counted; that the commands were done stays known.
        window_bytes_max: usize as Bytes = 64 << 20, in 1..;
        /// Bytes of remembered answers of one peer. Beyond: the oldest answers of its connections
        /// that have most bytes go, and are counted; a repetition is then refused (409, `started:
        /// yes`). So is one whose answer alone is above this.
        window_peer_bytes_max: usize as Bytes = 8 << 20, in 1..;
        /// Scheduled messages of one peer. Beyond: refused (429).
        peer_timers_max: usize = 1024, in 1..;
        /// Bytes of scheduled messages of one peer (of the commands that made them). Beyond:
        /// refused (429).
        peer_timer_bytes_max: usize as Bytes = 8 << 20, in 1..;
        /// Ticks per second of all repeating schedules of one peer, a second's worth of them at
        /// once. Beyond: a tick waits for its place, those of its schedule that are due in the
        /// meantime fold into it, and it says how many (counted, too).
        peer_ticks_per_second: usize = 1_000, in 1..;
        /// Scheduled messages in all. Beyond: refused (503).
        timers_max: usize = 65_536, in 1..;
        /// Bytes of scheduled messages in all. Beyond: refused (503).
        timer_bytes_max: usize as Bytes = 64 << 20, in 1..;
        /// Dead letters. Beyond: the oldest of whoever has most is dropped, and counted.
        dead_letters_max: usize = 1024, in 1..;
        /// Bytes of dead letters, with their reasons; the oldest of whoever has most bytes is
        /// dropped, and counted.
        dead_letter_bytes_max: usize as Bytes = 16 << 20, in 1..;
        /// Bytes of the history that `Sys.Trace` reads. Beyond: the older half is forgotten. 0:
        /// none is kept.
        history_bytes_max: usize as Bytes = 4 << 20;
        /// Bytes of the messages whose data `Sys.Trace` shows. Beyond: the oldest are forgotten. 0:
        /// no data is kept.
        history_data_bytes_max: usize as Bytes = 0;
        /// Records that one connection which taps gets in a second. Beyond: they are counted, and
        /// not made.
        tap_records_per_second: usize = 5000, in 1..;
        /// The longest data that a tap or a trace shows; of what is longer the length is told. 0:
        /// none is shown.
        tap_data_bytes_max: usize as Bytes = 4096;
        /// Bytes that clients and actors make the daemon hold in all, by its own account: unwritten
        /// and waiting messages, begun lines, remembered answers, dead letters, schedules, history.
        /// Beyond: whoever has most loses the events that wait for it, is told and closed, or (a
        /// mailbox) has its newest messages refused (503). 0: half of what the control group or the
        /// machine has.
        memory_bytes_max: usize as Bytes = 0;
        /// Events that an actor took and that are remembered as possible causes of what it says.
        recent_events_max: usize = 64, in 1..;
        /// System signals handled per turn.
        system_per_turn: usize = 256, in 1..;
        /// Completions handled per turn.
        completions_per_turn: usize = 256, in 1..;
        /// Timers that fire per turn.
        timers_per_turn: usize = 1024, in 1..;
    }
}
