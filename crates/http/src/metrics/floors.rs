//! Numbers of the floors below the kernel: the loop, clients, the process, the journal, spans,
//! guests.

/// Whether a number only ever grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Counter,
    Gauge,
}

/// One number: where it stands below `floors`, what it is called, and what one of it is worth.
pub(super) struct Number {
    /// The members that lead to it.
    pub(super) path: &'static [&'static str],
    pub(super) name: &'static str,
    pub(super) sort: Sort,
    /// What the number is multiplied with, so that times are seconds.
    pub(super) scale: f64,
    pub(super) help: &'static str,
}

const fn counter(path: &'static [&'static str], name: &'static str, help: &'static str) -> Number {
    Number { path, name, sort: Sort::Counter, scale: 1.0, help }
}

const fn gauge(path: &'static [&'static str], name: &'static str, help: &'static str) -> Number {
    Number { path, name, sort: Sort::Gauge, scale: 1.0, help }
}

const fn in_seconds(number: Number, scale: f64) -> Number {
    Number { scale, ..number }
}

/// Of the daemon as a whole. What is not there (no journal, no spans) is left out.
pub(super) const NUMBERS: &[Number] = &[
    counter(&["loop", "turns"], "loop_turns", "Turns of the event loop"),
    counter(&["loop", "events"], "loop_events", "Descriptors that were ready"),
    counter(&["loop", "taskPolls"], "loop_task_polls", "Polls of tasks"),
    gauge(&["loop", "busy"], "loop_busy_ratio", "Share of the time that the event loop worked, of late"),
    in_seconds(gauge(&["loop", "lagNs", "last"], "loop_lag_seconds", "How late the last timer was"), 1e-9),
    in_seconds(
        gauge(&["loop", "lagNs", "max"], "loop_lag_max_seconds", "How late a timer was at most, of late"),
        1e-9,
    ),
    counter(&["clients", "reads"], "client_reads", "Reads from clients by lines"),
    counter(&["clients", "bytesIn"], "client_read_bytes", "Bytes read from clients by lines"),
    counter(&["clients", "writes"], "client_writes", "Writes to clients by lines"),
    counter(&["clients", "bytesOut"], "client_written_bytes", "Bytes written to clients by lines"),
    counter(&["clients", "refused"], "clients_refused", "Clients that were turned away"),
    gauge(&["daemon", "memoryBytes"], "process_memory_bytes", "Memory of the daemon"),
    in_seconds(counter(&["daemon", "cpuMs"], "process_cpu_seconds", "CPU time of the daemon"), 1e-3),
    gauge(&["daemon", "descriptors"], "process_descriptors", "Open descriptors of the daemon"),
    gauge(&["daemon", "descriptorsMax"], "process_descriptors_max", "Descriptors that it may have open"),
    in_seconds(gauge(&["daemon", "uptimeMs"], "uptime_seconds", "Since when the daemon runs"), 1e-3),
    gauge(&["journal", "bytes"], "journal_bytes", "Bytes of the journal on disk"),
    gauge(&["journal", "segments"], "journal_segments", "Segments of the journal"),
    counter(&["journal", "facts"], "journal_facts", "Facts that are on disk"),
    counter(&["journal", "flushes"], "journal_flushes", "Flushes of the journal"),
    in_seconds(
        gauge(&["journal", "flushMeanUs"], "journal_flush_mean_seconds", "How long a flush took"),
        1e-6,
    ),
    in_seconds(
        gauge(&["journal", "flushMaxUs"], "journal_flush_max_seconds", "How long the slowest flush took"),
        1e-6,
    ),
    gauge(&["journal", "unflushedBytes"], "journal_unflushed_bytes", "Bytes that wait for the disk"),
    counter(&["journal", "snapshots"], "journal_snapshots", "Snapshots that were made"),
    gauge(&["journal", "held"], "journal_held_effects", "What waits for a fact to be on disk"),
    counter(&["telemetry", "spansExported"], "telemetry_spans_exported", "Spans that a collector took"),
    counter(&["telemetry", "spansDropped"], "telemetry_spans_dropped", "Spans that no collector took"),
    counter(
        &["telemetry", "postsFailed"],
        "telemetry_posts_failed",
        "Requests that a collector did not take",
    ),
];

/// Of each guest, below `floors.actors.{id}`.
pub(super) const GUEST_NUMBERS: &[Number] = &[
    counter(&["wakeups"], "guest_wakeups", "Times that a guest was woken"),
    counter(&["polls"], "guest_polls", "Waits of a guest"),
    counter(&["emptyPolls"], "guest_empty_polls", "Waits of a guest that brought nothing"),
    counter(&["agains"], "guest_agains", "Reads and writes of a guest that were tried in vain"),
    counter(&["preemptions"], "guest_preemptions", "Times that a guest had to pause for others"),
    in_seconds(counter(&["cpuUs"], "guest_cpu_seconds", "CPU time of a guest"), 1e-6),
    gauge(&["memoryBytes"], "guest_memory_bytes", "Memory of a guest"),
];
