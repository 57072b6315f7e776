//! `mainspring trace`: what a message caused, as a tree with times.

use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::target::Failure;
use crate::cli::support::text;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring send Order.Place '{\"item\": \"tea\", \"quantity\": 1}' --correlation order-7
  mainspring trace order-7
  mainspring trace --id 5f0c9e...          # the tree around one message
  mainspring trace order-7 --json | jq '.nodes[] | select(.outcome.kind == \"error\")'

The daemon remembers what happened of late, within `limits.history_bytes_max`. AT is when a message was taken, TOOK how long until its outcome, WAITED \
how much of that it waited for its capability.

Exit code: 0 it is shown, 1 nothing of it is remembered, or the daemon refuses or does not answer, 2 the command line makes no sense, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    /// The workflow.
    #[arg(required_unless_present = "id", conflicts_with = "id")]
    correlation: Option<String>,
    /// A message of it, if it has no correlation.
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    look: ReadCommand,
}

pub(in crate::cli) fn run(arguments: &Arguments) -> ExitCode {
    let question = match (&arguments.correlation, &arguments.id) {
        (Some(correlation), _) => json!({ "correlation": correlation }),
        (None, id) => json!({ "id": id }),
    };
    told(arguments.look.ask("Sys.Trace", question, |data| match data["nodes"].as_array() {
        Some(nodes) if !nodes.is_empty() => Ok(tree(data)),
        _ => Err(Failure::Refused(nothing(arguments)?)),
    }))
}

/// What was looked for in vain, and where.
fn nothing(arguments: &Arguments) -> Result<String, Failure> {
    let sought = match (&arguments.correlation, &arguments.id) {
        (Some(id), _) => format!("the correlation {id:?} (a message is looked for by its id with --id)"),
        (None, id) => format!("the id {:?}", id.as_deref().unwrap_or_default()),
    };
    let stats = arguments.look.target.ask("Sys.Stats", json!({}))?;
    let kept = text::count(stats["gauges"]["historyBytes"].as_u64().unwrap_or(0), "byte", "bytes");
    Ok(format!(
        "no message with {sought} is remembered; the history holds the latest messages, {kept} of them now, and `limits.history_bytes_max` at most"
    ))
}

fn tree(data: &Value) -> String {
    let nodes: Vec<&Value> = data["nodes"].as_array().into_iter().flatten().collect();
    let mut forest = Forest::grow(&nodes);
    let mut rows = vec![["AT", "TOOK", "WAITED", "MESSAGE"].map(String::from).to_vec()];
    for root in forest.roots.clone() {
        forest.draw(root, "", "", &nodes, &mut rows);
    }
    // Ids come from outside, so causes may even form a ring.
    for index in 0..nodes.len() {
        forest.draw(index, "", "", &nodes, &mut rows);
    }
    let started = text::clock(data["startedAt"].as_u64().unwrap_or(0));
    let mut page = format!("{started}, {}\n\n", text::count(nodes.len() as u64, "message", "messages"));
    page += &text::table(&rows);
    if let Some(left_out @ 1..) = data["leftOut"].as_u64() {
        let earlier = text::count(left_out, "earlier one is", "earlier ones are");
        let _ = writeln!(page, "{earlier} left out");
    }
    page
}

/// Which message caused which.
struct Forest {
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
    drawn: Vec<bool>,
}

impl Forest {
    fn grow(nodes: &[&Value]) -> Forest {
        // A message may be caused by a request, or by the answer to one.
        let mut by_id: HashMap<&str, usize> = HashMap::new();
        for (index, node) in nodes.iter().enumerate() {
            for id in [&node["outcome"]["id"], &node["id"]] {
                if let Some(id) = id.as_str() {
                    by_id.insert(id, index);
                }
            }
        }
        let mut forest = Forest {
            roots: Vec::new(),
            children: vec![Vec::new(); nodes.len()],
            drawn: vec![false; nodes.len()],
        };
        for (index, node) in nodes.iter().enumerate() {
            match node["causation"].as_str().and_then(|cause| by_id.get(cause)) {
                Some(&parent) if parent != index => forest.children[parent].push(index),
                _ => forest.roots.push(index),
            }
        }
        forest
    }

    fn draw(
        &mut self,
        index: usize,
        branch: &str,
        below: &str,
        nodes: &[&Value],
        rows: &mut Vec<Vec<String>>,
    ) {
        if std::mem::replace(&mut self.drawn[index], true) {
            return;
        }
        rows.push(row(nodes[index], branch));
        let children = std::mem::take(&mut self.children[index]);
        for (at, child) in children.iter().enumerate() {
            let (here, further) =
                if at + 1 < children.len() { ("├─ ", "│  ") } else { ("└─ ", "   ") };
            self.draw(*child, &format!("{below}{here}"), &format!("{below}{further}"), nodes, rows);
        }
    }
}

fn row(node: &Value, branch: &str) -> Vec<String> {
    let time = |key: &str| node[key].as_u64().map_or(String::new(), microseconds);
    let word = |value: &Value| text::visible(value.as_str().unwrap_or_default()).into_owned();
    let outcome = match &node["outcome"] {
        Value::Null if node["kind"] == "event" => String::new(),
        Value::Null => "  under way".into(),
        outcome if outcome["kind"] == "error" => format!("  error {}", outcome["code"]),
        _ => "  reply".into(),
    };
    let tries = match node["attempts"].as_u64() {
        Some(attempts @ 2..) => format!(", {attempts} tries"),
        _ => String::new(),
    };
    let message = format!(
        "{branch}{} {}  {} -> {}{outcome}{tries}",
        word(&node["kind"]),
        word(&node["type"]),
        author(&node["from"]),
        audience(&node["to"])
    );
    vec![time("atUs"), time("tookUs"), time("waitedUs"), message]
}

fn author(from: &Value) -> String {
    match (from["capability"].as_str(), from["connection"].as_u64()) {
        (Some(capability), _) => text::visible(capability).into_owned(),
        (None, Some(_)) => "client".into(),
        (None, None) => "the loop".into(),
    }
}

fn audience(to: &Value) -> String {
    if let Some(capability) = to["capability"].as_str() {
        return text::visible(capability).into_owned();
    }
    let (Some(capabilities), Some(clients)) = (to["capabilities"].as_u64(), to["clients"].as_u64()) else {
        return "the loop".into();
    };
    let count = |number, one, many| (number > 0).then(|| text::count(number, one, many));
    let parts: Vec<String> =
        [count(capabilities, "capability", "capabilities"), count(clients, "client", "clients")]
            .into_iter()
            .flatten()
            .collect();
    if parts.is_empty() { "nobody".into() } else { parts.join(", ") }
}

/// Microseconds in a few characters.
fn microseconds(us: u64) -> String {
    match us {
        0..1000 => format!("{us}us"),
        1000..1_000_000 => format!("{}.{}ms", us / 1000, us % 1000 / 100),
        _ => text::span(us / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_and_effects_form_a_tree() {
        let client = json!({ "connection": 1 });
        let orders = json!({ "capability": "orders" });
        let data = json!({ "startedAt": 1000, "leftOut": 2, "nodes": [
            { "id": "a", "kind": "command", "type": "Order.Place", "causation": null, "from": client, "to": orders,
              "atUs": 0, "tookUs": 3200, "waitedUs": 15, "attempts": 1, "outcome": { "kind": "reply", "id": "r" } },
            { "id": "b", "kind": "event", "type": "Order.Placed", "causation": "a", "from": orders,
              "to": { "capabilities": 2, "clients": 1 }, "atUs": 3000 },
            { "id": "c", "kind": "query", "type": "Stock.List", "causation": "b", "from": { "loop": true }, "to": { "loop": true },
              "atUs": 2_000_000, "tookUs": 5, "waitedUs": 0, "attempts": 3, "outcome": { "kind": "error", "code": 504, "id": "e" } },
            { "id": "d", "kind": "event", "type": "Order.Late", "causation": "r", "from": orders, "to": { "capabilities": 0, "clients": 0 },
              "atUs": 4000 },
        ]});
        assert_eq!(
            tree(&data),
            format!(
                "{}, 4 messages

AT     TOOK   WAITED  MESSAGE
0us    3.2ms  15us    command Order.Place  client -> orders  reply
3.0ms                 ├─ event Order.Placed  orders -> 2 capabilities, 1 client
2.0s   5us    0us     │  └─ query Stock.List  the loop -> the loop  error 504, 3 tries
4.0ms                 └─ event Order.Late  orders -> nobody
2 earlier ones are left out
",
                text::clock(1000)
            )
        );
    }

    #[test]
    fn a_ring_of_causes_is_shown_once() {
        let node = |id: &str, cause: &str| json!({ "id": id, "kind": "event", "type": "A.B", "causation": cause, "from": {}, "to": {}, "atUs": 0 });
        let data = json!({ "startedAt": 0, "nodes": [node("a", "b"), node("b", "a"), node("c", "c")] });
        assert_eq!(tree(&data).matches("event A.B").count(), 3);
    }
}
