//! The answer of `Sys.Trace` as a tree: what caused what, with times.

use crate::cli::support::{local_time, text};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;

/// The messages of an answer of `Sys.Trace`, under a line that says when they began and how many
/// they are.
pub(in crate::cli) fn tree(data: &Value) -> String {
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
    let started = local_time::clock(data["startedAt"].as_u64().unwrap_or(0));
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
    let place = node["node"].as_str().map_or(String::new(), |node| format!(" on {}", text::visible(node)));
    let message = format!(
        "{branch}{} {}  {} -> {}{place}{outcome}{tries}",
        word(&node["kind"]),
        word(&node["type"]),
        author(&node["from"]),
        audience(&node["to"])
    );
    vec![time("atUs"), time("tookUs"), time("waitedUs"), message]
}

/// Who sent a message.
pub(in crate::cli) fn author(from: &Value) -> String {
    match (from["capability"].as_str(), from["connection"].as_u64()) {
        (Some(capability), _) => text::visible(capability).into_owned(),
        // One's own user needs no name.
        (None, Some(_)) => match from["peer"].as_str().filter(|peer| !peer.starts_with("user:")) {
            Some(peer) => text::visible(peer).into_owned(),
            None => "client".into(),
        },
        (None, None) => "the daemon".into(),
    }
}

/// Whom it went to.
pub(in crate::cli) fn audience(to: &Value) -> String {
    if let Some(capability) = to["capability"].as_str() {
        return text::visible(capability).into_owned();
    }
    let (Some(capabilities), Some(clients)) = (to["capabilities"].as_u64(), to["clients"].as_u64()) else {
        return "the daemon".into();
    };
    text::crowd(capabilities, clients)
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
    use serde_json::json;

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
        let shown = tree(&data);
        let (began, shown) = shown.split_once(", ").unwrap();
        // The clock is the reader's.
        assert_eq!(began, local_time::clock(1000));
        assert_eq!(
            shown,
            "4 messages

AT     TOOK   WAITED  MESSAGE
0us    3.2ms  15us    command Order.Place  client -> orders  reply
3.0ms                 ├─ event Order.Placed  orders -> 2 capabilities and 1 client
2.0s   5us    0us     │  └─ query Stock.List  the daemon -> the daemon  error 504, 3 tries
4.0ms                 └─ event Order.Late  orders -> nobody
2 earlier ones are left out
"
        );
    }

    #[test]
    fn a_ring_of_causes_is_shown_once() {
        let node = |id: &str, cause: &str| json!({ "id": id, "kind": "event", "type": "A.B", "causation": cause, "from": {}, "to": {}, "atUs": 0 });
        let data = json!({ "startedAt": 0, "nodes": [node("a", "b"), node("b", "a"), node("c", "c")] });
        assert_eq!(tree(&data).matches("event A.B").count(), 3);
    }
}
