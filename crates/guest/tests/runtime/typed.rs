//! Typed handlers: the shape of `mainspring-capability`, as tasks of a guest.

use crate::support::Host;
use mainspring_guest::capability::schemars::{self, JsonSchema};
use mainspring_guest::capability::{Ask, Capability, Context, Empty, Failure, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

const STDIN: i32 = 0;
const STDOUT: i32 = 1;

#[derive(Deserialize, JsonSchema)]
struct Note {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Kept {
    words: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    ms: u64,
}

fn line(kind: &str, type_name: &str, id: &str, data: Value) -> String {
    json!({ "kind": kind, "type": type_name, "data": data, "metadata": { "id": id, "timestamp": 5 } })
        .to_string()
        + "\n"
}

fn answer_to(kind: &str, request: &str, data: Value) -> String {
    let metadata = json!({ "id": format!("answer to {request}"), "timestamp": 5, "causation": request });
    json!({ "kind": kind, "type": "Memory.Get", "data": data, "metadata": metadata }).to_string() + "\n"
}

fn said(host: &Host) -> Vec<Value> {
    let text = String::from_utf8(host.written(STDOUT)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What was said, as kinds, causes and data.
fn told(host: &Host) -> Vec<(String, String, Value)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    said(host)
        .iter()
        .map(|message| {
            (text(&message["kind"]), text(&message["metadata"]["causation"]), message["data"].clone())
        })
        .collect()
}

fn end_input(host: &Host) {
    host.with_stream(STDIN, |stream| stream.ended = true);
}

fn notes() -> Capability {
    Capability::new("notes", "Keeps notes.")
        .emits::<Kept>("Notes.Added", "A note was added.")
        .command("Notes.Add", "Keeps a note.", async |note: Note, context: Context| {
            let kept = Kept { words: note.text.split(' ').count() };
            context.emit("Notes.Added", &kept).await?;
            Ok(kept)
        })
        .query("Notes.Find", "Finds a note.", async |note: Note, _| -> Result<Kept, Failure> {
            Err(Failure::new(404, format!("no note has {}", note.text)))
        })
        .query("Notes.Break", "Fails.", async |_: Empty, _| -> Result<Kept, Failure> {
            Err(std::io::Error::other("the secret of the disk"))?
        })
}

#[test]
fn handlers_get_their_types_and_whatever_does_not_fit_is_answered_for_them() {
    let (host, _installed) = Host::start();
    let lines = [
        line("command", "Notes.Add", "a", json!({ "text": "one two" })),
        line("command", "Notes.Add", "b", json!({ "texd": "one" })),
        line("query", "Notes.Find", "c", json!({ "text": "x" })),
        line("query", "Notes.Break", "d", json!({})),
        "nonsense\n".to_owned(),
        line("query", "Notes.Unknown", "e", json!({})),
    ];
    host.deliver(STDIN, lines.concat().as_bytes());
    host.then(end_input);
    assert_eq!(format!("{:?}", notes().run()), format!("{:?}", ExitCode::SUCCESS));
    let told = told(&host);
    assert_eq!(told[0], ("event".into(), "a".into(), json!({ "words": 2 })));
    assert_eq!(told[1], ("reply".into(), "a".into(), json!({ "words": 2 })));
    let codes: Vec<(&str, u64)> =
        told[2..].iter().map(|(_, cause, data)| (cause.as_str(), data["code"].as_u64().unwrap())).collect();
    assert_eq!(codes, [("b", 422), ("c", 404), ("d", 500), ("e", 404)]);
    assert_eq!(told[3].2["message"], "no note has x");
    assert!(!told[4].2.to_string().contains("secret"), "{:?}", told[4]);
}

#[test]
fn the_manifest_is_that_of_a_process_with_the_same_types() {
    let manifest = notes().concurrency(4).manifest();
    assert_eq!(manifest["id"], "notes");
    assert_eq!(manifest["inbound"]["anyOf"][0]["properties"]["type"]["const"], "Notes.Add");
    assert_eq!(manifest["inbound"]["$defs"]["Note"]["required"], json!(["text"]));
    assert_eq!(manifest["limits"]["concurrency"], 4);
    assert_eq!(manifest["cancel"], true);
}

#[test]
fn a_handler_that_asks_waits_for_its_answer_while_the_input_is_read() {
    let (host, _installed) = Host::start();
    host.deliver(STDIN, line("command", "Notes.Ask", "a", json!({})).as_bytes());
    host.then(|host| {
        let request = said(host)[0]["metadata"]["id"].as_str().unwrap().to_owned();
        host.deliver(STDIN, answer_to("reply", &request, json!({ "value": 7 })).as_bytes());
    });
    host.then(|host| host.deliver(STDIN, line("command", "Notes.Ask", "b", json!({})).as_bytes()));
    host.then(|host| {
        let request = said(host)[2]["metadata"]["id"].as_str().unwrap().to_owned();
        let error = json!({ "code": 404, "message": "no such key" });
        host.deliver(STDIN, answer_to("error", &request, error).as_bytes());
    });
    // The third is never answered: the input ends.
    host.then(|host| host.deliver(STDIN, line("command", "Notes.Ask", "c", json!({})).as_bytes()));
    host.then(end_input);
    let capability = Capability::new("notes", "Keeps notes.").asks(Kind::Query, "Memory.Get").command(
        "Notes.Ask",
        "Asks.",
        async |_: Empty, context: Context| -> Result<Value, Failure> {
            let reply = context.ask(&Ask::query("Memory.Get", &json!({ "key": "k" }))).await?;
            Ok(reply.data::<Value>()?["value"].clone())
        },
    );
    let _ = capability.run();
    let told: Vec<_> = told(&host).into_iter().filter(|(kind, ..)| kind != "query").collect();
    assert_eq!(told[0], ("reply".into(), "a".into(), json!(7)));
    assert_eq!((told[1].1.as_str(), &told[1].2["code"]), ("b", &json!(404)));
    assert_eq!((told[2].1.as_str(), &told[2].2["code"]), ("c", &json!(503)));
    assert!(told[2].2["message"].as_str().unwrap().contains("the input ended"), "{told:?}");
}

/// The order in which requests of 20 and 10 ms end, and an event between them is handled.
fn order(concurrency: usize) -> Vec<String> {
    let (host, _installed) = Host::start();
    let lines = [
        line("command", "Notes.Slow", "slow", json!({ "ms": 20 })),
        line("event", "App.Reset", "reset", json!({})),
        line("command", "Notes.Slow", "quick", json!({ "ms": 10 })),
    ];
    host.deliver(STDIN, lines.concat().as_bytes());
    end_input(&host);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (of_events, of_requests) = (Rc::clone(&seen), Rc::clone(&seen));
    let capability = Capability::new("notes", "Keeps notes.")
        .concurrency(concurrency)
        .command("Notes.Slow", "Waits.", move |slow: Slow, context: Context| {
            let seen = Rc::clone(&of_requests);
            async move {
                context.sleep(Duration::from_millis(slow.ms)).await?;
                seen.borrow_mut().push(context.id().to_owned());
                Ok(())
            }
        })
        .on("App.Reset", move |_: Empty, context: Context| {
            of_events.borrow_mut().push(context.id().to_owned());
            async { Ok(()) }
        });
    let _ = capability.run();
    assert_eq!(told(&host).len(), 2);
    seen.take()
}

#[test]
fn one_request_at_a_time_keeps_the_order() {
    assert_eq!(order(1), ["slow", "reset", "quick"]);
}

#[test]
fn several_requests_run_side_by_side() {
    assert_eq!(order(2), ["reset", "quick", "slow"]);
}

#[test]
fn a_request_that_is_cancelled_stops_waiting() {
    let (host, _installed) = Host::start();
    host.deliver(STDIN, line("command", "Notes.Slow", "a", json!({ "ms": 60_000 })).as_bytes());
    host.then(|host| {
        let metadata = json!({ "id": "x", "timestamp": 5, "causation": "a" });
        let event =
            json!({ "kind": "event", "type": "Sys.RequestCancelled", "data": {}, "metadata": metadata });
        host.deliver(STDIN, format!("{event}\n").as_bytes());
    });
    host.then(end_input);
    let slow = async |slow: Slow, context: Context| -> Result<u64, Failure> {
        context.sleep(Duration::from_millis(slow.ms)).await?;
        Ok(slow.ms)
    };
    let _ = Capability::new("notes", "Keeps notes.").command("Notes.Slow", "Waits.", slow).run();
    assert_eq!(told(&host)[0].2["code"], 499);
    assert!(host.now_ns() < 1_000_000_000, "it did not wait for a minute");
}

#[test]
fn answers_of_one_turn_are_written_together() {
    let (host, _installed) = Host::start();
    let batch: String =
        (0..50).map(|number| line("command", "Notes.Count", &number.to_string(), json!({}))).collect();
    host.deliver(STDIN, batch.as_bytes());
    let before = host.calls.get();
    host.then(end_input);
    let count = async |_: Empty, _: Context| -> Result<u32, Failure> { Ok(1) };
    let _ = Capability::new("notes", "Keeps notes.")
        .concurrency(50)
        .query("Notes.Other", "Counts.", count)
        .command("Notes.Count", "Counts.", count)
        .run();
    assert_eq!(told(&host).len(), 50);
    assert!(host.calls.get() - before < 30, "{} calls", host.calls.get() - before);
}
