//! Which clients want which events.

use crate::ids::ConnectionId;
use hashbrown::HashMap;
use mainspring_message::check_type_name;
use std::collections::BTreeMap;

/// Clients by the pattern that they subscribed to: an exact type, `Prefix.*`, or `*`.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    exact: HashMap<Box<str>, Vec<ConnectionId>, foldhash::fast::FixedState>,
    /// Prefixes (with their dot; empty for `*`), in order.
    prefixes: BTreeMap<Box<str>, Vec<ConnectionId>>,
}

/// Checks a pattern.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    match pattern.strip_suffix('*') {
        Some("") => Ok(()),
        // Any last segment will do to see whether the prefix could begin a type.
        Some(prefix) if prefix.ends_with('.') => check_type_name(&format!("{prefix}X")),
        Some(_) => Err("a star stands alone or after a dot, such as Memory.*"),
        None => check_type_name(pattern),
    }
}

impl Subscribers {
    pub(crate) fn add(&mut self, pattern: &str, connection: ConnectionId) {
        match pattern.strip_suffix('*') {
            Some(prefix) => self.prefixes.entry(prefix.into()).or_default().push(connection),
            None => self.exact.entry(pattern.into()).or_default().push(connection),
        }
    }

    pub(crate) fn remove(&mut self, pattern: &str, connection: ConnectionId) {
        match pattern.strip_suffix('*') {
            Some(prefix) => {
                if let Some(there) = self.prefixes.get_mut(prefix) {
                    there.retain(|other| *other != connection);
                    if there.is_empty() {
                        self.prefixes.remove(prefix);
                    }
                }
            }
            None => {
                if let Some(there) = self.exact.get_mut(pattern) {
                    there.retain(|other| *other != connection);
                    if there.is_empty() {
                        self.exact.remove(pattern);
                    }
                }
            }
        }
    }

    /// Whether anyone wants the event.
    pub(crate) fn wants(&self, type_name: &str) -> bool {
        self.exact.contains_key(type_name)
            || self.prefixes.keys().any(|prefix| type_name.starts_with(&**prefix))
    }

    /// Puts everyone who wants the event into `into`, each once.
    pub(crate) fn of(&self, type_name: &str, into: &mut Vec<ConnectionId>) {
        into.clear();
        if let Some(exact) = self.exact.get(type_name) {
            into.extend_from_slice(exact);
        }
        if self.prefixes.is_empty() {
            return;
        }
        for (prefix, connections) in &self.prefixes {
            if type_name.starts_with(&**prefix) {
                into.extend_from_slice(connections);
            }
        }
        into.sort_unstable();
        into.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_types_prefixes_and_the_star_match_once_per_connection() {
        let mut subscribers = Subscribers::default();
        let (a, b, c) = (ConnectionId(1), ConnectionId(2), ConnectionId(3));
        subscribers.add("Memory.Changed", b);
        subscribers.add("Memory.*", b);
        subscribers.add("Memory.*", a);
        subscribers.add("*", c);
        let mut found = Vec::new();
        subscribers.of("Memory.Changed", &mut found);
        assert_eq!(found, [a, b, c]);
        subscribers.of("Memory2.Changed", &mut found);
        assert_eq!(found, [c]);
        subscribers.remove("*", c);
        subscribers.remove("Memory.*", b);
        subscribers.of("Memory.Changed", &mut found);
        assert_eq!(found, [a, b]);
    }

    #[test]
    fn patterns_are_checked() {
        for good in ["*", "Memory.*", "Memory.Changed", "A.B.*"] {
            assert!(check_pattern(good).is_ok(), "{good}");
        }
        for bad in ["", "Memory", "Memory*", "memory.*", "*.Changed", ".*"] {
            assert!(check_pattern(bad).is_err(), "{bad}");
        }
    }
}
