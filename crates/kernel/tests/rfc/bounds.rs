//! Every bound, and what happens there.

use super::support::*;
use mainspring_kernel::{ActorRef, CloseReason, Config, Effect, Limits, Rights, Source};
use mainspring_message::{Draft, Json, Kind};
use serde_json::json;

fn limited(change: impl Fn(&mut Limits)) -> Config {
    let mut config = Config::default();
    change(&mut config.limits);
    config
}

#[test]
fn a_sender_is_paused_at_its_bound_and_refused_at_twice_that() {
    let config = limited(|limits| limits.lane_messages_max = 4);
    let mut world = World::booted_with(config, vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    let source = Source::Connection(client);
    for number in 0..10 {
        world.send(client, &line("command", "Echo.Say", &format!("c-{number}"), json!(1)));
    }
    assert_eq!(world.count(|effect| *effect == Effect::PauseReading { source }), 1);
    let refused = world.take_written(client);
    assert_eq!(refused.iter().map(code).collect::<Vec<_>>(), [429, 429]);
    world.run();
    assert_eq!(world.count(|effect| *effect == Effect::ResumeReading { source }), 1);
}

#[test]
fn an_actor_that_floods_is_paused_and_then_at_fault() {
    let config = limited(|limits| limits.lane_messages_max = 4);
    let mut flood = manifest("flood", &["command:Flood.Do"]);
    flood.uncaused = true;
    let mut audit = manifest("audit", &["command:Audit.Read"]);
    audit.subscribes = vec!["Flood.Drop".into()];
    let mut world = World::booted_with(config, vec![flood, audit]);
    let actor = ActorRef::new(0, 1);
    for _ in 0..9 {
        world.kernel.actor_message(actor, Draft::new(Kind::Event, "Flood.Drop", Json::null()), world.now);
    }
    world.settle();
    assert_eq!(world.count(|effect| *effect == Effect::PauseReading { source: Source::Actor(actor) }), 1);
    assert_eq!(world.kernel.counters().actor_faults, 1);
    world.run();
    assert_eq!(world.kernel.counters().events_accepted, 8);
}

#[test]
fn a_full_mailbox_refuses_requests_and_buries_events() {
    let mut echo = manifest("echo", &["command:Echo.Say", "event:Echo.Heard"]);
    echo.limits.mailbox_messages = 2;
    let mut world = World::booted(vec![echo]);
    let client = world.connect(1);
    for number in 0..4 {
        world.send(client, &line("command", "Echo.Say", &format!("c-{number}"), json!(1)));
    }
    world.send(client, &line("event", "Echo.Heard", "e-1", json!(1)));
    world.run();
    let refused = world.only_written(client);
    assert_eq!((refused.type_name(), refused.causation()), ("Sys.Overloaded", Some("c-3")));
    assert_eq!(world.dead_letters(client)[0]["id"], "e-1");
}

#[test]
fn requests_that_time_out_in_a_mailbox_make_room_and_leave_no_trace() {
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.mailbox_messages = 10;
    let mut world = World::booted(vec![echo]);
    let client = world.connect(1);
    world.ask(client, &line_with("command", "Echo.Say", "stuck", json!(1), json!({ "timeout": 20_000 })));
    for round in 0..100 {
        for number in 0..10 {
            let id = format!("c-{round}-{number}");
            world.send(client, &line_with("command", "Echo.Say", &id, json!(1), json!({ "timeout": 10 })));
        }
        world.pass_ms(10);
        let answers = world.take_written(client);
        assert!(answers.iter().all(|answer| code(answer) == 504), "{answers:?}");
        assert_eq!(answers.len(), 10);
    }
    let census = world.kernel.census();
    assert_eq!((census.requests, census.mailboxes, census.window_answers), (1, 0, 0));
}

#[test]
fn one_peer_has_so_many_unfinished_requests_and_its_neighbour_is_served() {
    let config = limited(|limits| limits.peer_requests_max = 3);
    let mut world = World::booted_with(config, vec![manifest("echo", &["command:Echo.Say"])]);
    let (greedy, other) = (world.connect(1), world.connect(2));
    for number in 0..4 {
        world.send(greedy, &line("command", "Echo.Say", &format!("c-{number}"), json!(1)));
    }
    assert_eq!(code(&world.only_written(greedy)), 429);
    assert!(world.ask(other, &line("command", "Echo.Say", "c", json!(1))).is_empty());
}

#[test]
fn the_loop_has_so_many_unfinished_requests() {
    let config = limited(|limits| limits.requests_max = 2);
    let mut world = World::booted_with(config, vec![manifest("echo", &["command:Echo.Say"])]);
    for number in 0..3 {
        let client = world.connect(number);
        let answers = world.ask(client, &line("command", "Echo.Say", "c", json!(1)));
        assert_eq!(answers.first().map(code), (number == 2).then_some(503));
    }
}

#[test]
fn so_many_repetitions_wait_for_one_answer() {
    let config = limited(|limits| limits.duplicates_max = 2);
    let mut world = World::booted_with(config, vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    for _ in 0..4 {
        world.send(client, &line("command", "Echo.Say", "c", json!(1)));
    }
    assert_eq!(code(&world.only_written(client)), 429);
}

#[test]
fn so_many_connections_are_open() {
    let mut world = World::booted_with(limited(|limits| limits.connections_max = 1), vec![]);
    world.connect(1);
    let second = world.connect(2);
    let closed = Effect::Close { connection: second, reason: CloseReason::Full };
    assert_eq!(world.count(|effect| *effect == closed), 1);
}

#[test]
fn one_connection_has_so_many_subscriptions() {
    let mut world = World::booted_with(limited(|limits| limits.subscriptions_max = 2), vec![]);
    let client = world.connect(1);
    let answer = world.call(client, "command", "Sys.Subscribe", json!({ "types": ["A.B", "C.D", "E.F"] }));
    assert_eq!(code(&answer), 429);
}

#[test]
fn one_peer_and_the_loop_have_so_many_schedules() {
    let config = limited(|limits| {
        limits.peer_timers_max = 2;
        limits.timers_max = 3;
    });
    let mut world = World::booted_with(config, vec![]);
    let (one, two) = (world.connect(1), world.connect(2));
    let schedule = json!({ "delay": 10, "message": { "kind": "event", "type": "A.B", "data": 1 } });
    for (client, wanted) in [(one, None), (one, None), (one, Some(429)), (two, None), (two, Some(503))] {
        let answer = world.call(client, "command", "Timer.Schedule", schedule.clone());
        assert_eq!((answer.kind() == Kind::Error).then(|| code(&answer)), wanted);
    }
}

#[test]
fn a_timeout_beyond_the_limit_is_refused_by_name() {
    let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say"])]);
    let client = world.connect(1);
    let ask = line_with("command", "Echo.Say", "c", json!(1), json!({ "timeout": 9_000_000_000_000u64 }));
    let answers = world.ask(client, &ask);
    assert!(data(&answers[0])["message"].as_str().unwrap().starts_with("metadata.timeout"));
}

#[test]
fn a_chain_of_causes_has_a_bound() {
    let mut all = Vec::new();
    for n in 0..6 {
        let mut one = manifest(&format!("a{n}"), &[&format!("command:A{n}.Do")]);
        one.limits.concurrency = 4;
        all.push(one);
    }
    let mut world = World::booted_with(limited(|limits| limits.chain_max = 3), all);
    let client = world.connect(1);
    world.ask(client, &line("command", "A0.Do", "c", json!(1)));
    for n in 1..6 {
        let (actor, request) = world.only_delivered();
        if request.kind() == Kind::Error {
            assert_eq!((n, code(&request)), (5, 508));
            return;
        }
        world.says_draft(actor, Draft::caused_by(&request, Kind::Command, format!("A{n}.Do"), Json::null()));
    }
    panic!("no end to the chain");
}

#[test]
fn an_ask_ends_no_later_than_the_request_it_is_made_for() {
    let mut world = World::booted(vec![manifest("a", &["command:A.Do"]), manifest("b", &["command:B.Do"])]);
    let client = world.connect(1);
    world.ask(client, &line_with("command", "A.Do", "c", json!(1), json!({ "timeout": 50 })));
    let (a, request) = world.only_delivered();
    world.says_draft(a, Draft::caused_by(&request, Kind::Command, "B.Do", Json::null()));
    world.take_delivered();
    world.pass_ms(50);
    assert_eq!(code(&world.only_written(client)), 504);
    assert_eq!(world.only_delivered().1.type_name(), "Sys.Timeout");
    assert_eq!(world.kernel.census().requests, 0);
}

#[test]
fn a_hundred_thousand_pending_timeouts_leave_nothing_behind() {
    let mut config = limited(|limits| {
        limits.lane_messages_max = 1 << 20;
        limits.lane_bytes_max = 1 << 30;
        limits.peer_requests_max = 1 << 20;
        limits.window_peer_answers_max = 16;
    });
    config.default_timeout_ms = 1000;
    let mut echo = manifest("echo", &["command:Echo.Say"]);
    echo.limits.mailbox_messages = 1 << 20;
    echo.limits.mailbox_bytes = 1 << 30;
    let mut world = World::booted_with(config, vec![echo]);
    let client = world.connect(1);
    for number in 0..100_000 {
        world.send(client, &line("command", "Echo.Say", &format!("c-{number}"), json!(1)));
    }
    world.run();
    assert_eq!(world.kernel.census().requests, 100_000);
    world.pass_ms(1000);
    assert_eq!(world.take_written(client).len(), 100_000);
    let census = world.kernel.census();
    assert_eq!((census.requests, census.mailboxes, census.egress_bytes), (0, 0, 0));
    assert_eq!(census.timers, 1, "only the watch over the hung actor");
}

#[test]
fn the_same_inputs_give_the_same_effects() {
    let run = || {
        let mut world = World::booted(vec![manifest("echo", &["command:Echo.Say", "event:Echo.Heard"])]);
        for number in 1..20 {
            let client = world.connect(number);
            world.call(client, "command", "Sys.Subscribe", json!({ "types": ["Echo.*", "Sys.*"] }));
            world.send(client, &line("event", "Echo.Heard", &format!("e-{number}"), json!(1)));
            world.send(client, &line("command", "Echo.Say", "same", json!(number)));
        }
        world.run();
        let (actor, _) = world.take_delivered().pop().unwrap();
        world.crashes(actor);
        world.pass_ms(100_000);
        world.kernel.shutdown("test", world.now);
        world.pass_ms(100_000);
        format!("{:?}", world.effects)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_list_of_subscriptions_beyond_the_bound_is_refused_before_it_is_compared() {
    let mut world = World::booted_with(limited(|limits| limits.subscriptions_max = 3), vec![]);
    let client = world.connect(1);
    for command in ["Sys.Subscribe", "Sys.Unsubscribe"] {
        let types = json!({ "types": ["A.B", "A.B", "A.B", "A.B"] });
        assert_eq!(code(&world.call(client, "command", command, types)), 429);
    }
}

#[test]
fn an_actor_that_asks_and_never_reads_the_answers_is_at_fault() {
    let config = limited(|limits| limits.peer_requests_max = 5);
    let mut asker = manifest("asker", &["command:Ask.Do"]);
    asker.uncaused = true;
    let mut world = World::booted_with(config, vec![asker]);
    let actor = ActorRef::new(0, 1);
    world.kernel.actor_blocked(actor, world.now);
    for _ in 0..20 {
        world.says_draft(actor, Draft::new(Kind::Command, "No.One", Json::null()));
    }
    let counters = world.kernel.counters();
    assert_eq!((counters.actor_faults, counters.stale_outputs), (1, 14));
}

#[test]
fn one_peer_and_the_loop_have_so_many_bytes_of_schedules() {
    let config = limited(|limits| {
        limits.peer_timer_bytes_max = 2000;
        limits.timer_bytes_max = 3000;
    });
    let mut world = World::booted_with(config, vec![]);
    let (one, two) = (world.connect(1), world.connect(2));
    let schedule = json!({ "delay": 10,
        "message": { "kind": "event", "type": "A.B", "data": "x".repeat(800) } });
    for (client, wanted) in [(one, None), (one, None), (one, Some(429)), (two, None), (two, Some(503))] {
        let answer = world.call(client, "command", "Timer.Schedule", schedule.clone());
        assert_eq!((answer.kind() == Kind::Error).then(|| code(&answer)), wanted);
    }
    world.pass_ms(10);
    assert_eq!(world.call(one, "command", "Timer.Schedule", schedule).kind(), Kind::Reply);
}

#[test]
fn a_peer_whose_schedules_flood_the_lane_delays_itself_alone() {
    let mut world = World::booted_with(limited(|limits| limits.lane_messages_max = 8), vec![]);
    let (flood, quiet) = (world.connect(1), world.connect(2));
    world.call(quiet, "command", "Sys.Subscribe", json!({ "types": ["Quiet.Tick"] }));
    let event = |name: &str| json!({ "kind": "event", "type": name, "data": 1 });
    for _ in 0..50 {
        let ask = json!({ "repeat": 1, "message": event("Flood.Tick") });
        world.call(flood, "command", "Timer.Schedule", ask);
    }
    world.call(quiet, "command", "Timer.Schedule", json!({ "repeat": 1, "message": event("Quiet.Tick") }));
    world.now.mono_ns += 1_000_000;
    // One turn fires them all; two more serve one message of each sender.
    for _ in 0..3 {
        world.kernel.turn(world.now);
    }
    world.settle();
    assert_eq!(world.only_written(quiet).type_name(), "Quiet.Tick");
}

#[test]
fn the_reason_of_a_dead_letter_is_short_whatever_the_actor_said() {
    let mut world = World::booted(vec![manifest("frail", &["command:Frail.Do"])]);
    let client = world.connect(1);
    world.ask(client, &line("command", "Frail.Do", "c-1", json!(1)));
    let (actor, _) = world.only_delivered();
    let exit = mainspring_kernel::ActorExit::Failed("\u{e9}".repeat(100_000));
    world.kernel.actor_exited(actor, exit, world.now);
    world.run();
    assert!(world.dead_letters(client)[0]["reason"].as_str().unwrap().len() < 2000);
}

#[test]
fn inputs_as_values_do_what_the_methods_do() {
    use mainspring_kernel::{ActorExit, BootPlan, ConnectionId, Input, Kernel, Now};
    let now = Now { mono_ns: 0, unix_ms: START_UNIX_MS };
    let (actor, client) = (ActorRef::new(0, 1), ConnectionId(1));
    let plan = || BootPlan {
        capabilities: vec![manifest("echo", &["command:Echo.Say"])],
        adapters: vec!["unix".into()],
    };
    let ask = line("command", "Echo.Say", "c-1", json!(1));
    let reply = Draft::new(Kind::Reply, "Echo.Say", Json::null());
    let (mut by_method, mut by_value) =
        (Kernel::new(Config::default(), 7), Kernel::new(Config::default(), 7));
    type Step<'a> = (Box<dyn Fn(&mut Kernel) + 'a>, Input);
    let steps: Vec<Step<'_>> = vec![
        (Box::new(|kernel| kernel.boot(plan(), now)), Input::Boot(plan())),
        (Box::new(|kernel| kernel.actor_spawned(actor, Ok(()), now)), Input::ActorSpawned(actor, Ok(()))),
        (Box::new(|kernel| kernel.actor_attached(actor, Ok(()), now)), Input::ActorAttached(actor, Ok(()))),
        (
            Box::new(|kernel| kernel.adapter_started(0, Ok("a".into()), now)),
            Input::AdapterStarted(0, Ok("a".into())),
        ),
        (
            Box::new(|kernel| kernel.connection_opened(client, "alice", now)),
            Input::ConnectionOpened(client, "alice".into()),
        ),
        (
            Box::new(|kernel| kernel.connection_has(client, Rights::of_operator(), now)),
            Input::ConnectionHas(client, Rights::of_operator()),
        ),
        (
            Box::new(|kernel| kernel.ingest(client, ask.as_bytes(), now)),
            Input::Line(client, ask.clone().into_bytes()),
        ),
        (Box::new(|kernel| kernel.line_too_long(client, now)), Input::LineTooLong(client)),
        (
            Box::new(|kernel| {
                kernel.turn(now);
            }),
            Input::Turn,
        ),
        (Box::new(|kernel| kernel.actor_blocked(actor, now)), Input::ActorBlocked(actor)),
        (Box::new(|kernel| kernel.actor_ready(actor, now)), Input::ActorReady(actor)),
        (
            Box::new(|kernel| kernel.actor_message(actor, reply.clone(), now)),
            Input::ActorMessage(actor, Box::new(reply.clone())),
        ),
        (Box::new(|kernel| kernel.actor_line(actor, b"{}", now)), Input::ActorLine(actor, b"{}".to_vec())),
        (
            Box::new(|kernel| {
                kernel.actor_complained(actor, b"oh", now);
            }),
            Input::ActorComplained(actor, b"oh".to_vec()),
        ),
        (
            Box::new(|kernel| kernel.actor_exited(actor, ActorExit::Done, now)),
            Input::ActorExited(actor, ActorExit::Done),
        ),
        (Box::new(|kernel| kernel.written(client, 10, now)), Input::Written(client, 10)),
        (
            Box::new(|kernel| kernel.stats_collected(1, Json::null(), now)),
            Input::StatsCollected(1, Json::null()),
        ),
        (Box::new(|kernel| kernel.adapter_ended(0, now)), Input::AdapterEnded(0)),
        (Box::new(|kernel| kernel.connection_closed(client, now)), Input::ConnectionClosed(client)),
        (Box::new(|kernel| kernel.shutdown("test", now)), Input::Shutdown("test".into())),
        (
            Box::new(|kernel| {
                kernel.turn(now);
            }),
            Input::Turn,
        ),
    ];
    for (method, input) in steps {
        let what = format!("{input:?}");
        method(&mut by_method);
        by_value.apply(input, now);
        let (mut wanted, mut given) = (Vec::new(), Vec::new());
        by_method.drain_effects(&mut wanted);
        by_value.drain_effects(&mut given);
        assert_eq!(wanted, given, "{what}");
        assert_eq!(by_method.counters(), by_value.counters(), "{what}");
    }
}
