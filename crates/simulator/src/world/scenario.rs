//! What is simulated: settings, capabilities and weather, all from the seed.

use mainspring_kernel::{
    ActorLimits, BootPlan, Config, Limits, Manifest, Mode, Redeliver, RestartPolicy, RestartWhen, RetryPolicy,
};
use serde_json::json;

use crate::random::Random;
use crate::world::action::Weather;

/// The most capabilities of a world.
pub(crate) const CAPABILITIES_MAX: u64 = 5;

/// The setting of one simulation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The kernel's settings; bounds are often small, so that they are met.
    pub config: Config,
    /// The capabilities and adapters.
    pub plan: BootPlan,
    /// Which actors exchange parsed messages instead of lines.
    pub native: Vec<bool>,
    /// Which actions are likely.
    pub weather: Weather,
    /// Makes the kernel's ids.
    pub nonce: u64,
    /// Whether something goes wrong during the boot.
    pub boot_fails: bool,
}

impl Scenario {
    /// A random scenario.
    pub fn random(random: &mut Random) -> Scenario {
        let count = 2 + random.below(CAPABILITIES_MAX - 1) as usize;
        let weather = random.weighted(&[
            (4, Weather::Fair),
            (4, Weather::Stormy),
            (2, Weather::Flood),
            (2, Weather::Slow),
        ]);
        Scenario {
            config: config(random),
            plan: BootPlan {
                capabilities: (0..count).map(|at| manifest(random, at, count)).collect(),
                adapters: vec!["unix:simulated".to_owned()],
            },
            native: (0..count).map(|_| random.percent(50)).collect(),
            weather,
            nonce: random.word(),
            boot_fails: random.percent(3),
        }
    }
}

fn config(random: &mut Random) -> Config {
    let default_timeout_ms = random.pick(&[50, 1_000, 30_000]);
    Config {
        mode: if random.percent(15) { Mode::Batch } else { Mode::Daemon },
        default_timeout_ms,
        timeout_ms_max: 120_000,
        drain_ms: random.pick(&[0, 100, 10_000]),
        hang_ms: random.pick(&[10, 1_000, 30_000]),
        window_ms: random.pick(&[1, 1_000, 120_000]),
        collect_stats: random.percent(50),
        limits: if random.percent(50) { tight_limits(random) } else { Limits::default() },
        ..Config::default()
    }
}

/// Bounds that a few dozen messages meet.
fn tight_limits(random: &mut Random) -> Limits {
    let mut limits = Limits {
        line_bytes_max: 2_000,
        connections_max: 6,
        bad_lines_max: 3,
        lane_messages_max: 8,
        lane_bytes_max: 4_000,
        peer_requests_max: 12,
        requests_max: 20,
        duplicates_max: 2,
        chain_max: 3,
        egress_bytes_max: 3_000,
        subscriber_events_max: 5,
        subscriber_bytes_max: 2_000,
        subscriptions_max: 3,
        window_answers_max: 16,
        window_peer_answers_max: 6,
        window_bytes_max: 4_000,
        window_peer_bytes_max: 1_500,
        peer_timers_max: 4,
        peer_timer_bytes_max: 900,
        peer_ticks_per_second: 3,
        timers_max: 6,
        timer_bytes_max: 1_500,
        dead_letters_max: 8,
        dead_letter_bytes_max: 900,
        history_bytes_max: 3_000,
        // What is kept of data is found in traces, where a token of somebody else would be taken
        // for an answer.
        history_data_bytes_max: 0,
        tap_records_per_second: 100,
        tap_data_bytes_max: 64,
        memory_bytes_max: 24_000,
        recent_events_max: 4,
        system_per_turn: 2,
        completions_per_turn: 2,
        timers_per_turn: 3,
    };
    // Not all of them at once, or only the tightest would ever be met.
    let usual = Limits::default();
    for (bit, (tight, usual)) in [
        (&mut limits.connections_max, usual.connections_max),
        (&mut limits.lane_messages_max, usual.lane_messages_max),
        (&mut limits.lane_bytes_max, usual.lane_bytes_max),
        (&mut limits.peer_requests_max, usual.peer_requests_max),
        (&mut limits.requests_max, usual.requests_max),
        (&mut limits.egress_bytes_max, usual.egress_bytes_max),
        (&mut limits.memory_bytes_max, usual.memory_bytes_max),
        (&mut limits.system_per_turn, usual.system_per_turn),
        (&mut limits.completions_per_turn, usual.completions_per_turn),
        (&mut limits.timers_per_turn, usual.timers_per_turn),
    ]
    .into_iter()
    .enumerate()
    {
        if random.word() >> bit & 1 == 0 {
            *tight = usual;
        }
    }
    limits
}

pub(crate) fn manifest(random: &mut Random, at: usize, count: usize) -> Manifest {
    let data = json!({
        "type": "object",
        "properties": { "token": { "type": "integer", "minimum": 0 } },
        "required": ["token"],
    });
    let message = |kinds: &[&str], types: Vec<String>| json!({ "properties": { "kind": { "enum": kinds }, "type": { "enum": types }, "data": data } });
    let others = (0..count).flat_map(|other| [format!("Cap{other}.Do"), format!("Cap{other}.Ask")]).collect();
    let inbound = json!({ "anyOf": [
        message(&["command"], vec![format!("Cap{at}.Do")]),
        message(&["query"], vec![format!("Cap{at}.Ask")]),
    ] });
    let outbound = json!({ "anyOf": [
        message(&["reply"], vec![format!("Cap{at}.Do"), format!("Cap{at}.Ask")]),
        message(&["event"], vec![format!("Cap{at}.Happened")]),
        message(&["command", "query"], others),
        { "properties": { "kind": { "const": "query" }, "type": { "const": "Syscall.Ping" } } },
    ] });
    let mut subscribes = Vec::new();
    for event in 0..count {
        // Nobody listens to itself or to later ones, or events would go round for ever.
        if event < at && random.percent(40) {
            subscribes.push(format!("Cap{event}.Happened"));
        }
    }
    if random.percent(60) {
        subscribes.push("World.Happened".to_owned());
    }
    Manifest {
        id: format!("cap{at}"),
        description: "Takes part in a simulation.".to_owned(),
        inbound,
        outbound: random.percent(80).then_some(outbound),
        subscribes,
        uncaused: random.percent(30),
        types: Default::default(),
        cancel: true,
        operator: false,
        durable: true,
        redeliver: Redeliver::IfNotStarted,
        durable_events: false,
        share: false,
        share_events: Vec::new(),
        partition_by: None,
        keeps_facts: false,
        restart: RestartPolicy {
            when: random.weighted(&[
                (8, RestartWhen::Always),
                (2, RestartWhen::OnFailure),
                (1, RestartWhen::Never),
            ]),
            max_restarts: random.pick(&[0, 1, 3, 100]),
            window_ms: random.pick(&[100, 60_000]),
            backoff_ms: random.pick(&[0, 10, 1_000]),
            backoff_max_ms: random.pick(&[10, 30_000]),
            probe_ms: random.pick(&[10, 30_000]),
        },
        retry: RetryPolicy { attempts: random.pick(&[1, 1, 3]), backoff_ms: random.pick(&[0, 10, 1_000]) },
        limits: ActorLimits {
            concurrency: random.pick(&[1, 1, 1, 2, 8]),
            mailbox_messages: random.pick(&[4, 64, 8192]),
            mailbox_bytes: random.pick(&[2_000, 16 << 20]),
        },
    }
}
