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

use super::intake::Intake;
use super::queues::{Arrival, Queues};
use crate::settings::UplinkTable;
use crate::system::files::read_secret;
use crate::system::signal_mask;
use async_nats::{Client, ConnectOptions, Event, Message, Statistics, StatusCode};
use futures_core::Stream as _;
use mainspring_uplink::Command;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
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
/// The longest pause before a server is tried again that had to be given up.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A connection that lasted so long is none of those that fail again and again.
const LASTING: Duration = Duration::from_secs(10);
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
    speech: Rc<Speech>,
    started: Instant,
    /// How long it waited before it connected.
    pause: Duration,
}

/// What the tasks need to know.
struct Speech {
    servers: Vec<String>,
    options: ConnectOptions,
    queues: Rc<Queues>,
    /// Connections in a row that did not last.
    losses: Arc<AtomicUsize>,
    intake: Intake,
    statistics: RefCell<Option<Arc<Statistics>>>,
}

impl Nats {
    /// Makes the runtime. It connects by itself, now or later, while it is driven.
    pub(super) fn start(table: &UplinkTable, queues: &Rc<Queues>) -> Result<Nats, String> {
        let losses = Arc::default();
        let speech = Speech {
            servers: table.nats.clone(),
            options: options(table, &losses)?,
            queues: Rc::clone(queues),
            losses,
            intake: Intake::default(),
            statistics: RefCell::default(),
        };
        Nats::start_after(Duration::ZERO, Rc::new(speech))
    }

    fn start_after(pause: Duration, speech: Rc<Speech>) -> Result<Nats, String> {
        // Names are looked up, and files are read, on threads.
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(TASKS_BETWEEN_LOOKS)
            .thread_name("uplink")
            .on_thread_start(|| drop(signal_mask::block_all()))
            .build_local(LocalOptions::default())
            .map_err(|error| format!("no runtime for NATS: {error}"))?;
        let spoken = Rc::clone(&speech);
        let speaking = runtime.spawn_local(async move {
            tokio::time::sleep(pause).await;
            speak(spoken).await;
        });
        Ok(Nats { runtime, speaking, speech, started: Instant::now(), pause })
    }

    /// Whether more came that is no message than a server of NATS sends.
    pub(super) fn has_excess(&self, now_ns: i64) -> bool {
        self.speech.statistics.borrow().as_ref().is_some_and(|statistics| {
            self.speech.intake.has_excess(statistics.in_bytes.load(Ordering::Relaxed), now_ns)
        })
    }

    /// Ends the runtime, and everything that it holds.
    pub(super) fn give_up(self) -> GivenUp {
        let pause = match self.started.elapsed() > 2 * PAUSE_MAX {
            true => RECONNECT_MAX,
            false => (2 * self.pause).clamp(RECONNECT_MAX, PAUSE_MAX),
        };
        self.speech.statistics.take();
        self.runtime.shutdown_background();
        GivenUp { pause, speech: self.speech }
    }

    /// Says the last messages, and ends everything.
    pub(super) fn close(self) {
        let _ = self.runtime.block_on(async { tokio::time::timeout(FAREWELL, self.speaking).await });
        // A name that is still looked up holds nobody up.
        self.runtime.shutdown_background();
    }
}

/// What is left of a connection that was given up.
pub(super) struct GivenUp {
    /// How long it is left alone.
    pub(super) pause: Duration,
    speech: Rc<Speech>,
}

impl GivenUp {
    /// Makes a new runtime, which connects after the pause.
    pub(super) fn start(&self) -> Result<Nats, String> {
        Nats::start_after(self.pause, Rc::clone(&self.speech))
    }
}

/// How to connect, with the credentials of the settings.
fn options(table: &UplinkTable, losses: &Arc<AtomicUsize>) -> Result<ConnectOptions, String> {
    let losses = Arc::clone(losses);
    let mut options = ConnectOptions::new()
        .name(format!("mainspring {}", table.node))
        .no_echo()
        .retry_on_initial_connect()
        .max_reconnects(None)
        .ping_interval(PING_INTERVAL)
        .connection_timeout(CONNECT_TIMEOUT)
        .read_buffer_capacity(READ_BYTES)
        .reconnect_delay_callback(move |attempts| {
            let failures = attempts.max(losses.load(Ordering::Relaxed)).min(10);
            let doubled = 1_u64.checked_shl(failures as u32).unwrap_or(1) * 25;
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

/// Carries out commands until there are no more.
async fn speak(speech: Rc<Speech>) {
    let queues = &speech.queues;
    loop {
        let (events, told) = mpsc::channel(EVENTS_MAX);
        let options = speech.options.clone().event_callback(move |event| {
            let events = events.clone();
            async move { drop(events.send(event).await) }
        });
        let client = match options.connect(speech.servers.clone()).await {
            Ok(client) => client,
            Err(error) => return queues.arrive(Arrival::Problem(format!("no connection to NATS: {error}"))),
        };
        speech.intake.start_over();
        *speech.statistics.borrow_mut() = Some(client.statistics());
        let mut telling = spawn_local(tell_events(told, client.clone(), Rc::clone(&speech)));
        let mut listeners = HashMap::new();
        let subjects = queues.subjects.borrow().clone();
        for (subject, is_group) in subjects {
            carry_out(&client, &speech, &mut listeners, Command::Subscribe { subject, is_group }).await;
        }
        loop {
            tokio::select! {
                biased;
                _ = &mut telling => break,
                command = queues.next_command() => match command {
                    Some(command) => carry_out(&client, &speech, &mut listeners, command).await,
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
async fn tell_events(mut events: mpsc::Receiver<Event>, client: Client, speech: Rc<Speech>) {
    let (queues, mut last_error) = (&speech.queues, String::new());
    let mut connected = Instant::now();
    while let Some(event) = events.recv().await {
        match event {
            Event::Connected => {
                last_error.clear();
                connected = Instant::now();
                speech.intake.note_connection(client.max_payload());
                queues.arrive(Arrival::Connected(client.max_payload()));
            }
            Event::Disconnected | Event::Closed => {
                let losses =
                    if connected.elapsed() < LASTING { speech.losses.load(Ordering::Relaxed) + 1 } else { 0 };
                speech.losses.store(losses, Ordering::Relaxed);
                queues.arrive(Arrival::Disconnected);
            }
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
    speech: &Rc<Speech>,
    listeners: &mut HashMap<String, AbortHandle>,
    command: Command,
) {
    let queues = &speech.queues;
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
            queues.subjects.borrow_mut().insert(subject.clone(), is_group);
            let subscribed = match is_group {
                true => client.queue_subscribe(subject.clone(), GROUP.to_owned()).await,
                false => client.subscribe(subject.clone()).await,
            };
            match subscribed {
                Ok(subscriber) => {
                    let listener = spawn_local(unconstrained(listen(subscriber, Rc::clone(speech))));
                    listeners.insert(subject, listener.abort_handle());
                }
                Err(error) => {
                    queues.arrive(Arrival::Problem(format!("cannot listen to {subject}: {error}")));
                }
            }
        }
        // The subscription ends with its subscriber.
        Command::Unsubscribe { subject } => {
            queues.subjects.borrow_mut().remove(&subject);
            if let Some(listener) = listeners.remove(&subject) {
                listener.abort();
            }
        }
    }
}

/// Passes on what comes on one subject.
async fn listen(mut subscriber: async_nats::Subscriber, speech: Rc<Speech>) {
    while let Some(message) = poll_fn(|context| Pin::new(&mut subscriber).poll_next(context)).await {
        let Message { subject, payload, status, .. } = message;
        speech.intake.note_message(subject.len(), payload.len());
        let is_status = status.is_some_and(|status| status == StatusCode::NO_RESPONDERS);
        // Only the server itself says that nobody is there.
        if is_status != subject.contains(".none.") {
            continue;
        }
        let arrival = Arrival::Message { subject: subject.to_string(), message: payload.to_vec() };
        speech.queues.arrive(arrival);
    }
}
