use super::*;
use crate::{
    ActorExit, ActorRef, BootPlan, Change, ConnectionId, ConsoleRefused, Durable, Fact, Input, Manifest,
    Mode, PeerName, Rights, SettingsRefused,
};
use mainspring_message::{Draft, Envelope, Failure, Json, Kind, Started};
use serde_json::json;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl TapeSink for Memory {
    fn take(&mut self, record: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(record);
    }
}

impl Memory {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    fn read(&self) -> Vec<Recorded> {
        TapeReader::new(&self.bytes()).collect::<Result<_, _>>().unwrap()
    }
}

const NOW: Now = Now { mono_ns: 5_000_000, unix_ms: 1_767_910_000_000 };

fn manifest(id: &str) -> Manifest {
    let inbound = json!({ "properties": { "kind": { "const": "command" }, "type": { "const": format!("{id}.Do") },
        "data": { "type": "object", "properties": { "n": { "maximum": 2.5 } } } } });
    let mut manifest = Manifest::new(id, "about it", inbound.clone());
    manifest.outbound = Some(inbound);
    manifest.subscribes = vec!["Order.*".into()];
    manifest
        .types
        .insert("A.B".into(), serde_json::from_value(json!({ "title": "t", "deprecated": true })).unwrap());
    (manifest.cancel, manifest.durable, manifest.keeps_facts) = (true, false, true);
    manifest.redeliver = crate::Redeliver::Never;
    manifest.restart.when = crate::RestartWhen::OnFailure;
    manifest.limits.concurrency = 7;
    manifest
}

fn message(id: &str) -> Envelope {
    let line = format!(
        r#"{{"kind":"reply","type":"Order.Place","data":"ü","metadata":{{"id":"{id}","timestamp":1,"causation":"c"}}}}"#
    );
    Envelope::parse(line.as_bytes()).unwrap()
}

fn durable() -> Durable {
    let mut durable = Durable::default();
    durable.apply(Fact::Accepted {
        request: 4,
        peer: PeerName::Client("ada"),
        timer_id: None,
        deadline_ms: 9,
        unix_ms: 8,
        message: message("a").line(),
    });
    durable.apply(Fact::Delivered { request: 4, attempt: 2, unix_ms: 9 });
    durable
}

/// One input of each kind, with every variant of what it holds.
fn inputs() -> Vec<Input> {
    let (actor, client) = (ActorRef::new(3, 70_000), ConnectionId(u64::MAX));
    let rights = Rights::default().limited_to(["Order.*"]).as_operator(true);
    let mut draft = Draft::new(Kind::Error, "Order.Place", Json::parse(r#"{"a":[1]}"#).unwrap());
    draft.correlation = Some("w".into());
    draft.timeout_ms = Some(3);
    let mut deep = String::new();
    (0..200).for_each(|_| deep.push('['));
    (0..200).for_each(|_| deep.push(']'));
    let deep = Json::from_tape(&deep);
    assert!(deep.is_too_deep());
    vec![
        Input::PeersHave(vec![("ci".into(), rights.clone()), ("x".into(), Rights::default())]),
        Input::Restore(Box::new(durable())),
        Input::Boot(BootPlan {
            capabilities: vec![manifest("a"), manifest("b")],
            adapters: vec!["unix".into()],
        }),
        Input::ActorSpawned(actor, Ok(())),
        Input::ActorSpawned(actor, Err("why".into())),
        Input::ActorAttached(actor, Err(String::new())),
        Input::AdapterStarted(0, Ok("/run/x".into())),
        Input::AdapterStarted(1, Err("in use".into())),
        Input::AdapterEnded(1),
        Input::ConnectionOpened(client, "ada".into()),
        Input::ConnectionHas(client, rights),
        Input::Line(client, b"{\xff not text".to_vec()),
        Input::LineTooLong(client),
        Input::Written(client, 12_345),
        Input::ActorLine(actor, message("m").line().as_bytes().to_vec()),
        Input::ActorLineTooLong(actor),
        Input::ActorMessage(actor, Box::new(draft)),
        Input::ActorMessage(actor, Box::new(Draft::new(Kind::Event, "A.B", deep))),
        Input::ActorEvent { actor, cause: message("c"), type_name: "A.Progress".into(), data: Json::null() },
        Input::ActorComplained(actor, vec![0, 255]),
        Input::ActorExited(actor, ActorExit::Done),
        Input::ActorExited(actor, ActorExit::Failed("signal 9".into())),
        Input::ActorBlocked(actor),
        Input::ActorReady(actor),
        Input::ActorFailed(actor, "m".into(), Failure::NodeLost, "lost".into(), Started::Yes),
        Input::ActorProgress(actor, message("p"), true),
        Input::KeepValue { store: "s".into(), key: "k".into(), value: Some("1".into()) },
        Input::KeepValue { store: "s".into(), key: "k".into(), value: None },
        Input::SettingsRead(7, Ok(Json::null())),
        Input::SettingsRead(7, Err(SettingsRefused::Nothing)),
        Input::SettingsRead(7, Err(SettingsRefused::Busy)),
        Input::SettingsRead(7, Err(SettingsRefused::Faulty("line 3".into()))),
        Input::NodeTraceFetched(9, Ok(Json::null())),
        Input::NodeTraceFetched(9, Err("gone".into())),
        Input::ConsoleOpened(8, Err(ConsoleRefused::Nowhere("n".into()))),
        Input::ConsoleOpened(8, Err(ConsoleRefused::Stranger("s".into()))),
        Input::StatsCollected(9, Json::parse(r#"{"x":1.5}"#).unwrap()),
        Input::Reload(vec![
            Change::Add(manifest("c")),
            Change::Replace(manifest("a")),
            Change::Restart("b".into()),
            Change::Remove("b".into()),
        ]),
        Input::ActorRecord(
            actor,
            Box::new(Fact::Put { store: "s".into(), key: "k".into(), value: "1".into() }),
        ),
        Input::ActorRecord(actor, Box::new(Fact::Deleted { store: "s".into(), key: "k".into() })),
        Input::Flushed(300),
        Input::StorageFull(true),
        Input::StorageCongested(false),
        Input::EffectLost(Box::new(Effect::Write { connection: client, message: message("w") })),
        Input::EffectLost(Box::new(Effect::Deliver { actor, message: message("d") })),
        Input::StorageFailed("Input/output error".into()),
        Input::OutsideBytes(77),
        Input::Turn,
        Input::Hasten,
        Input::ConnectionClosed(client),
        Input::Shutdown("signal".into()),
    ]
}

#[test]
fn j8_1_every_input_is_on_the_tape_once_as_it_was() {
    let memory = Memory::default();
    let mut config = Config { mode: Mode::Batch, hang_ms: 77, ..Config::default() };
    config.limits.bad_lines_max = 3;
    let mut kernel = Kernel::recorded(config.clone(), 42, Box::new(memory.clone()));
    for (at, input) in inputs().into_iter().enumerate() {
        let now = Now { mono_ns: NOW.mono_ns + at as i64, ..NOW };
        memory.0.lock().unwrap().clear();
        kernel.apply(input.clone(), now);
        let mut read = memory.read();
        // What has no time of its own belongs to the input before it.
        if read.first() == Some(&Recorded::Now(now)) {
            read.remove(0);
        }
        assert_eq!(read, [Recorded::Input(Box::new(input))]);
    }
    let memory = Memory::default();
    drop(Kernel::recorded(config.clone(), 42, Box::new(memory.clone())));
    assert_eq!(memory.read(), [Recorded::Begin { config: Box::new(config), nonce: 42 }]);
}

/// A kernel that boots, is asked, and answers; gives the tape.
fn a_run(memory: &Memory) -> Vec<u8> {
    let mut kernel = Kernel::recorded(Config::default(), 42, Box::new(memory.clone()));
    let client = ConnectionId(1);
    let mut effects = Vec::new();
    kernel.boot(BootPlan { capabilities: Vec::new(), adapters: Vec::new() }, NOW);
    for _ in 0..4 {
        kernel.turn(NOW);
    }
    kernel.connection_opened(client, "ada", NOW);
    kernel.connection_has(client, Rights::of_operator(), NOW);
    for (id, type_name) in [("q-1", "Syscall.Ping"), ("q-2", "Sys.Console")] {
        let kind = if id == "q-1" { "query" } else { "command" };
        let line = format!(
            r#"{{"kind":"{kind}","type":"{type_name}","data":{{}},"metadata":{{"id":"{id}","timestamp":1}}}}"#
        );
        kernel.ingest(client, line.as_bytes(), NOW);
        for _ in 0..4 {
            kernel.turn(NOW);
            kernel.drain_effects(&mut effects);
        }
    }
    let ticket = effects.iter().find_map(|effect| match effect {
        Effect::OpenConsole { ticket, .. } => Some(*ticket),
        _ => None,
    });
    let address = Json::parse(r#"{"url":"http://127.0.0.1/#t=secret"}"#).unwrap();
    kernel.console_opened(ticket.expect("the console was asked for"), Ok(address), NOW);
    for _ in 0..4 {
        kernel.turn(NOW);
        kernel.drain_effects(&mut effects);
    }
    let told = format!("{effects:?}");
    assert!(told.contains("#t=secret"), "{told}");
    memory.bytes()
}

fn replay(bytes: &[u8]) -> Result<Replay, ReplayError> {
    let mut replay = Replay::default();
    for recorded in TapeReader::new(bytes) {
        replay.take(recorded?)?;
    }
    Ok(replay)
}

#[test]
fn j8_2_an_address_that_opens_the_console_is_not_on_the_tape_and_the_replay_is_the_same() {
    let bytes = a_run(&Memory::default());
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("secret"), "{text}");
    let replay = replay(&bytes).unwrap();
    assert!(replay.inputs() > 10 && replay.effects() > 3, "{replay:?}");
}

#[test]
fn j8_1_a_tape_that_was_changed_does_not_replay() {
    let bytes = a_run(&Memory::default());
    let place = bytes.windows(3).position(|window| window == b"q-1").unwrap();
    let mut changed = bytes.clone();
    changed[place + 2] = b'3';
    assert!(matches!(replay(&changed), Err(ReplayError::Differs { .. })));
    let headless = Memory::default();
    drop(Kernel::recorded(Config::default(), 42, Box::new(headless.clone())));
    let rest = &bytes[headless.bytes().len()..];
    assert_eq!(replay(rest).unwrap_err(), ReplayError::NoBeginning);
    let mut holed = headless.bytes();
    holed.extend(gap(17));
    assert_eq!(replay(&holed).unwrap_err(), ReplayError::Gap { after: 0, missing: 17 });
}

#[test]
fn any_bytes_are_a_tape_or_an_error_and_never_a_panic() {
    let bytes = a_run(&Memory::default());
    for length in 0..bytes.len() {
        let _ = replay(&bytes[..length]);
    }
    let mut random = 1_u64;
    for _ in 0..2000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut changed = bytes.clone();
        let place = (random >> 33) as usize % changed.len();
        changed[place] = (random >> 20) as u8;
        for recorded in TapeReader::new(&changed) {
            if recorded.is_err() {
                break;
            }
        }
    }
}
