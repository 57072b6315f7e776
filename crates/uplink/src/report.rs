//! What is told of the bus: for `Sys.Stats`, and so for `mainspring nodes`.

use crate::machine::Uplink;
use mainspring_kernel::Now;
use serde_json::{Value, json};

impl Uplink {
    /// The nodes, what they share, and how they are.
    #[must_use]
    pub fn report(&self, now: Now) -> Value {
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .map(|(name, node)| {
                let state = match (node.is_silent, node.parts) {
                    (true, _) => "silent",
                    (false, true) => "parting",
                    (false, false) => "up",
                };
                let shares: Vec<&str> = node.shares.iter().map(|share| share.id.as_str()).collect();
                json!({
                    "node": &**name,
                    "state": state,
                    "boot": node.boot.to_string(),
                    "heardMs": now.mono_ns.saturating_sub(node.heard_ns).max(0) / 1_000_000,
                    "shares": shares,
                    "roundTripUs": node.round_trip_us,
                    "load": node.load,
                    "sent": node.sent,
                    "served": node.served,
                    "inProgress": node.in_progress,
                    "events": node.events,
                    "problems": node.problems,
                })
            })
            .collect();
        let imports: Vec<Value> = self
            .imports
            .by_id
            .iter()
            .map(|(id, import)| {
                let names: Vec<&str> = import.nodes.iter().map(|node| &**node).collect();
                json!({
                    "capability": id, "hash": import.hash, "nodes": names, "adopted": import.is_adopted,
                    "partitionBy": import.partition_by, "durable": import.manifest.durable,
                })
            })
            .collect();
        let shares: Vec<Value> = self
            .shares
            .iter()
            .map(|(share, _)| json!({ "capability": share.id, "hash": share.hash, "durable": share.durable }))
            .collect();
        json!({
            "bus": self.settings.bus,
            "node": self.settings.node,
            "boot": self.settings.boot.to_string(),
            "connected": self.link.is_connected,
            "maxPayload": self.link.max_payload,
            "nodesKnown": self.nodes.len(),
            "nodes": nodes,
            "imports": imports,
            "shares": shares,
            "requestsOut": self.sent.len(),
            "requestsIn": self.serving.len(),
            "peersIn": self.serving.peers_len(),
            "requestsSent": self.counters.requests_sent,
            "requestsServed": self.counters.requests_served,
            "lateAnswers": self.sent.late,
            "eventsTold": self.events.told,
            "eventsHeard": self.events.heard,
            "durableEventsTold": self.following.told,
            "durableEventsHeard": self.following.heard,
            "eventsTooLarge": self.events.too_large,
            "invalid": self.counters.invalid,
        })
    }
}
