//! Connections to the server: a client to ask, and a task beside it that moves the bytes.

use crate::{Failure, Platform};
use futures_util::future::poll_fn;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tokio_postgres::config::Host;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};

/// The port of a server that names none.
const PORT_DEFAULT: u16 = 5432;

/// A server to connect to.
pub(crate) struct Server<P> {
    pub(crate) platform: P,
    config: Config,
    host: String,
    port: u16,
}

/// What arrived on a connection besides answers.
#[derive(Default)]
pub(crate) struct Arrivals {
    pub(crate) notifications: VecDeque<String>,
    /// How the connection ended, if it has.
    pub(crate) ended: Option<String>,
}

/// A connection that is logged in.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) arrivals: Rc<RefCell<Arrivals>>,
}

impl<P: Platform> Server<P> {
    pub(crate) fn new(platform: P, text: &str) -> Result<Server<P>, Failure> {
        let config: Config = text.parse()?;
        let host = match config.get_hosts() {
            [Host::Tcp(host)] => host.clone(),
            _ => return Err("the connection string names no host, or several".into()),
        };
        let port = config.get_ports().first().copied().unwrap_or(PORT_DEFAULT);
        Ok(Server { platform, config, host, port })
    }

    /// A bare stream, as cancelling a query needs it.
    pub(crate) async fn stream(&self) -> Result<P::Stream, Failure> {
        Ok(self.platform.connect(&self.host, self.port).await?)
    }

    /// Connects and logs in.
    pub(crate) async fn log_in(&self) -> Result<Session, Failure> {
        let stream = self.stream().await?;
        let (client, connection) = self.config.connect_raw(stream, NoTls).await?;
        let arrivals = Rc::new(RefCell::new(Arrivals::default()));
        self.platform.spawn(drive(connection, arrivals.clone()));
        Ok(Session { client, arrivals })
    }
}

/// Moves bytes until the connection ends.
async fn drive<S>(mut connection: Connection<S, NoTlsStream>, arrivals: Rc<RefCell<Arrivals>>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let ended = loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                arrivals.borrow_mut().notifications.push_back(notification.payload().to_owned());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => break error.to_string(),
            None => break "closed".to_owned(),
        }
    };
    arrivals.borrow_mut().ended = Some(ended);
}
