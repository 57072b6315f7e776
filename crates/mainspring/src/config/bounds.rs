//! Numbers that can be read but make no sense.

use crate::config::file::ConfigFile;
use crate::config::problem::{Place, Source};
use crate::config::sources::Sources;
use crate::config::tree::Node;
use mainspring_message::LINE_BYTES_CEILING;
use std::rc::Rc;

/// Limits whose zero turns something off, or leaves it to the daemon.
const MAY_BE_NOTHING: [&str; 2] = ["history_bytes_max", "memory_bytes_max"];

/// Adds limits of nothing, lines beyond what a message can be, and timeouts that contradict each other to the problems.
pub(super) fn check(file: &ConfigFile, config: &Node, source: &Rc<Source>, sources: &mut Sources) {
    let place = |table: &str, key: &str| {
        let node = config.get(table).and_then(|node| node.get(key)).unwrap_or(config);
        Place { source: source.clone(), span: node.span.clone() }
    };
    let limits = serde_json::to_value(&file.limits).unwrap_or_default();
    for (key, value) in limits.as_object().into_iter().flatten() {
        if value.as_u64() == Some(0) && !MAY_BE_NOTHING.contains(&key.as_str()) {
            sources
                .problem(&place("limits", key), "a limit of nothing lets nothing through; it is at least 1");
        }
    }
    if file.limits.line_bytes_max > LINE_BYTES_CEILING {
        let message = format!("a line is at most {LINE_BYTES_CEILING} bytes long");
        sources.problem(&place("limits", "line_bytes_max"), message);
    }
    let timeouts = &file.timeouts;
    for (key, time) in [
        ("default", timeouts.default),
        ("max", timeouts.max),
        ("boot", timeouts.boot),
        ("hang", timeouts.hang),
    ] {
        if time.0.as_millis() == 0 {
            sources.problem(&place("timeouts", key), "nothing is done in no time; it is at least 1ms");
        }
    }
    if timeouts.default.0 > timeouts.max.0 {
        let key = if config.get("timeouts").is_some_and(|it| it.get("default").is_some()) {
            "default"
        } else {
            "max"
        };
        sources.problem(&place("timeouts", key), "the default may not be longer than the maximum");
    }
}
