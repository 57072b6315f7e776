//! A trace with what other nodes remember: each request that was passed on is asked about, and what
//! it caused there is put under it.

use mainspring_uplink::IMPORT_PREFIX;
use serde_json::{Value, json};

/// Requests of one trace that are asked about at most.
const ASKED_MAX: usize = 32;

/// Adds to an answer of `Sys.Trace` what the nodes tell that had some of its requests. `ask` gives
/// the answer to a query, if there is one; a node that cannot be asked leaves the trace as it is.
pub(in crate::cli) fn add(
    mut data: Value,
    mut ask: impl FnMut(&'static str, Value) -> Option<Value>,
) -> Value {
    let passed_on: Vec<(usize, Value)> = nodes(&data)
        .iter()
        .enumerate()
        .filter(|(_, node)| node["to"]["capability"].as_str().is_some_and(|id| id.starts_with(IMPORT_PREFIX)))
        .map(|(at, node)| (at, question(node)))
        .take(ASKED_MAX)
        .collect();
    for (at, question) in passed_on {
        if let Some(told) = ask("Sys.NodeTrace", question) {
            join(&mut data, at, &told);
        }
    }
    data
}

fn nodes(trace: &Value) -> &[Value] {
    trace["nodes"].as_array().map_or(&[], Vec::as_slice)
}

/// Asks for a request, by whoever sent it.
fn question(node: &Value) -> Value {
    let from = &node["from"];
    let peer = match from["capability"].as_str() {
        Some(capability) => Some(format!("capability:{capability}")),
        None => from["peer"].as_str().map(str::to_owned),
    };
    match peer {
        Some(peer) => json!({ "id": node["id"], "peer": peer }),
        None => json!({ "id": node["id"] }),
    }
}

/// Puts what a node tells under the request at `at`. The clocks of two machines differ, so its
/// times count from when the request was sent there.
fn join(data: &mut Value, at: usize, told: &Value) {
    let request = &nodes(data)[at];
    let (id, sent_us) = (request["id"].clone(), number(&request["atUs"]) + number(&request["waitedUs"]));
    let there = nodes(&told["trace"]);
    let came_us = there.iter().find(|node| node["id"] == id).map_or(0, |node| number(&node["atUs"]));
    let known: Vec<Value> = nodes(data).iter().map(|node| node["id"].clone()).collect();
    let others = there.iter().filter(|node| !known.contains(&node["id"])).map(|node| {
        let mut node = node.clone();
        node["atUs"] = json!(sent_us + number(&node["atUs"]).saturating_sub(came_us));
        node["node"] = told["node"].clone();
        node
    });
    let others: Vec<Value> = others.collect();
    if let Some(all) = data["nodes"].as_array_mut() {
        all[at]["node"] = told["node"].clone();
        all.extend(others);
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::support::trace_tree::tree;

    #[test]
    fn what_a_request_caused_on_another_node_stands_under_it() {
        let passed_on = json!({
            "id": "a", "kind": "command", "type": "Order.Place", "from": { "connection": 1 },
            "to": { "capability": "uplink:orders" }, "atUs": 40, "tookUs": 900, "waitedUs": 10, "attempts": 1,
            "outcome": { "kind": "reply", "id": "r" },
        });
        let mut data = json!({ "startedAt": 0, "nodes": [passed_on] });
        let own = json!({ "id": "a", "kind": "command", "type": "Order.Place", "atUs": 5 });
        let event = json!({
            "id": "e", "kind": "event", "type": "Order.Placed", "causation": "a", "atUs": 105,
            "from": { "capability": "orders" }, "to": { "capabilities": 1, "clients": 0 },
        });
        join(&mut data, 0, &json!({ "node": "b", "trace": { "nodes": [own, event] } }));
        let shown = tree(&data);
        let lines: Vec<&str> = shown.lines().skip(3).collect();
        assert_eq!(
            lines[0],
            "40us   900us  10us    command Order.Place  client -> uplink:orders on b  reply"
        );
        assert_eq!(lines[1], "150us                 └─ event Order.Placed  orders -> 1 capability on b");
    }

    #[test]
    fn a_request_is_asked_about_in_the_name_of_whoever_sent_it() {
        let of = |from: Value| question(&json!({ "id": "a", "from": from }))["peer"].clone();
        assert_eq!(of(json!({ "connection": 1, "peer": "user:7" })), "user:7");
        assert_eq!(of(json!({ "capability": "shop" })), "capability:shop");
        assert_eq!(of(json!({ "connection": 1 })), Value::Null);
    }
}
