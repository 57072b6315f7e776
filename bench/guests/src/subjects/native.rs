//! The echo server written natively on the reactor: the same tasks, reads and writes as the
//! guest's.

use crate::server::{Load, measure_client};
use mainspring_reactor::{Async, Handle, Reactor};
use std::net::TcpListener;

/// As in the guest.
const BUFFER_BYTES: usize = 4096;

pub(crate) fn echo(load: Load) {
    let mut reactor = Reactor::new().expect("a loop");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a listener can be non-blocking");
    let port = listener.local_addr().expect("it is bound").port();
    let handle = reactor.handle();
    let listener = Async::new(&handle, listener).expect("a listener can be watched");
    let _accepting = reactor.spawn(accept(handle.clone(), listener)).expect("the loop is open");
    measure_client(port, load, handle.remote());
    reactor.run().expect("the loop runs");
}

async fn accept(handle: Handle, listener: Async<TcpListener>) {
    loop {
        let (stream, _) = listener.read_with(|listener| listener.accept()).await.expect("connections arrive");
        stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).expect("a TCP stream");
        let stream = Async::new(&handle, stream).expect("a stream can be watched");
        drop(handle.spawn(bench_support::echo(stream, BUFFER_BYTES)).expect("the loop is open"));
    }
}
