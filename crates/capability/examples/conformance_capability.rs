//! The conformance capability (see sdk/conformance/README.md).

use mainspring_capability::schemars::{self, JsonSchema};
use mainspring_capability::{Anything, Ask, Capability, Context, Empty, Failure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Fail {
    code: u16,
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Slow {
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum AskKind {
    Command,
    Query,
}

#[derive(Deserialize, JsonSchema)]
struct AskData {
    kind: AskKind,
    #[serde(rename = "type")]
    type_name: String,
    data: Anything,
    /// In milliseconds.
    timeout: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct Emit {
    count: u64,
    data: Anything,
}

#[derive(Serialize, JsonSchema)]
struct Happened {
    number: u64,
    data: Anything,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Steps {
    steps: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Print {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Blob {
    bytes: usize,
}

/// JSON has no object whose names are pairs.
#[derive(Serialize)]
struct Unfit(HashMap<(u8, u8), u8>);

impl JsonSchema for Unfit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Unfit".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({})
    }
}

#[derive(Default)]
struct Status {
    noted: Mutex<VecDeque<Anything>>,
    cancelled: AtomicU64,
}

/// Exactly what the other one said: big integers are no `Value`.
fn ask(data: AskData, context: &Context<'_>) -> Result<Anything, Failure> {
    let mut ask = match data.kind {
        AskKind::Command => Ask::command(data.type_name, &data.data),
        AskKind::Query => Ask::query(data.type_name, &data.data),
    };
    if let Some(ms) = data.timeout {
        ask = ask.timeout(Duration::from_millis(ms));
    }
    let answer = match context.ask(&ask) {
        Ok(reply) => format!("{{\"ok\":{}}}", reply.text()),
        Err(error) => json!({ "error": {
            "code": error.code(), "type": error.error_type, "message": error.message,
            "started": error.started.map(|started| started.as_str()),
        } })
        .to_string(),
    };
    Ok(serde_json::from_str(&answer)?)
}

fn context_of(context: &Context<'_>) -> Value {
    json!({
        "id": context.id(),
        "kind": context.message().kind().as_str(),
        "type": context.message().type_name(),
        "correlation": context.correlation(),
        "leftMs": context.left().map(|left| left.as_millis() as u64),
    })
}

fn main() -> ExitCode {
    let status = Arc::new(Status::default());
    let (of_slow, of_status, of_noted) = (Arc::clone(&status), Arc::clone(&status), status);
    Capability::new("conformance", "Does what the conformance suite asks.")
        .concurrency(16)
        .says_anything()
        .query("Conf.Echo", "Replies with the data.", |data: Anything, _| Ok(data))
        .command("Conf.Add", "Adds two integers.", |add: Add, _| {
            let sum = add.a.checked_add(add.b).ok_or_else(|| Failure::new(422, "the sum is too large"))?;
            Ok(Sum { sum })
        })
        .query("Conf.Fail", "Ends with an error.", |fail: Fail, _| -> Result<Empty, Failure> {
            Err(Failure::new(fail.code, fail.message))
        })
        .query("Conf.Throw", "Fails unexpectedly.", |_: Empty, _| -> Result<Empty, Failure> {
            panic!("the secret of Conf.Throw")
        })
        .command("Conf.Slow", "Waits, then replies.", move |slow: Slow, context| {
            context.sleep(Duration::from_millis(slow.ms)).inspect_err(|_| {
                of_slow.cancelled.fetch_add(u64::from(context.is_cancelled()), Ordering::SeqCst);
            })?;
            Ok(Anything::from(json!({ "waited": slow.ms })))
        })
        .command("Conf.Ask", "Asks another capability.", ask)
        .command("Conf.Emit", "Emits events.", |emit: Emit, context| {
            for number in 1..=emit.count {
                context.emit("Conf.Happened", &Happened { number, data: emit.data.clone() })?;
            }
            Ok(Anything::from(json!({ "emitted": emit.count })))
        })
        .command("Conf.Work", "Works in steps, and tells each.", |work: Steps, context| {
            for step in 1..=work.steps {
                context.progress(&json!({ "step": step, "of": work.steps }))?;
            }
            Ok(work)
        })
        .command("Conf.Crash", "Ends the process.", |_: Empty, _| -> Result<Empty, Failure> {
            std::process::exit(3)
        })
        .command("Conf.Print", "Prints a text.", |print: Print, _| {
            println!("{}", print.text);
            Ok(Empty)
        })
        .query("Conf.Blob", "Replies with a long text.", |blob: Blob, _| {
            Ok(Anything::from(json!({ "blob": "x".repeat(blob.bytes) })))
        })
        .query("Conf.Unfit", "Returns what JSON cannot express.", |_: Empty, _| {
            Ok(Unfit(HashMap::from([((1, 2), 3)])))
        })
        .query("Conf.Context", "Tells what the handler is told.", |_: Anything, context| {
            Ok(Anything::from(context_of(context)))
        })
        .query("Conf.Status", "Tells how it is.", move |_: Empty, _| {
            let noted = of_status.noted.lock().map_err(|_| Failure::fault("a handler panicked"))?;
            let noted: Vec<Value> = noted.iter().filter_map(|data| data.to().ok()).collect();
            let cancelled = of_status.cancelled.load(Ordering::SeqCst);
            Ok(Anything::from(json!({ "pid": std::process::id(), "noted": noted, "cancelled": cancelled })))
        })
        .on("Conf.Noted", move |data: Anything, _| {
            let mut noted = of_noted.noted.lock().map_err(|_| Failure::fault("a handler panicked"))?;
            noted.push_back(data);
            if noted.len() > 100 {
                noted.pop_front();
            }
            Ok(())
        })
        .run()
}
