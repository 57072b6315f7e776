//! Where messages go: the handler of each command and query, the subscribers of each event.

use crate::builtins::Builtin;
use crate::schema::{EnvelopeValidator, Validator, Violation};
use hashbrown::HashMap;
use mainspring_message::{Envelope, Kind};

/// Who handles a command or query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    /// The actor of this capability.
    Capability(u32),
    /// The loop itself.
    Builtin(Builtin),
}

impl Handler {
    /// Whether what is asked concerns the connection that asks, and no other of the same peer.
    pub(crate) fn is_for_one_connection(self) -> bool {
        matches!(self, Handler::Builtin(Builtin::Subscribe | Builtin::Unsubscribe))
    }
}

/// The way of one kind and type.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) handler: Handler,
    /// What the capability's inbound schema asks; the built-ins check for themselves.
    pub(crate) inbound: Option<Validator>,
}

/// A capability that wants an event.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) capability: u32,
    /// What its inbound schema asks of the event; nothing when it only subscribes.
    pub(crate) inbound: Option<Validator>,
}

#[derive(Debug, Default)]
struct TypeRoutes {
    command: Option<Route>,
    query: Option<Route>,
    subscribers: Vec<Subscriber>,
}

/// The two indexes, in one table by type.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    types: HashMap<Box<str>, u32, foldhash::fast::FixedState>,
    routes: Vec<(Box<str>, TypeRoutes)>,
    /// Whether any event is wanted at all: mostly none is, and then nothing need be looked up.
    is_any_wanted: bool,
}

impl Routes {
    fn of(&mut self, type_name: &str) -> &mut TypeRoutes {
        let index = match self.types.get(type_name) {
            Some(&index) => index,
            None => {
                let index = self.routes.len() as u32;
                self.routes.push((type_name.into(), TypeRoutes::default()));
                self.types.insert(type_name.into(), index);
                index
            }
        };
        &mut self.routes[index as usize].1
    }

    /// Adds a handler; returns the one that is already there.
    pub(crate) fn add_handler(&mut self, kind: Kind, type_name: &str, route: Route) -> Result<(), Handler> {
        let routes = self.of(type_name);
        let place = if kind == Kind::Command { &mut routes.command } else { &mut routes.query };
        match place {
            Some(taken) => Err(taken.handler),
            None => {
                *place = Some(route);
                Ok(())
            }
        }
    }

    /// Adds a subscriber, or its schema to the subscriber that is already there.
    pub(crate) fn add_subscriber(&mut self, type_name: &str, capability: u32, inbound: Option<Validator>) {
        self.is_any_wanted = true;
        let subscribers = &mut self.of(type_name).subscribers;
        match subscribers.iter_mut().find(|subscriber| subscriber.capability == capability) {
            Some(there) if there.inbound.is_none() => there.inbound = inbound,
            Some(_) => {}
            None => subscribers.push(Subscriber { capability, inbound }),
        }
    }

    /// Takes away every way to the capabilities for which `is_vacated` holds.
    pub(crate) fn vacate(&mut self, is_vacated: impl Fn(u32) -> bool) {
        let leads_there = |route: &Route| matches!(route.handler, Handler::Capability(it) if is_vacated(it));
        self.types.clear();
        self.is_any_wanted = false;
        for (name, mut routes) in std::mem::take(&mut self.routes) {
            routes.command = routes.command.filter(|route| !leads_there(route));
            routes.query = routes.query.filter(|route| !leads_there(route));
            routes.subscribers.retain(|subscriber| !is_vacated(subscriber.capability));
            self.is_any_wanted |= !routes.subscribers.is_empty();
            if routes.command.is_some() || routes.query.is_some() || !routes.subscribers.is_empty() {
                self.types.insert(name.clone(), self.routes.len() as u32);
                self.routes.push((name, routes));
            }
        }
    }

    /// The way of a command or query.
    pub(crate) fn route(&self, kind: Kind, type_name: &str) -> Option<&Route> {
        let (_, routes) = &self.routes[*self.types.get(type_name)? as usize];
        if kind == Kind::Command { routes.command.as_ref() } else { routes.query.as_ref() }
    }

    /// The capabilities that want an event.
    pub(crate) fn subscribers(&self, type_name: &str) -> &[Subscriber] {
        if !self.is_any_wanted {
            return &[];
        }
        match self.types.get(type_name) {
            Some(&index) => &self.routes[index as usize].1.subscribers,
            None => &[],
        }
    }

    /// Event types with the capabilities that want them, by type.
    pub(crate) fn subscriptions(&self) -> Vec<(&str, Vec<u32>)> {
        let wanted = self.routes.iter().filter(|(_, routes)| !routes.subscribers.is_empty());
        let mut all: Vec<(&str, Vec<u32>)> = wanted
            .map(|(name, routes)| {
                (&**name, routes.subscribers.iter().map(|subscriber| subscriber.capability).collect())
            })
            .collect();
        all.sort();
        all
    }
}

/// What may leave an actor.
#[derive(Debug)]
pub(crate) enum Outbound {
    /// Anything.
    Anything,
    /// These pairs.
    Pairs(HashMap<(Kind, Box<str>), Validator, foldhash::fast::FixedState>),
    /// Whatever a schema admits that does not come down to pairs.
    Whole(Box<EnvelopeValidator>),
}

impl Outbound {
    /// Whether a message's data decides if its kind and type may leave.
    pub(crate) fn needs_data(&self) -> bool {
        matches!(self, Outbound::Whole(_))
    }

    /// Checks the kind and type of a message that has no data yet.
    pub(crate) fn check_pair(&self, kind: Kind, type_name: &str) -> Result<(), Violation> {
        match self {
            Outbound::Pairs(pairs) if pairs.contains_key(&PairRef(kind, type_name)) => Ok(()),
            Outbound::Pairs(_) => Err(not_in_schema(kind, type_name)),
            Outbound::Anything | Outbound::Whole(_) => mainspring_message::check_type_name(type_name)
                .map_err(|reason| Violation { path: "type".into(), reason: reason.into() }),
        }
    }

    /// Checks a message against the outbound schema.
    ///
    /// An error needs no place in the schema: any request may fail. It must then be `{code, message}`.
    pub(crate) fn check(&self, message: &Envelope) -> Result<(), Violation> {
        match self {
            Outbound::Anything if message.kind() == Kind::Error => check_error(message),
            Outbound::Anything => Ok(()),
            Outbound::Pairs(pairs) => match pairs.get(&PairRef(message.kind(), message.type_name())) {
                Some(validator) => validator.check(message.data(), message.metadata()),
                None if message.kind() == Kind::Error => check_error(message),
                None => Err(not_in_schema(message.kind(), message.type_name())),
            },
            Outbound::Whole(validator) => {
                let (kind, type_name) = (message.kind().as_str(), message.type_name());
                match validator.check(kind, type_name, message.data(), message.metadata()) {
                    Err(_) if message.kind() == Kind::Error => check_error(message),
                    verdict => verdict,
                }
            }
        }
    }
}

fn not_in_schema(kind: Kind, type_name: &str) -> Violation {
    let reason = format!("{kind} {type_name} is not in the capability's outbound schema");
    Violation { path: "type".into(), reason }
}

#[derive(serde::Deserialize)]
struct ErrorShape<'a> {
    code: u16,
    #[serde(borrow, rename = "message")]
    _message: std::borrow::Cow<'a, str>,
}

fn check_error(message: &Envelope) -> Result<(), Violation> {
    let fault = |reason: String| Violation { path: "data".into(), reason };
    let shape: ErrorShape<'_> = message.data_as().map_err(|_| {
        fault("an error's data must be an object with code (400 to 599) and message (text)".to_owned())
    })?;
    if (400..600).contains(&shape.code) {
        return Ok(());
    }
    Err(Violation { path: "data/code".into(), reason: format!("must be 400 to 599, not {}", shape.code) })
}

/// A borrowed key of [`Outbound::Pairs`].
struct PairRef<'a>(Kind, &'a str);

impl std::hash::Hash for PairRef<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        self.1.hash(state);
    }
}

impl hashbrown::Equivalent<(Kind, Box<str>)> for PairRef<'_> {
    fn equivalent(&self, key: &(Kind, Box<str>)) -> bool {
        self.0 == key.0 && self.1 == &*key.1
    }
}
