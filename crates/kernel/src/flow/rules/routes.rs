//! Where messages go: the handler of each command and query, the subscribers of each event.

use crate::actors::contract::{Candidate, Contract};
use crate::api::ids::CapabilityId;
use crate::builtins::{BUILTINS, Builtin};
use crate::flow::refusal::{Refusal, is_reserved};
use crate::schema::Validator;
use hashbrown::HashMap;
use mainspring_message::{Envelope, Failure, Kind};

/// Who handles a command or query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    /// The actor of this capability.
    Capability(CapabilityId),
    /// The kernel itself.
    Builtin(Builtin),
}

impl Handler {
    /// Whether what is asked concerns the connection that asks, and no other of the same peer.
    pub(crate) fn is_for_one_connection(self) -> bool {
        matches!(self, Handler::Builtin(builtin) if builtin.traits().is_for_one_connection)
    }
}

/// The way of one kind and type.
#[derive(Debug)]
struct Route {
    handler: Handler,
    /// What the capability's inbound schema asks; the built-ins check for themselves.
    inbound: Option<Validator>,
}

/// A capability that wants an event.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) capability: CapabilityId,
    /// What its inbound schema asks of the event; nothing when it only subscribes.
    inbound: Option<Validator>,
}

impl Subscriber {
    /// Whether the event is as the capability wants it; else what is wrong with it.
    pub(crate) fn check(&self, event: &Envelope) -> Result<(), String> {
        let Some(inbound) = &self.inbound else { return Ok(()) };
        inbound
            .check(event.data(), event.metadata())
            .map_err(|violation| format!("breaks the schema of its subscriber: {violation}"))
    }
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
    fn add_handler(&mut self, kind: Kind, type_name: &str, route: Route) -> Result<(), Handler> {
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
    fn add_subscriber(&mut self, type_name: &str, capability: CapabilityId, inbound: Option<Validator>) {
        self.is_any_wanted = true;
        let subscribers = &mut self.of(type_name).subscribers;
        match subscribers.iter_mut().find(|subscriber| subscriber.capability == capability) {
            Some(there) if there.inbound.is_none() => there.inbound = inbound,
            Some(_) => {}
            None => subscribers.push(Subscriber { capability, inbound }),
        }
    }

    /// Takes away every way to the capabilities for which `is_vacated` holds.
    pub(crate) fn vacate(&mut self, is_vacated: impl Fn(CapabilityId) -> bool) {
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

    /// Adds the ways to the built-ins; no capability can take them later.
    pub(crate) fn add_builtins(&mut self) {
        for builtin in BUILTINS {
            for kind in builtin.kinds {
                let route = Route { handler: Handler::Builtin(builtin.builtin), inbound: None };
                let _ = self.add_handler(*kind, builtin.type_name, route);
            }
        }
    }

    /// Checks that every command and query has one handler, if the candidates come in and the
    /// routes of the capabilities for which `is_vacated` holds are free. `name_of` tells the id of
    /// a capability.
    pub(crate) fn check_claims<'a>(
        &self,
        candidates: &[&'a Candidate],
        is_vacated: impl Fn(CapabilityId) -> bool,
        name_of: impl Fn(CapabilityId) -> &'a str,
    ) -> Result<(), String> {
        let mut claimed: HashMap<(Kind, &str), &str, foldhash::fast::FixedState> = HashMap::default();
        for candidate in candidates {
            let id = candidate.id();
            for pair in candidate.inbound().iter().filter(|pair| pair.kind.is_request()) {
                let (kind, name) = (pair.kind, pair.type_name.as_str());
                if is_reserved(name) {
                    return Err(format!("{id} claims {kind}:{name}, which the kernel keeps for itself"));
                }
                let there = match self.handler(kind, name) {
                    Some(Handler::Capability(first)) if is_vacated(first) => None,
                    Some(Handler::Capability(first)) => Some(name_of(first)),
                    Some(Handler::Builtin(_)) => Some("the kernel"),
                    None => None,
                };
                if let Some(first) = there.or_else(|| claimed.insert((kind, name), id)) {
                    return Err(format!("duplicate handler for {kind}:{name}: {first} and {id}"));
                }
            }
        }
        Ok(())
    }

    /// Adds the ways to a capability, whose claims were checked.
    pub(crate) fn add(&mut self, capability: CapabilityId, candidate: Candidate) -> Contract {
        let (inbound, contract) = candidate.into_contract();
        for event in contract.subscribes() {
            self.add_subscriber(event, capability, None);
        }
        for pair in inbound {
            match pair.kind {
                Kind::Event => self.add_subscriber(&pair.type_name, capability, Some(pair.validator)),
                Kind::Command | Kind::Query => {
                    let handler = Handler::Capability(capability);
                    let route = Route { handler, inbound: Some(pair.validator) };
                    let added = self.add_handler(pair.kind, &pair.type_name, route);
                    debug_assert!(added.is_ok(), "the claims were checked");
                }
                // Outcomes come to whoever asked; listing them in a schema is allowed and needs no
                // route.
                Kind::Reply | Kind::Error => {}
            }
        }
        contract
    }

    /// The handler of a request whose data fits its schema.
    #[inline]
    pub(crate) fn find(&self, message: &Envelope) -> Result<Handler, Refusal> {
        let Some(route) = self.route(message.kind(), message.type_name()) else {
            return Err(self.no_route(message));
        };
        if let Some(validator) = &route.inbound {
            validator
                .check(message.data(), message.metadata())
                .map_err(|violation| Refusal::new(Failure::Schema, violation.to_string()))?;
        }
        Ok(route.handler)
    }

    #[cold]
    fn no_route(&self, message: &Envelope) -> Refusal {
        let (kind, name) = (message.kind(), message.type_name());
        let other = if kind == Kind::Command { Kind::Query } else { Kind::Command };
        let hint = match self.route(other, name) {
            Some(_) => format!("; it is a {other}"),
            None => String::new(),
        };
        Refusal::new(Failure::Routing, format!("type: no capability handles {kind} {name}{hint}"))
    }

    /// The handler of a command or query of that type, whatever its data.
    pub(crate) fn handler(&self, kind: Kind, type_name: &str) -> Option<Handler> {
        self.route(kind, type_name).map(|route| route.handler)
    }

    /// Whether a capability wants an event like this one.
    pub(crate) fn wants(&self, capability: CapabilityId, event: &Envelope) -> bool {
        let subscribers = self.subscribers(event.type_name());
        let own = subscribers.iter().find(|subscriber| subscriber.capability == capability);
        own.is_some_and(|own| own.check(event).is_ok())
    }

    /// The way of a command or query.
    fn route(&self, kind: Kind, type_name: &str) -> Option<&Route> {
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
    pub(crate) fn subscriptions(&self) -> Vec<(&str, Vec<CapabilityId>)> {
        let wanted = self.routes.iter().filter(|(_, routes)| !routes.subscribers.is_empty());
        let mut all: Vec<(&str, Vec<CapabilityId>)> = wanted
            .map(|(name, routes)| {
                (&**name, routes.subscribers.iter().map(|subscriber| subscriber.capability).collect())
            })
            .collect();
        all.sort();
        all
    }
}
