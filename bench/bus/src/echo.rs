//! A bare echo server on the reactor: what a socket costs before anybody understands what comes
//! through it.

use bench_support::echo;
use mainspring_reactor::{Async, Handle, Reactor};
use std::os::unix::net::UnixListener;

const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let path = words.first().ok_or("echo needs the path of a socket")?;
    let mut reactor = Reactor::new().map_err(|error| error.to_string())?;
    let listener = UnixListener::bind(path).map_err(|error| format!("cannot listen on {path}: {error}"))?;
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let handle = reactor.handle();
    let listener = Async::new(&handle, listener).map_err(|error| error.to_string())?;
    let _accepting = reactor.spawn(accept(handle, listener)).map_err(|error| error.to_string())?;
    reactor.run().map_err(|error| error.to_string())?;
    Ok(())
}

async fn accept(handle: Handle, listener: Async<UnixListener>) {
    while let Ok((stream, _)) = listener.read_with(|listener| listener.accept()).await {
        let watched = stream.set_nonblocking(true).ok().and_then(|()| Async::new(&handle, stream).ok());
        if let Some(stream) = watched {
            drop(handle.spawn(echo(stream, BUFFER_BYTES)));
        }
    }
}
