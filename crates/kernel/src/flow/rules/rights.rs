//! Who may send what: checked where messages come in, for those who may not do everything.

use crate::api::ids::{ActorRef, ConnectionId, Now};
use crate::api::rights::Rights;
use crate::flow::refusal::{Refusal, is_reserved};
use crate::flow::routes::Handler;
use crate::kernel::Kernel;
use crate::requests::{PeerId, Recipient};
use mainspring_message::{Envelope, Failure};

impl Kernel {
    /// What the client of this connection may do. Until it is said, a client may send every type
    /// and is no operator.
    ///
    /// Errors about an operator's own requests quote what the capability wrote before it failed;
    /// errors for anybody else do not, for that may be about the requests of others.
    pub fn connection_has(&mut self, connection: ConnectionId, rights: Rights, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.connection_has(connection, &rights));
        self.taps.limit(connection, &rights);
        self.connections.set_rights(connection, rights);
    }

    /// What the peers that the settings name may do now. Messages that such a peer scheduled in an
    /// earlier run of the daemon are sent only if it may still send them.
    ///
    /// A name may come more than once: then its peer may do what any of them says.
    pub fn peers_have(&mut self, peers: Vec<(String, Rights)>, now: Now) {
        self.out.now = now;
        self.note(now, |pen| pen.peers_have(&peers));
        self.peer_rights.clear();
        for (name, rights) in peers {
            self.peer_rights.entry(name.into()).or_default().push(rights);
        }
    }

    /// Whether a peer that scheduled a message of this type, and had these rights then, may send it
    /// now.
    pub(crate) fn check_scheduled(
        &self,
        peer: PeerId,
        then: Option<&Rights>,
        type_name: &str,
    ) -> Result<(), Refusal> {
        if let Some(rights) = then {
            check_type(rights, type_name)?;
        }
        if self.peer_rights.is_empty() {
            return Ok(());
        }
        let now = self.requests.peer_name(peer).and_then(|name| self.peer_rights.get(name));
        match now.map(Vec::as_slice) {
            Some(all @ [first, ..]) if !all.iter().any(|rights| rights.allows(type_name)) => {
                check_type(first, type_name)
            }
            _ => Ok(()),
        }
    }

    /// Whether a client may send this message; else the refusal.
    #[cold]
    pub(crate) fn check_rights(&self, connection: ConnectionId, message: &Envelope) -> Result<(), Refusal> {
        let Some(rights) = self.connections.rights(connection) else { return Ok(()) };
        let name = message.type_name();
        if is_reserved(name) {
            let handler = self.routes.handler(message.kind(), name);
            return match handler {
                Some(Handler::Builtin(builtin))
                    if builtin.traits().is_for_operators && !rights.is_operator() =>
                {
                    Err(self.needs_operator(name, Recipient::Connection(connection)))
                }
                _ => Ok(()),
            };
        }
        check_type(rights, name)
    }

    /// Whether an actor may send this request to the kernel itself; else the refusal.
    pub(crate) fn check_actor_rights(&self, actor: ActorRef, message: &Envelope) -> Result<(), Refusal> {
        let handler = self.routes.handler(message.kind(), message.type_name());
        match handler {
            Some(Handler::Builtin(builtin))
                if builtin.traits().is_for_operators && !self.actors.is_operator(actor.capability) =>
            {
                Err(self.needs_operator(message.type_name(), Recipient::Actor(actor)))
            }
            _ => Ok(()),
        }
    }

    /// Whether whoever asks is an operator.
    pub(crate) fn is_operator(&self, who: Recipient) -> bool {
        match who {
            Recipient::Connection(connection) => self.connections.is_operator(connection),
            Recipient::Actor(actor) => self.actors.is_operator(actor.capability),
        }
    }

    /// Whether whoever asks may send and see this type of an application.
    pub(crate) fn may_see(&self, who: Recipient, type_name: &str) -> bool {
        match who {
            Recipient::Connection(connection) => {
                self.connections.rights(connection).is_none_or(|rights| rights.allows(type_name))
            }
            Recipient::Actor(_) => true,
        }
    }

    /// Whether whoever asks is an operator for some types only: it sees the traffic of others, but
    /// of those types.
    pub(crate) fn is_limited_operator(&self, who: Recipient) -> bool {
        match who {
            Recipient::Connection(connection) => self
                .connections
                .rights(connection)
                .is_some_and(|rights| rights.is_operator() && rights.leaves_types_out()),
            Recipient::Actor(_) => false,
        }
    }

    /// Whether whoever asks may see this type; else the refusal.
    pub(crate) fn check_seen(&self, type_name: &str, who: Recipient) -> Result<(), Refusal> {
        match who {
            Recipient::Connection(connection) => {
                self.connections.rights(connection).map_or(Ok(()), |rights| check_type(rights, type_name))
            }
            Recipient::Actor(_) => Ok(()),
        }
    }

    /// The refusal for whoever is no operator: what is needed, and who gives it.
    pub(crate) fn needs_operator(&self, what: &str, who: Recipient) -> Refusal {
        let remedy = match who {
            Recipient::Connection(connection) => {
                let place = self.connections.place(connection);
                match place.and_then(|place| self.requests.peer_name(place.peer)) {
                    Some(name) if name.starts_with("user:") || name == "stdio" => {
                        "this connection has given that up".to_owned()
                    }
                    Some(name) => format!("set operator = true for the token {name:?} in mainspring.toml"),
                    None => "this connection is none".to_owned(),
                }
            }
            Recipient::Actor(actor) => {
                format!("set \"operator\": true in the manifest of {}", self.actors.id(actor.capability))
            }
        };
        Refusal::new(Failure::Forbidden, format!("{what} needs an operator; {remedy}"))
    }

    /// The name of a peer, for operators: a client's identity, or `capability:ID`.
    pub(crate) fn peer_name(&self, peer: PeerId) -> Option<String> {
        match self.requests.peer_name(peer) {
            Some(name) => Some(name.to_owned()),
            None => self.actors.id_of_peer(peer).map(|id| format!("capability:{id}")),
        }
    }

    /// The peer of a name, as operators say it.
    pub(crate) fn peer_of_name(&self, name: &str) -> Option<PeerId> {
        match name.strip_prefix("capability:") {
            Some(id) => self.actors.find(id).map(|(capability, _)| self.actors.sender(capability).0),
            None => self.requests.peer_of_name(name),
        }
    }
}

/// Whether these rights are enough for a type of an application; else the refusal.
pub(crate) fn check_type(rights: &Rights, type_name: &str) -> Result<(), Refusal> {
    if rights.allows(type_name) {
        return Ok(());
    }
    let text = format!("type: {type_name} is not among the types that this connection may send ({rights})");
    Err(Refusal::new(Failure::Forbidden, text))
}
