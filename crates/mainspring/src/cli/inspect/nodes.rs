//! `mainspring nodes`: the bus of several nodes, as this one sees it.

use crate::cli::support::read_command::{ReadCommand, told};
use crate::cli::support::text;
use serde_json::{Value, json};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring nodes
  mainspring nodes --json | jq '.floors.uplink.nodes[] | select(.state != \"up\")'

SENT are requests of this node that were addressed to that one, SERVED are its requests that came here; RTT is how long an answer from it takes. \
Nodes that share something else under the same name are not used: what differs stands below the table.

Exit code: 0 it is shown, 1 the daemon refuses or does not answer, 2 the command line makes no sense, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct NodesArguments {
    #[command(flatten)]
    look: ReadCommand,
}

pub(in crate::cli) fn run(arguments: &NodesArguments) -> ExitCode {
    told(arguments.look.ask("Sys.Stats", json!({}), |data| Ok(listing(&data["floors"]["uplink"]))))
}

fn names(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten().filter_map(Value::as_str).map(text::visible);
    let names: Vec<String> = names.map(std::borrow::Cow::into_owned).collect();
    if names.is_empty() { "-".into() } else { names.join(", ") }
}

fn listing(uplink: &Value) -> String {
    if uplink.is_null() {
        return "this daemon is alone: its configuration has no [uplink]\n".into();
    }
    let text_of = |value: &Value| text::visible(value.as_str().unwrap_or_default()).into_owned();
    let link = if uplink["connected"] == true { "connected to NATS" } else { "NOT connected to NATS" };
    let mut page = format!("node {} on bus {}, {link}\n", text_of(&uplink["node"]), text_of(&uplink["bus"]));
    let mut rows = vec![
        ["NODE", "STATE", "HEARD", "RTT", "SENT", "SERVED", "EVENTS", "SHARES"].map(String::from).to_vec(),
    ];
    let mut problems = String::new();
    for node in uplink["nodes"].as_array().into_iter().flatten() {
        let number = |key: &str| node[key].as_u64().unwrap_or_default().to_string();
        let round_trip = node["roundTripUs"].as_u64();
        rows.push(vec![
            text_of(&node["node"]),
            text_of(&node["state"]),
            text::span(node["heardMs"].as_u64().unwrap_or_default()),
            round_trip.map_or_else(|| "-".into(), |us| format!("{:.1}ms", us as f64 / 1000.0)),
            number("sent"),
            number("served"),
            number("events"),
            names(&node["shares"]),
        ]);
        for problem in node["problems"].as_array().into_iter().flatten() {
            problems.push_str(&format!("node {}: {}\n", text_of(&node["node"]), text_of(problem)));
        }
    }
    page.push_str(&if rows.len() == 1 { "no other node is there\n".into() } else { text::table(&rows) });
    let mut rows = vec![["IMPORTED", "NODES", "PARTITION BY"].map(String::from).to_vec()];
    for import in uplink["imports"].as_array().into_iter().flatten() {
        let by =
            import["partitionBy"].as_str().map_or_else(|| "-".into(), |by| text::visible(by).into_owned());
        rows.push(vec![text_of(&import["capability"]), names(&import["nodes"]), by]);
    }
    if rows.len() > 1 {
        page.push_str(&text::table(&rows));
    }
    page + &problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stand_in_columns_and_what_differs_below() {
        let uplink = json!({
            "bus": "shop", "node": "a", "connected": true,
            "nodes": [
                { "node": "b", "state": "up", "heardMs": 400, "roundTripUs": 1234, "sent": 12, "served": 3, "events": 0,
                  "shares": ["orders", "stock"], "problems": [] },
                { "node": "c", "state": "silent", "heardMs": 61_000, "roundTripUs": null, "sent": 0, "served": 0, "events": 1,
                  "shares": [], "problems": ["orders: differs"] },
            ],
            "imports": [{ "capability": "orders", "nodes": ["b"], "partitionBy": "/data/key" }],
        });
        assert_eq!(
            listing(&uplink),
            "node a on bus shop, connected to NATS
NODE  STATE   HEARD  RTT    SENT  SERVED  EVENTS  SHARES
b     up      400ms  1.2ms    12       3       0  orders, stock
c     silent  1m01s  -         0       0       1  -
IMPORTED  NODES  PARTITION BY
orders    b      /data/key
node c: orders: differs
"
        );
        assert!(listing(&Value::Null).contains("alone"));
        let alone = json!({ "bus": "shop", "node": "a", "connected": false, "nodes": [], "imports": [] });
        assert_eq!(listing(&alone), "node a on bus shop, NOT connected to NATS\nno other node is there\n");
    }
}
