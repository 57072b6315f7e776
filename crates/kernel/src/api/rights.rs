//! What a connection may do.

use std::fmt;
use std::sync::Arc;

/// What a client may send and see. The daemon says so when a connection opens; the connection may
/// give some of it up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The types of an application that it may send, schedule, subscribe to, describe and find:
    /// exact types, `Prefix.*` or `*`. Nothing: every type.
    allow: Option<Arc<[Box<str>]>>,
    /// Whether it may change the daemon, and see the traffic of others.
    operator: bool,
}

impl Rights {
    /// Everything.
    #[must_use]
    pub fn of_operator() -> Rights {
        Rights { allow: None, operator: true }
    }

    /// Only types that fit one of these patterns.
    #[must_use]
    pub fn limited_to<S: AsRef<str>>(self, patterns: impl IntoIterator<Item = S>) -> Rights {
        let patterns: Vec<Box<str>> = patterns.into_iter().map(|pattern| pattern.as_ref().into()).collect();
        let allow = (!patterns.iter().any(|pattern| &**pattern == "*")).then(|| patterns.into());
        Rights { allow, ..self }
    }

    /// As an operator, or not.
    #[must_use]
    pub fn as_operator(self, operator: bool) -> Rights {
        Rights { operator, ..self }
    }

    /// Whether it may change the daemon, and see the traffic of others.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.operator
    }

    /// As a journal tells them: patterns as they stand there, nothing for every type.
    pub(crate) fn from_parts(allow: Option<Vec<Box<str>>>, operator: bool) -> Rights {
        Rights { allow: allow.map(Into::into), operator }
    }

    /// The patterns; nothing for every type.
    pub(crate) fn allow(&self) -> Option<&[Box<str>]> {
        self.allow.as_deref()
    }

    /// Whether something is left out.
    pub(crate) fn is_limited(&self) -> bool {
        !self.operator || self.allow.is_some()
    }

    /// Whether some types are left out.
    pub(crate) fn leaves_types_out(&self) -> bool {
        self.allow.is_some()
    }

    /// Whether it may send and see messages of this type of an application.
    #[must_use]
    pub fn allows(&self, type_name: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.iter().any(|pattern| covers(pattern, type_name)))
    }

    /// The patterns, with `*` for everything.
    #[must_use]
    pub fn patterns(&self) -> Vec<&str> {
        self.allow.as_ref().map_or_else(|| vec!["*"], |allow| allow.iter().map(|it| &**it).collect())
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allow = {:?}", self.patterns())
    }
}

/// Whether everything that fits `pattern` (a type, or a pattern) fits `allowed`.
pub(crate) fn covers(allowed: &str, pattern: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some("") => true,
        Some(prefix) => pattern.len() > prefix.len() && pattern.starts_with(prefix),
        None => allowed == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_what_fits_it_and_nothing_else() {
        let rights = Rights::default().limited_to(["Order.*", "Invoice.Print"]);
        for allowed in ["Order.Place", "Order.Line.Add", "Order.*", "Order.Line.*", "Invoice.Print"] {
            assert!(rights.allows(allowed), "{allowed}");
        }
        for other in ["*", "Order", "Orders.Place", "Invoice.*", "Invoice.PrintAll"] {
            assert!(!rights.allows(other), "{other}");
        }
        assert!(rights.is_limited() && rights.leaves_types_out());
        assert!(Rights::default().allows("Any.Thing") && Rights::default().is_limited());
        assert!(!Rights::of_operator().is_limited());
        assert!(!Rights::of_operator().limited_to(["Order.*", "*"]).leaves_types_out());
    }
}
