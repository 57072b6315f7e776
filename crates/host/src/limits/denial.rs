//! What a guest was denied, in the words of the rule that would allow it.
//!
//! A guest that is denied gets an error code, from which its user cannot tell what is missing. So
//! whoever started the guest is told once of each thing that it may not reach.

use crate::guest::confined::Confined;
use crate::limits::policy::Rule;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Different things that are told of one guest. Beyond: they are only counted, as always.
const DENIALS_MAX: usize = 16;

/// Something that a guest wanted and may not have.
///
/// # Examples
/// ```
/// use mainspring_host::Denial;
///
/// let denial = Denial::Connect("db.example.com:5432".into());
/// assert_eq!(denial.rule(), Some("db.example.com:5432"));
/// assert_eq!(denial.to_string(), "it may not connect to db.example.com:5432");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// A connection to this host and port; the port is `*` if the guest only looked a name up.
    Connect(String),
    /// Listening at this address and port.
    Listen(String),
    /// WASI's sockets, which are off for this guest.
    WasiSockets,
}

impl Denial {
    /// The rule for [`NetworkPolicy`](crate::NetworkPolicy) that would allow it. Nothing if no rule
    /// can, or if what the guest named makes no rule.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        match self {
            Denial::Connect(rule) | Denial::Listen(rule) => {
                rule.parse::<Rule>().is_ok().then_some(rule.as_str())
            }
            Denial::WasiSockets => None,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A guest chooses these words: what makes no rule is shown so that it does nothing else.
        let shown = |place: &str| match self.rule() {
            Some(rule) => rule.to_owned(),
            None => format!("{:?}", place.chars().take(80).collect::<String>()),
        };
        match self {
            Denial::Connect(place) => write!(f, "it may not connect to {}", shown(place)),
            Denial::Listen(place) => write!(f, "it may not listen at {}", shown(place)),
            Denial::WasiSockets => write!(f, "it may not use WASI's sockets"),
        }
    }
}

/// Called with each thing that a guest was denied.
pub(crate) type OnDenial = Box<dyn Fn(&Denial)>;

/// Tells of each denial once.
pub(crate) struct Denials {
    told: Mutex<Vec<Denial>>,
    callback: Confined<OnDenial>,
}

impl Denials {
    pub(crate) fn new(callback: OnDenial) -> Denials {
        Denials { told: Mutex::default(), callback: Confined::new(callback) }
    }

    pub(crate) fn tell(&self, denial: Denial) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= DENIALS_MAX || told.contains(&denial) {
            return;
        }
        told.push(denial.clone());
        drop(told);
        if let Some(callback) = self.callback.here() {
            callback(&denial);
        }
    }
}

impl fmt::Debug for Denials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denials").field("told", &self.told).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn each_denial_is_told_once_and_not_without_end() {
        let told: Rc<RefCell<Vec<String>>> = Rc::default();
        let sink = Rc::clone(&told);
        let denials = Denials::new(Box::new(move |denial| sink.borrow_mut().push(denial.to_string())));
        for _ in 0..3 {
            denials.tell(Denial::Connect("db:5432".into()));
            denials.tell(Denial::WasiSockets);
        }
        assert_eq!(*told.borrow(), ["it may not connect to db:5432", "it may not use WASI's sockets"]);
        for port in 0..100 {
            denials.tell(Denial::Listen(format!("127.0.0.1:{port}")));
        }
        assert_eq!(told.borrow().len(), DENIALS_MAX);
    }

    #[test]
    fn what_makes_no_rule_is_shown_so_that_it_does_nothing() {
        let denial = Denial::Connect("a\nb\u{1b}[2J:80".into());
        assert_eq!((denial.rule(), denial.to_string().contains(['\n', '\u{1b}'])), (None, false));
        assert_eq!(Denial::Listen("[::1]:80".into()).rule(), Some("[::1]:80"));
        assert_eq!(Denial::Connect("db.example.com:*".into()).rule(), Some("db.example.com:*"));
    }
}
