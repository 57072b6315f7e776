//! Whether a capability is well, from its entry in the answer of `Sys.Actors`, and why it is not.

use crate::cli::support::text;
use serde_json::Value;

/// Whether somebody should look at it.
pub(in crate::cli) fn is_sick(actor: &Value) -> bool {
    !matches!(actor["state"].as_str(), Some("up" | "retiring" | "starting"))
        || actor["overdue"].as_u64() > Some(0)
        || actor["blocked"] == true
}

/// What is the matter with it, in a few words; nothing if nothing is.
pub(in crate::cli) fn why(actor: &Value) -> String {
    let mut reasons = Vec::new();
    if let Some(overdue @ 1..) = actor["overdue"].as_u64() {
        reasons.push(text::count(overdue, "overdue request", "overdue requests"));
    }
    if actor["blocked"] == true {
        reasons.push("does not read its input".into());
    }
    if actor["state"] != "up"
        && let Some(message) = actor["lastFault"]["message"].as_str()
    {
        reasons.push(text::visible(message).into_owned());
    }
    if let Some(ms) = actor["probeInMs"].as_u64() {
        reasons.push(format!("next try in {}", text::span(ms)));
    }
    reasons.join("; ")
}
