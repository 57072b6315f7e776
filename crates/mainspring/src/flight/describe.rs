//! What a record says, for people and programs that read it.

use mainspring_kernel::{ActorRef, Effect, Input, Recorded};
use mainspring_message::Json;
use serde_json::{Value, json};

/// The record as an object, with the name of the input first; nothing for what only helps a replay.
pub(crate) fn describe(recorded: &Recorded) -> Option<(&'static str, Value)> {
    Some(match recorded {
        Recorded::Begin { .. } => ("begin", json!({})),
        Recorded::Gap { missing } => ("gap", json!({ "missing": missing })),
        Recorded::Now(_) | Recorded::Effects { .. } => return None,
        Recorded::Input(input) => describe_input(input)?,
    })
}

fn describe_input(input: &Input) -> Option<(&'static str, Value)> {
    Some(match input {
        // What the daemon does over and over, and nobody asked for.
        Input::Turn | Input::OutsideBytes(_) => return None,
        Input::Boot(plan) => {
            let ids: Vec<&str> = plan.capabilities.iter().map(|manifest| &*manifest.id).collect();
            ("boot", json!({ "capabilities": ids, "listeners": plan.adapters }))
        }
        Input::ActorSpawned(actor, result) => {
            ("actor_spawned", with(actor, json!({ "failed": result.as_ref().err() })))
        }
        Input::ActorAttached(actor, result) => {
            ("actor_attached", with(actor, json!({ "failed": result.as_ref().err() })))
        }
        Input::AdapterStarted(adapter, Ok(address)) => {
            ("listener_started", json!({ "listener": adapter, "address": address }))
        }
        Input::AdapterStarted(adapter, Err(reason)) => {
            ("listener_started", json!({ "listener": adapter, "failed": reason }))
        }
        Input::AdapterEnded(adapter) => ("listener_ended", json!({ "listener": adapter })),
        Input::ConnectionOpened(connection, peer) => {
            ("connection_opened", json!({ "connection": connection.0, "peer": peer }))
        }
        Input::ConnectionHas(connection, rights) => (
            "connection_has",
            json!({ "connection": connection.0,
            "allow": rights.patterns(), "operator": rights.is_operator() }),
        ),
        Input::PeersHave(peers) => {
            ("peers_have", json!({ "peers": peers.iter().map(|(name, _)| name).collect::<Vec<_>>() }))
        }
        Input::ConnectionClosed(connection) => ("connection_closed", json!({ "connection": connection.0 })),
        Input::Line(connection, line) => ("line", json!({ "connection": connection.0, "line": text(line) })),
        Input::LineTooLong(connection) => ("line_too_long", json!({ "connection": connection.0 })),
        Input::Written(connection, bytes) => {
            ("written", json!({ "connection": connection.0, "bytes": bytes }))
        }
        Input::ActorLine(actor, line) => ("actor_line", with(actor, json!({ "line": text(line) }))),
        Input::ActorLineTooLong(actor) => ("actor_line_too_long", with(actor, json!({}))),
        Input::ActorMessage(actor, draft) => (
            "actor_message",
            with(
                actor,
                json!({ "kind": draft.kind.as_str(),
            "type": &*draft.type_name, "causation": draft.causation.as_deref(), "data": value(&draft.data) }),
            ),
        ),
        Input::ActorEvent { actor, cause, type_name, data } => (
            "actor_event",
            with(actor, json!({ "type": type_name, "causation": cause.id(), "data": value(data) })),
        ),
        Input::ActorComplained(actor, line) => {
            ("actor_complained", with(actor, json!({ "line": text(line) })))
        }
        Input::ActorExited(actor, exit) => ("actor_exited", with(actor, json!({ "how": exit.to_string() }))),
        Input::ActorBlocked(actor) => ("actor_blocked", with(actor, json!({}))),
        Input::ActorReady(actor) => ("actor_ready", with(actor, json!({}))),
        Input::ActorFailed(actor, id, failure, text, started) => (
            "actor_failed",
            with(
                actor,
                json!({ "causation": id, "type": failure.type_name(), "message": text, "started": started.as_str() }),
            ),
        ),
        Input::ActorProgress(actor, event, _) => (
            "actor_progress",
            with(actor, json!({ "type": event.type_name(), "causation": event.causation() })),
        ),
        Input::KeepValue { store, key, value } => {
            ("keep_value", json!({ "store": store, "key": key, "kept": value.is_some() }))
        }
        Input::SettingsRead(ticket, result) => {
            ("settings_read", json!({ "ticket": ticket, "well": result.is_ok() }))
        }
        Input::NodeTraceFetched(ticket, result) => {
            ("node_trace_fetched", json!({ "ticket": ticket, "well": result.is_ok() }))
        }
        Input::ConsoleOpened(ticket, result) => {
            ("console_opened", json!({ "ticket": ticket, "well": result.is_ok() }))
        }
        Input::StatsCollected(ticket, _) => ("stats_collected", json!({ "ticket": ticket })),
        Input::Reload(changes) => (
            "reload",
            json!({ "capabilities": changes.iter().map(|change| change.id()).collect::<Vec<_>>() }),
        ),
        Input::Restore(durable) => (
            "restore",
            json!(
                durable
                    .counts()
                    .into_iter()
                    .map(|(name, count)| { (name.replace(' ', "_"), json!(count)) })
                    .collect::<serde_json::Map<_, _>>()
            ),
        ),
        Input::ActorRecord(actor, fact) => ("actor_record", with(actor, json!({ "fact": fact.name() }))),
        Input::Flushed(fact) => ("flushed", json!({ "facts": fact })),
        Input::StorageFull(is) => ("storage_full", json!({ "is": is })),
        Input::StorageCongested(is) => ("storage_congested", json!({ "is": is })),
        Input::StorageFailed(reason) => ("storage_failed", json!({ "reason": reason })),
        Input::EffectLost(effect) => ("effect_lost", lost(effect)),
        Input::Shutdown(reason) => ("shutdown", json!({ "reason": reason })),
        Input::Hasten => ("hasten", json!({})),
    })
}

fn with(actor: &ActorRef, mut object: Value) -> Value {
    object["capability"] = actor.capability.0.into();
    object["incarnation"] = actor.incarnation.into();
    object
}

fn lost(effect: &Effect) -> Value {
    match effect {
        Effect::Write { connection, message } => {
            json!({ "connection": connection.0, "line": message.line() })
        }
        Effect::Deliver { actor, message } => with(actor, json!({ "line": message.line() })),
        _ => json!({}),
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

fn value(data: &Json) -> Value {
    serde_json::from_str(data.as_str()).unwrap_or_else(|_| Value::from(data.as_str()))
}
