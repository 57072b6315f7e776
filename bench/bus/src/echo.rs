//! A bare echo server on the reactor: what a socket costs before anybody understands what comes through it.

use mainspring_reactor::{Async, Handle, Reactor};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

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
            drop(handle.spawn(serve(stream)));
        }
    }
}

async fn serve(stream: Async<UnixStream>) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(count @ 1..) = stream.read_with(|mut stream| stream.read(&mut buffer)).await {
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match stream.write_with(|mut stream| stream.write(rest)).await {
                Ok(count) => rest = &rest[count..],
                Err(_) => return,
            }
        }
    }
}
