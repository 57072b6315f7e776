//! The thread that speaks with NATS: one runtime on it, which lives for as long as the daemon.

use super::queues::{Arrival, Queues};
use crate::settings::UplinkTable;
use crate::system::files::read_secret;
use async_nats::{Client, ConnectOptions, Event, Message, StatusCode};
use mainspring_reactor::Wakeup;
use mainspring_uplink::Command;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, LocalSet};

/// A server that does not answer pings is given up within three of these.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a server may take to answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause between two attempts to connect.
const RECONNECT_MAX: Duration = Duration::from_secs(2);
/// How long the last messages may take at the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// The name of a group of nodes that share something.
const GROUP: &str = "nodes";

/// What the thread and its callbacks share.
struct NatsShared {
    queues: Arc<Queues>,
    wakeup: Wakeup,
    is_connected: AtomicBool,
    client: OnceLock<Client>,
    /// The last that was said about why there is no connection.
    last_error: Mutex<String>,
}

impl NatsShared {
    fn tell(&self, arrival: Arrival) {
        if self.queues.arrive(arrival) {
            self.wakeup.signal();
        }
    }

    fn take_event(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.is_connected.store(true, Ordering::Release);
                self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let max_payload = self.client.get().map_or(1 << 20, Client::max_payload);
                self.tell(Arrival::Connected(max_payload));
            }
            Event::Disconnected | Event::Closed => {
                self.is_connected.store(false, Ordering::Release);
                self.tell(Arrival::Disconnected);
            }
            Event::ServerError(error) => self.tell(Arrival::Problem(format!("NATS: {error}"))),
            // While there is no connection, each attempt fails in the same way.
            Event::ClientError(error) => {
                let text = explain(&error.to_string());
                let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
                if *last != text {
                    self.tell(Arrival::Problem(format!("NATS: {text}")));
                    *last = text;
                }
            }
            Event::SlowConsumer(_) => {
                self.tell(Arrival::Problem("NATS: messages were lost, for they came too fast".into()))
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

/// The loop's side of the thread.
pub(super) struct NatsThread {
    work: Arc<Notify>,
    queues: Arc<Queues>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl NatsThread {
    /// Starts the thread, which connects by itself, now or later.
    pub(super) fn start(
        table: &UplinkTable,
        queues: &Arc<Queues>,
        wakeup: Wakeup,
    ) -> Result<NatsThread, String> {
        let work = Arc::new(Notify::new());
        let shared = Arc::new(NatsShared {
            queues: Arc::clone(queues),
            wakeup,
            is_connected: AtomicBool::new(false),
            client: OnceLock::new(),
            last_error: Mutex::default(),
        });
        let options = options(table, &shared)?;
        let (servers, notified) = (table.nats.clone(), Arc::clone(&work));
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            // What the library logs is told here in words of our own, once.
            let silence = tracing::subscriber::NoSubscriber::new();
            tracing::subscriber::with_default(silence, || match runtime {
                Ok(runtime) => LocalSet::new().block_on(&runtime, speak(servers, options, shared, notified)),
                Err(error) => shared.tell(Arrival::Problem(format!("no runtime for NATS: {error}"))),
            });
        };
        let thread = crate::system::signal_mask::spawn_without_signals("uplink", run)
            .map_err(|error| format!("no thread for the uplink: {error}"))?;
        Ok(NatsThread { work, queues: Arc::clone(queues), thread: Some(thread) })
    }

    /// There is something for the thread.
    pub(super) fn wake(&self) {
        self.work.notify_one();
    }

    /// Says the last messages, and ends the thread.
    pub(super) fn close(&mut self) {
        self.queues.close();
        self.work.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How to connect, with the credentials of the settings.
fn options(table: &UplinkTable, shared: &Arc<NatsShared>) -> Result<ConnectOptions, String> {
    let told = Arc::clone(shared);
    let mut options = ConnectOptions::new()
        .name(format!("mainspring {}", table.node))
        .no_echo()
        .retry_on_initial_connect()
        .max_reconnects(None)
        .ping_interval(PING_INTERVAL)
        .connection_timeout(CONNECT_TIMEOUT)
        .reconnect_delay_callback(|attempts| {
            let doubled = 1_u64.checked_shl(attempts.min(10) as u32).unwrap_or(1) * 25;
            Duration::from_millis(doubled).min(RECONNECT_MAX)
        })
        .event_callback(move |event| {
            let told = Arc::clone(&told);
            async move { told.take_event(&event) }
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
    if let Some(path) = &table.ca {
        options = options.add_root_certificates(path.clone());
    }
    if let (Some(certificate), Some(key)) = (&table.certificate, &table.key) {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

/// The whole life of the thread.
async fn speak(servers: Vec<String>, options: ConnectOptions, shared: Arc<NatsShared>, work: Arc<Notify>) {
    let client = match options.connect(servers).await {
        Ok(client) => client,
        Err(error) => return shared.tell(Arrival::Problem(format!("no connection to NATS: {error}"))),
    };
    let _ = shared.client.set(client.clone());
    let mut listening: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        match shared.queues.next() {
            (Some(command), _) => carry_out(&client, &shared, &mut listening, command).await,
            (None, true) => break,
            (None, false) => work.notified().await,
        }
    }
    if shared.is_connected.load(Ordering::Acquire) {
        let _ = tokio::time::timeout(FAREWELL, client.flush()).await;
    }
}

async fn carry_out(
    client: &Client,
    shared: &Arc<NatsShared>,
    listening: &mut HashMap<String, AbortHandle>,
    command: Command,
) {
    match command {
        Command::Publish { subject, reply, message, .. } => {
            // What cannot leave now would leave when nobody wants it any more.
            if !shared.is_connected.load(Ordering::Acquire) {
                return;
            }
            let sent = match reply {
                Some(reply) => client.publish_with_reply(subject, reply, message.into()).await,
                None => client.publish(subject, message.into()).await,
            };
            if let Err(error) = sent {
                shared.tell(Arrival::Problem(format!("a message was not sent: {error}")));
            }
        }
        Command::Subscribe { subject, is_group } => {
            let subscribed = match is_group {
                true => client.queue_subscribe(subject.clone(), GROUP.to_owned()).await,
                false => client.subscribe(subject.clone()).await,
            };
            match subscribed {
                Ok(subscriber) => {
                    let listener = tokio::task::spawn_local(listen(subscriber, Arc::clone(shared)));
                    listening.insert(subject, listener.abort_handle());
                }
                Err(error) => shared.tell(Arrival::Problem(format!("cannot listen to {subject}: {error}"))),
            }
        }
        // The subscription ends with its subscriber.
        Command::Unsubscribe { subject } => {
            if let Some(listener) = listening.remove(&subject) {
                listener.abort();
            }
        }
    }
}

/// Passes on what comes on one subject.
async fn listen(mut subscriber: async_nats::Subscriber, shared: Arc<NatsShared>) {
    while let Some(message) = next(&mut subscriber).await {
        let Message { subject, payload, status, .. } = message;
        let is_status = status.is_some_and(|status| status == StatusCode::NO_RESPONDERS);
        // Only the server itself says that nobody is there.
        if is_status != subject.contains(".none.") {
            continue;
        }
        shared.tell(Arrival::Message { subject: subject.to_string(), message: payload.to_vec() });
    }
}

async fn next(subscriber: &mut async_nats::Subscriber) -> Option<Message> {
    use std::future::poll_fn;
    use std::pin::Pin;
    poll_fn(|context| futures_core_poll(Pin::new(&mut *subscriber), context)).await
}

fn futures_core_poll(
    subscriber: std::pin::Pin<&mut async_nats::Subscriber>,
    context: &mut std::task::Context<'_>,
) -> std::task::Poll<Option<Message>> {
    futures_core::Stream::poll_next(subscriber, context)
}
