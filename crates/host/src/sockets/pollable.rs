//! A socket in `wasi:io/poll`.

use super::socket::Socket;
use crate::guest::confined::Confined;
use mainspring_zcl::sys_loop::Readiness;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::Poll;
use wasmtime_wasi::p2::Pollable;

/// Ready whenever the socket is, and once it is closed.
pub(super) struct SocketPollable {
    socket: Confined<Weak<Socket>>,
    direction: Readiness,
}

impl SocketPollable {
    pub(super) fn new(socket: &Rc<Socket>, direction: Readiness) -> SocketPollable {
        SocketPollable { socket: Confined::new(Rc::downgrade(socket)), direction }
    }
}

#[async_trait::async_trait]
impl Pollable for SocketPollable {
    async fn ready(&mut self) {
        poll_fn(|context| {
            let Some(socket) = self.socket.upgrade() else { return Poll::Ready(()) };
            // What cannot be watched must not be waited for.
            if socket.watch(self.direction).is_err() || socket.is_ready(self.direction) {
                return Poll::Ready(());
            }
            socket.wake(context.waker());
            Poll::Pending
        })
        .await;
    }
}
