//! A bare echo by hyper on a current-thread tokio: what HTTP costs before anybody understands what
//! comes through it.

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let address = words.first().ok_or("echo needs an address")?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().build().map_err(|error| error.to_string())?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, accept(address)).map_err(|error| error.to_string())
}

async fn accept(address: &str) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(async move {
            let http = hyper::server::conn::http1::Builder::new();
            // Errors of a connection are its client's.
            let _ = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
