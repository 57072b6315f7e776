//! One client's connection on the bus: a request goes out, its one outcome comes back.

use crate::bus::{Bus, Closed, Inbox, Link, Peer};
use bytes::Bytes;
use mainspring_message::{Envelope, Json, Kind, Parts};
use send_wrapper::SendWrapper;
use std::rc::Rc;

/// A connection on the bus, closed when this is dropped.
pub(crate) struct Exchange {
    bus: Rc<dyn Bus>,
    inbox: Rc<Inbox>,
    link: Link,
    peer: Peer,
}

/// A request about to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) kind: Kind,
    pub(crate) type_name: &'a str,
    pub(crate) data: &'a str,
    pub(crate) id: &'a str,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) correlation: Option<&'a str>,
    pub(crate) traceparent: Option<&'a str>,
    /// More members of the metadata, each after a comma.
    pub(crate) extra: &'a str,
    /// Whether the request is to go on when nobody waits for its outcome any more.
    pub(crate) goes_on: bool,
}

impl<'a> Ask<'a> {
    /// A request with nothing but its id.
    pub(crate) fn new(kind: Kind, type_name: &'a str, data: &'a str, id: &'a str) -> Ask<'a> {
        Ask {
            kind,
            type_name,
            data,
            id,
            timeout_ms: None,
            correlation: None,
            traceparent: None,
            extra: "",
            goes_on: false,
        }
    }
}

impl Exchange {
    /// Opens a connection for this peer. `None` when the bus has no room.
    pub(crate) fn open(bus: &Rc<dyn Bus>, peer: &Peer) -> Option<Rc<Exchange>> {
        let inbox = Rc::<Inbox>::default();
        let link = bus.open(peer, &inbox)?;
        Some(Rc::new(Exchange { bus: Rc::clone(bus), inbox, link, peer: peer.clone() }))
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Sends a line as it is.
    pub(crate) fn send_line(&self, line: &[u8]) {
        self.bus.send(self.link, line);
    }

    /// Whether a request has no outcome yet.
    pub(crate) fn owes(&self) -> bool {
        self.bus.owes(self.link)
    }

    /// So many bytes have left.
    pub(crate) fn written(&self, bytes: usize) {
        self.bus.written(self.link, bytes);
    }

    /// Sends a message.
    pub(crate) fn send(&self, ask: &Ask<'_>) {
        let mut line = String::with_capacity(ask.data.len() + 192);
        let parts = Parts {
            kind: ask.kind,
            type_name: ask.type_name,
            data: ask.data,
            id: ask.id,
            timestamp_ms: self.bus.unix_ms(),
            causation: None,
            correlation: ask.correlation,
            traceparent: ask.traceparent,
            timeout_ms: ask.timeout_ms,
            extra: ask.extra,
        };
        parts.append_to(&mut line);
        self.send_line(line.as_bytes());
    }

    /// The next message that is meant for this client.
    pub(crate) async fn next(&self) -> Result<Envelope, Closed> {
        self.inbox.next().await
    }

    /// Sends a request and waits for its outcome. A request that nobody waits for any more is
    /// cancelled, unless it is to go on.
    pub(crate) async fn ask(self: &Rc<Exchange>, ask: &Ask<'_>) -> Result<Outcome, Closed> {
        self.send(ask);
        let mut abandoned =
            Abandoned { exchange: self, id: (!ask.goes_on).then(|| ask.id.to_owned()), armed: true };
        let outcome = self.outcome_of(ask.id).await;
        abandoned.armed = false;
        outcome
    }

    /// Waits for the outcome of a request that was sent; what else comes is thrown away.
    pub(crate) async fn outcome_of(self: &Rc<Exchange>, id: &str) -> Result<Outcome, Closed> {
        loop {
            let message = self.next().await?;
            let is_outcome = matches!(message.kind(), Kind::Reply | Kind::Error);
            let outcome = Outcome { exchange: Rc::clone(self), message };
            if is_outcome && outcome.message.causation() == Some(id) {
                return Ok(outcome);
            }
        }
    }

    /// Asks, and reads the data of the reply. `None` when the request failed.
    pub(crate) async fn ask_for<T: serde::de::DeserializeOwned>(
        self: &Rc<Exchange>,
        type_name: &str,
        data: &str,
    ) -> Option<T> {
        let id = self.bus.new_id();
        let outcome = self.ask(&Ask::new(Kind::Query, type_name, data, &id)).await.ok()?;
        (outcome.message.kind() == Kind::Reply).then(|| outcome.message.data_as().ok())?
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.bus.close(self.link);
    }
}

/// Cancels a request whose client has gone.
struct Abandoned<'a> {
    exchange: &'a Rc<Exchange>,
    id: Option<String>,
    armed: bool,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.as_ref().filter(|_| self.armed) else { return };
        if let Ok(data) = Json::from_value(&serde_json::json!({ "id": id })) {
            let fresh = self.exchange.bus.new_id();
            self.exchange.send(&Ask::new(Kind::Command, "Syscall.Cancel", data.as_str(), &fresh));
        }
    }
}

/// A message for the client. Its bytes count as unwritten until this, and whatever was made of it,
/// is dropped.
pub(crate) struct Outcome {
    exchange: Rc<Exchange>,
    pub(crate) message: Envelope,
}

impl Outcome {
    /// The data, without a copy.
    pub(crate) fn into_data(self) -> Bytes {
        Bytes::from_owner(DataOf(SendWrapper::new(self)))
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        // As much as the bus counted: the line and its end.
        self.exchange.written(self.message.line().len() + 1);
    }
}

struct DataOf(SendWrapper<Outcome>);

impl AsRef<[u8]> for DataOf {
    fn as_ref(&self) -> &[u8] {
        self.0.message.data().as_bytes()
    }
}
