//! The client of NATS: async-nats, on the loop's own thread.
//!
//! async-nats needs tokio, so a daemon with an uplink has a runtime of it, for one thread. The loop
//! is one of its tasks (`driving`), and so are the connection, one listener for each subject, and
//! the task that carries out commands. They take turns: a message from NATS becomes a turn of the
//! loop, and a message for NATS leaves, without another thread and its wake-up.
//!
//! None keeps the others waiting for long. tokio gives a task 128 steps before others have theirs,
//! and a step of the connection is one read of [`READ_BYTES`]. Listeners have no such bound: they
//! take all that was read, into a queue that is bounded in bytes.

use super::queues::{Arrival, Queues};
use crate::settings::UplinkTable;
use crate::system::files::read_secret;
use crate::system::signal_mask;
use async_nats::{Client, ConnectOptions, Event, Message, StatusCode};
use futures_core::Stream as _;
use mainspring_uplink::Command;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};

/// A server that does not answer pings is given up within three of these.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a server may take to answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause between two attempts to connect.
const RECONNECT_MAX: Duration = Duration::from_secs(2);
/// How long the last messages may take at the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const READ_BYTES: u16 = 2 << 10;
/// Tasks that run before the runtime looks for what has become ready.
const TASKS_BETWEEN_LOOKS: u32 = 8;
/// Events of the connection that wait to be told.
const EVENTS_MAX: usize = 128;
/// The name of a group of nodes that share something.
const GROUP: &str = "nodes";

/// The runtime, and the task in it that carries out commands.
pub(super) struct Nats {
    pub(super) runtime: LocalRuntime,
    speaking: JoinHandle<()>,
}

impl Nats {
    /// Makes the runtime. It connects by itself, now or later, while it is driven.
    pub(super) fn start(table: &UplinkTable, queues: &Rc<Queues>) -> Result<Nats, String> {
        let options = options(table)?;
        // Names are looked up, and files are read, on threads.
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(TASKS_BETWEEN_LOOKS)
            .thread_name("uplink")
            .on_thread_start(|| drop(signal_mask::block_all()))
            .build_local(LocalOptions::default())
            .map_err(|error| format!("no runtime for NATS: {error}"))?;
        let speaking = runtime.spawn_local(speak(table.nats.clone(), options, Rc::clone(queues)));
        Ok(Nats { runtime, speaking })
    }

    /// Says the last messages, and ends everything.
    pub(super) fn close(self) {
        let _ = self.runtime.block_on(async { tokio::time::timeout(FAREWELL, self.speaking).await });
        // A name that is still looked up holds nobody up.
        self.runtime.shutdown_background();
    }
}

/// How to connect, with the credentials of the settings.
fn options(table: &UplinkTable) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::new()
        .name(format!("mainspring {}", table.node))
        .no_echo()
        .retry_on_initial_connect()
        .max_reconnects(None)
        .ping_interval(PING_INTERVAL)
        .connection_timeout(CONNECT_TIMEOUT)
        .read_buffer_capacity(READ_BYTES)
        .reconnect_delay_callback(|attempts| {
            let doubled = 1_u64.checked_shl(attempts.min(10) as u32).unwrap_or(1) * 25;
            Duration::from_millis(doubled).min(RECONNECT_MAX)
        });
    if let Some(path) = &table.nkey_file {
        options = options.nkey(read_secret(path)?.trim().to_owned());
    }
    if let Some(path) = &table.creds_file {
        // The last line of the file must end, too.
        let text = read_secret(path)? + "\n";
        options = options.credentials(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let (Some(user), Some(path)) = (&table.user, &table.password_file) {
        options = options.user_and_password(user.clone(), read_secret(path)?);
    }
    // The client would read the system's by itself, and hold the loop up for as long.
    if let Some(path) = table.ca.clone().or_else(|| openssl_probe::probe().cert_file) {
        options = options.add_root_certificates(path);
    }
    if let (Some(certificate), Some(key)) = (&table.certificate, &table.key) {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

/// A subject that is listened to.
struct Listening {
    is_group: bool,
    listener: AbortHandle,
}

/// Carries out commands until there are no more.
async fn speak(servers: Vec<String>, options: ConnectOptions, queues: Rc<Queues>) {
    let mut listening: HashMap<String, Listening> = HashMap::new();
    loop {
        let (events, told) = mpsc::channel(EVENTS_MAX);
        let options = options.clone().event_callback(move |event| {
            let events = events.clone();
            async move { drop(events.send(event).await) }
        });
        let client = match options.connect(servers.clone()).await {
            Ok(client) => client,
            Err(error) => return queues.arrive(Arrival::Problem(format!("no connection to NATS: {error}"))),
        };
        let mut telling = spawn_local(tell_events(told, client.clone(), Rc::clone(&queues)));
        for (subject, entry) in std::mem::take(&mut listening) {
            let again = Command::Subscribe { subject, is_group: entry.is_group };
            carry_out(&client, &queues, &mut listening, again).await;
        }
        loop {
            tokio::select! {
                biased;
                _ = &mut telling => break,
                command = queues.next_command() => match command {
                    Some(command) => carry_out(&client, &queues, &mut listening, command).await,
                    None if queues.is_connected() => return drop(client.flush().await),
                    None => return,
                }
            }
        }
        // A client tells for as long as it lives, and lives for ever unless it panics.
        queues.arrive(Arrival::Disconnected);
        queues.arrive(Arrival::Problem("the client of NATS has failed, and is started again".into()));
        tokio::time::sleep(RECONNECT_MAX).await;
    }
}

/// Tells the loop what happens to the connection.
async fn tell_events(mut events: mpsc::Receiver<Event>, client: Client, queues: Rc<Queues>) {
    let mut last_error = String::new();
    while let Some(event) = events.recv().await {
        match event {
            Event::Connected => {
                last_error.clear();
                queues.arrive(Arrival::Connected(client.max_payload()));
            }
            Event::Disconnected | Event::Closed => queues.arrive(Arrival::Disconnected),
            Event::ServerError(error) => queues.arrive(Arrival::Problem(format!("NATS: {error}"))),
            // While there is no connection, each attempt fails in the same way.
            Event::ClientError(error) => {
                let text = explain(&error.to_string());
                if last_error != text {
                    queues.arrive(Arrival::Problem(format!("NATS: {text}")));
                    last_error = text;
                }
            }
            Event::SlowConsumer(_) => {
                queues.arrive(Arrival::Problem("NATS: messages were lost, for they came too fast".into()));
            }
            Event::LameDuckMode | Event::Draining => {}
        }
    }
}

/// What the client says went wrong, with what to look at where it leaves that open.
fn explain(text: &str) -> String {
    if !text.contains("IO error") {
        return text.to_owned();
    }
    format!(
        "{text}: no server is there (uplink.nats), or one side does not take the other's certificate \
         (uplink.ca, uplink.certificate)"
    )
}

async fn carry_out(
    client: &Client,
    queues: &Rc<Queues>,
    listening: &mut HashMap<String, Listening>,
    command: Command,
) {
    match command {
        Command::Publish { subject, reply, message, .. } => {
            // What cannot leave now would leave when nobody wants it any more.
            if !queues.is_connected() {
                return;
            }
            let sent = match reply {
                Some(reply) => client.publish_with_reply(subject, reply, message.into()).await,
                None => client.publish(subject, message.into()).await,
            };
            if let Err(error) = sent {
                queues.arrive(Arrival::Problem(format!("a message was not sent: {error}")));
            }
        }
        Command::Subscribe { subject, is_group } => {
            let subscribed = match is_group {
                true => client.queue_subscribe(subject.clone(), GROUP.to_owned()).await,
                false => client.subscribe(subject.clone()).await,
            };
            match subscribed {
                Ok(subscriber) => {
                    let listener = spawn_local(unconstrained(listen(subscriber, Rc::clone(queues))));
                    let listener = listener.abort_handle();
                    listening.insert(subject, Listening { is_group, listener });
                }
                Err(error) => {
                    queues.arrive(Arrival::Problem(format!("cannot listen to {subject}: {error}")));
                }
            }
        }
        // The subscription ends with its subscriber.
        Command::Unsubscribe { subject } => {
            if let Some(entry) = listening.remove(&subject) {
                entry.listener.abort();
            }
        }
    }
}

/// Passes on what comes on one subject.
async fn listen(mut subscriber: async_nats::Subscriber, queues: Rc<Queues>) {
    while let Some(message) = poll_fn(|context| Pin::new(&mut subscriber).poll_next(context)).await {
        let Message { subject, payload, status, .. } = message;
        let is_status = status.is_some_and(|status| status == StatusCode::NO_RESPONDERS);
        // Only the server itself says that nobody is there.
        if is_status != subject.contains(".none.") {
            continue;
        }
        queues.arrive(Arrival::Message { subject: subject.to_string(), message: payload.to_vec() });
    }
}
