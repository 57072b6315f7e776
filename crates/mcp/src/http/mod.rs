//! The bridge by HTTP: `POST /mcp`, with a token.

mod io;

use crate::bridge::{Shared, Signals, session};
use crate::error::McpError;
use ::http::{Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use io::{Socket, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at the same time; others wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to say what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest body: what the daemon takes as a line, and some more.
const BODY_BYTES_MAX: usize = 2 << 20;
/// Where the protocol is served.
const PATH: &str = "/mcp";

/// Where to listen by HTTP.
#[derive(Clone)]
pub struct HttpListener {
    /// The address; of this machine, unless others are let in on purpose.
    pub address: SocketAddr,
    /// What every request has to show: `Authorization: Bearer TOKEN`.
    pub token: String,
    /// Names under which the bridge is reached, beside those of loopback.
    pub hosts: Vec<String>,
}

/// Without the token: this may end up in a log.
impl std::fmt::Debug for HttpListener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "HttpListener({})", self.address)
    }
}

type Service = StreamableHttpService<session::Session, LocalSessionManager>;
type Body = BoxBody<Bytes, Infallible>;

/// Serves until a signal comes.
pub(crate) async fn serve(listener: &HttpListener, shared: Arc<Shared>) -> Result<(), McpError> {
    let unusable = |error: std::io::Error| McpError::Address {
        address: listener.address.to_string(),
        reason: error.to_string(),
    };
    let socket = TcpListener::bind(listener.address).await.map_err(unusable)?;
    let address = socket.local_addr().map_err(unusable)?;
    eprintln!("serving the Model Context Protocol at http://{address}{PATH}");
    let service = make_service(listener, shared);
    let token: Arc<str> = Arc::from(listener.token.as_str());
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut signals = Signals::new()?;
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = signals.next() => return Ok(()),
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, say: those that are open may end meanwhile.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (service, token) = (service.clone(), Arc::clone(&token));
        tokio::spawn(async move {
            connection(stream, service, token).await;
            drop(place);
        });
    }
}

fn make_service(listener: &HttpListener, shared: Arc<Shared>) -> Service {
    let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let hosts: Vec<String> = hosts.into_iter().chain(listener.hosts.iter().cloned()).collect();
    let origins: Vec<String> =
        hosts.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]).collect();
    // Names and origins are checked: a page of somebody else must not reach a bridge on this
    // machine through a name of its own.
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .with_max_request_body_bytes(BODY_BYTES_MAX);
    let factory = move || Ok(session::Session::new(Arc::clone(&shared)));
    StreamableHttpService::new(factory, Arc::new(LocalSessionManager::default()), config)
}

async fn connection(stream: TcpStream, service: Service, token: Arc<str>) {
    // Answers are small, and a client waits for each.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (service, token) = (service.clone(), Arc::clone(&token));
        async move { Ok::<_, Infallible>(respond(request, &service, &token).await) }
    });
    // A client that breaks the rules of HTTP, or goes, ends its connection and nothing else.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer)
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(Socket(stream), answer)
        .await;
}

async fn respond(request: Request<Incoming>, service: &Service, token: &str) -> Response<Body> {
    if request.uri().path() != PATH {
        return plain(StatusCode::NOT_FOUND, "the Model Context Protocol is served at /mcp");
    }
    if !is_let_in(&request, token) {
        let words =
            "this needs the header Authorization: Bearer TOKEN, with the token of `mainspring mcp --http`";
        let mut response = plain(StatusCode::UNAUTHORIZED, words);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        return response;
    }
    service.handle(request).await
}

fn is_let_in(request: &Request<Incoming>, token: &str) -> bool {
    let shown = request.headers().get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
    let shown = shown.filter(|shown| shown.len() > 7 && shown[..7].eq_ignore_ascii_case(b"Bearer "));
    // In a time that does not tell how much of it is right.
    shown.is_some_and(|shown| bool::from(shown[7..].ct_eq(token.as_bytes())))
}

fn plain(status: StatusCode, words: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(words.as_bytes())).boxed());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
