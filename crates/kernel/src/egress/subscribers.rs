//! Which clients want which events.
//!
//! An event is looked up by its own name: its type, and each beginning of it that ends with a dot.
//! So telling one costs as much as there are segments in its type and clients that want it, however
//! many subscribe to something else; and a subscription is found, made and ended without looking at
//! any other.

use crate::api::ids::ConnectionId;
use hashbrown::HashMap;
use mainspring_message::check_type_name;
use std::collections::BTreeSet;

/// Clients in the order of their numbers, so that events are told in the same order every time.
type Clients = BTreeSet<ConnectionId>;

/// Clients by the pattern that they subscribed to: an exact type, `Prefix.*`, or `*`.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    /// By exact type, by beginning with its dot (`Prefix.`), and those who want everything by the
    /// empty text: none of these can be mistaken for another.
    by_name: HashMap<Box<str>, Clients, foldhash::fast::FixedState>,
    /// How many of the names end with a dot: without any, nothing need be looked up for them.
    prefixes: usize,
    /// How many names and clients were looked at, for tests.
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

/// Checks a pattern of types: an exact type, `Prefix.*`, or `*`.
///
/// # Errors
/// What is wrong with it.
pub fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    match pattern.strip_suffix('*') {
        Some("") => Ok(()),
        // Any last segment will do to see whether the prefix could begin a type.
        Some(prefix) if prefix.ends_with('.') => check_type_name(&format!("{prefix}X")),
        Some(_) => Err("a star stands alone or after a dot, such as Memory.*"),
        None => check_type_name(pattern),
    }
}

/// The name under which a pattern is kept.
fn name_of(pattern: &str) -> &str {
    pattern.strip_suffix('*').unwrap_or(pattern)
}

impl Subscribers {
    pub(super) fn add(&mut self, pattern: &str, connection: ConnectionId) {
        let name = name_of(pattern);
        match self.by_name.get_mut(name) {
            Some(clients) => {
                clients.insert(connection);
            }
            None => {
                self.prefixes += usize::from(name.ends_with('.'));
                self.by_name.insert(name.into(), Clients::from([connection]));
            }
        }
    }

    pub(super) fn remove(&mut self, pattern: &str, connection: ConnectionId) {
        let name = name_of(pattern);
        let Some(clients) = self.by_name.get_mut(name) else { return };
        clients.remove(&connection);
        self.count_work(1);
        if self.by_name.get(name).is_some_and(Clients::is_empty) {
            self.by_name.remove(name);
            self.prefixes -= usize::from(name.ends_with('.'));
        }
    }

    /// Whether this client subscribed to this pattern.
    pub(super) fn has(&self, pattern: &str, connection: ConnectionId) -> bool {
        self.by_name.get(name_of(pattern)).is_some_and(|clients| clients.contains(&connection))
    }

    /// Whether anyone wants the event.
    pub(super) fn wants(&self, type_name: &str) -> bool {
        !self.by_name.is_empty() && self.names(type_name).any(|name| self.by_name.contains_key(name))
    }

    /// Whether this client wants the event.
    pub(super) fn is_wanted_by(&self, connection: ConnectionId, type_name: &str) -> bool {
        let has = |name| self.by_name.get(name).is_some_and(|clients| clients.contains(&connection));
        self.names(type_name).any(has)
    }

    /// Puts everyone who wants the event into `into`, each once, in order.
    pub(super) fn of(&self, type_name: &str, into: &mut Vec<ConnectionId>) {
        into.clear();
        if self.by_name.is_empty() {
            return;
        }
        let mut names_wanted = 0;
        for name in self.names(type_name) {
            if let Some(clients) = self.by_name.get(name) {
                self.count_work(clients.len());
                into.extend(clients);
                names_wanted += 1;
            }
        }
        // Those of one name are in order already.
        if names_wanted > 1 {
            into.sort_unstable();
            into.dedup();
        }
    }

    /// The names under which those who want an event may stand.
    fn names<'a>(&self, type_name: &'a str) -> impl Iterator<Item = &'a str> {
        let dots = if self.prefixes == 0 { "" } else { type_name };
        let beginnings = dots.match_indices('.').map(|(dot, _)| &type_name[..=dot]);
        [type_name, ""].into_iter().chain(beginnings).inspect(|_| self.count_work(1))
    }

    /// Counts in tests, and costs nothing otherwise.
    #[inline]
    fn count_work(&self, looked_at: usize) {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + looked_at);
        #[cfg(not(test))]
        let _ = looked_at;
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

    /// A table in which so many clients subscribed to 256 patterns each that no event of ours fits.
    fn crowded(strangers: u64) -> Subscribers {
        let mut subscribers = Subscribers::default();
        for stranger in 0..strangers {
            for number in 0..256 {
                let pattern = match number % 3 {
                    0 => format!("Foreign{stranger}.N{number}.*"),
                    1 => format!("Memory.Changed.N{stranger}x{number}.*"),
                    _ => format!("Memory.N{stranger}x{number}"),
                };
                subscribers.add(&pattern, ConnectionId(1000 + stranger));
            }
        }
        subscribers
    }

    /// What it costs to tell an event that two clients want, and for one of them to come and leave.
    fn work(subscribers: &mut Subscribers) -> (usize, usize) {
        let (a, b) = (ConnectionId(1), ConnectionId(2));
        subscribers.add("Memory.*", a);
        subscribers.add("Memory.Changed", b);
        subscribers.looked_at.set(0);
        let mut found = Vec::new();
        subscribers.of("Memory.Changed", &mut found);
        assert_eq!(found, [a, b]);
        assert!(subscribers.wants("Memory.Changed") && !subscribers.wants("Nobody.Wants"));
        let told = subscribers.looked_at.replace(0);
        subscribers.remove("Memory.*", a);
        subscribers.remove("Memory.Changed", b);
        (told, subscribers.looked_at.get())
    }

    #[test]
    fn what_others_subscribe_to_costs_nothing_when_an_event_is_told_or_a_client_leaves() {
        let alone = work(&mut Subscribers::default());
        let mut crowd = crowded(400);
        assert_eq!(work(&mut crowd), alone);
        assert!(alone.0 <= 12 && alone.1 == 2, "{alone:?}");
        // A hundred thousand strangers' patterns, and the same time: a scan of them takes a
        // thousand times as long.
        let time = |subscribers: &mut Subscribers| {
            let once = |_| {
                let begin = std::time::Instant::now();
                (0..20).for_each(|_| {
                    work(subscribers);
                });
                begin.elapsed()
            };
            (0..5).map(once).min().unwrap()
        };
        let (few, many) = (time(&mut Subscribers::default()), time(&mut crowd));
        assert!(many < 100 * few, "{few:?} alone, {many:?} among strangers");
    }

    #[test]
    fn many_clients_of_one_pattern_leave_without_a_look_at_each_other() {
        let mut subscribers = Subscribers::default();
        (0..10_000).for_each(|client| subscribers.add("Order.*", ConnectionId(client)));
        subscribers.looked_at.set(0);
        (0..10_000).rev().for_each(|client| subscribers.remove("Order.*", ConnectionId(client)));
        assert_eq!(subscribers.looked_at.get(), 10_000);
        assert!(subscribers.by_name.is_empty() && subscribers.prefixes == 0);
    }

    #[test]
    fn a_name_is_not_the_beginning_of_a_longer_one() {
        let mut subscribers = Subscribers::default();
        subscribers.add("Order.*", ConnectionId(1));
        subscribers.add("Order.Line.*", ConnectionId(2));
        for (type_name, wanted) in [
            ("Order.Made", &[1][..]),
            ("Order.Line", &[1]),
            ("Order.Line.Made", &[1, 2]),
            ("Orders.Made", &[]),
            ("My.Order.Made", &[]),
        ] {
            let mut found = Vec::new();
            subscribers.of(type_name, &mut found);
            assert_eq!(found.iter().map(|client| client.0).collect::<Vec<_>>(), wanted, "{type_name}");
            assert_eq!(subscribers.wants(type_name), !wanted.is_empty());
        }
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
