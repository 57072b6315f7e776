//! `mainspring:sockets`: TCP for components whose streams wake themselves whenever a call would
//! block.
//!
//! Such a guest calls again at once, for ever, and so uses a whole core while it waits. It cannot
//! be told to stop, so its calls are made to take a while: a call that would block suspends the
//! guest, and nothing else, until *any* of its sockets is ready. Waiting for the one socket alone
//! would let an idle connection hold up a busy one; blocking the thread would hold up every other
//! guest.
//!
//! The way out for guests that can be changed is in the same package: `poll-socket`, and pollables
//! for `wasi:io/poll`.

mod error;
mod pace;
mod pollable;
mod set;
mod socket;

use crate::guest::confined::Confined;
use crate::guest::state::GuestState;
pub use pace::{BadSocketWait, SocketWait};
use pollable::SocketPollable;
pub(crate) use set::Sockets;
use set::direction_of;
use std::future::Future;
use std::rc::Rc;
use wasmtime::StoreContextMut;
use wasmtime::component::{HasSelf, Linker, Resource, WasmList};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::p2::{DynPollable, subscribe};

/// What is made of the package's text.
mod bindings {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "mainspring:sockets/imports",
        imports: {
            "mainspring:sockets/tcp.connect-tcp": async,
            "mainspring:sockets/tcp.socket-read": async,
            "mainspring:sockets/tcp.socket-write": async,
            "mainspring:sockets/tcp.poll-socket": async,
            "mainspring:sockets/pollables.subscribe-socket": trappable,
        },
        with: { "wasi:io/poll": wasmtime_wasi::p2::bindings::io::poll },
    });

    pub(super) use mainspring::sockets::{pollables, tcp};
    pub(super) use tcp::{
        BackoffClass, ErrorCategory, ErrorScope, PluginError, SocketInterest, SocketReadResult,
        SocketWriteResult,
    };
}

use bindings::{PluginError, SocketInterest, SocketReadResult, SocketWriteResult};

/// Adds the package to what components can import.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    bindings::tcp::add_to_linker::<_, HasSelf<GuestState>>(linker, |state| state)?;
    bindings::pollables::add_to_linker::<_, HasSelf<GuestState>>(linker, |state| state)?;
    linker.allow_shadowing(true);
    // What is generated would copy the whole of what a guest wants to send, of which most may have
    // to wait.
    let added = linker.instance(TCP)?.func_wrap_async("socket-write", socket_write);
    linker.allow_shadowing(false);
    added
}

/// The interface's full name.
const TCP: &str = "mainspring:sockets/tcp@1.0.0";

type SocketWritten = (Result<SocketWriteResult, PluginError>,);

/// `socket-write`, straight from the guest's memory.
fn socket_write(
    store: StoreContextMut<'_, GuestState>,
    (handle, bytes): (u64, WasmList<u8>),
) -> Box<dyn Future<Output = wasmtime::Result<SocketWritten>> + Send + '_> {
    Box::new(Confined::new(async move {
        let sockets = store.data().sockets();
        let bytes = bytes.as_le_slice(&store);
        Ok((sockets.write(handle, bytes).await,))
    }))
}

impl GuestState {
    fn sockets(&self) -> Rc<Sockets> {
        let sockets = self.extras.sockets.as_ref();
        (**sockets.expect("every component has its sockets")).clone()
    }
}

impl bindings::tcp::Host for GuestState {
    async fn connect_tcp(&mut self, host: String, port: u16) -> Result<u64, PluginError> {
        let sockets = Confined::new(self.sockets());
        Confined::new(async move { sockets.connect(host, port).await }).await
    }

    async fn socket_read(&mut self, handle: u64, length: u64) -> Result<SocketReadResult, PluginError> {
        let sockets = Confined::new(self.sockets());
        Confined::new(async move { sockets.read(handle, length).await }).await
    }

    async fn socket_write(&mut self, handle: u64, bytes: Vec<u8>) -> Result<SocketWriteResult, PluginError> {
        let sockets = Confined::new(self.sockets());
        Confined::new(async move { sockets.write(handle, &bytes).await }).await
    }

    fn socket_close(&mut self, handle: u64) {
        self.sockets().close(handle);
    }

    async fn poll_socket(
        &mut self,
        handle: u64,
        interest: SocketInterest,
        timeout_ms: u32,
    ) -> Result<bool, PluginError> {
        let sockets = Confined::new(self.sockets());
        Confined::new(async move { sockets.poll(handle, interest, timeout_ms).await }).await
    }
}

impl bindings::pollables::Host for GuestState {
    fn subscribe_socket(
        &mut self,
        handle: u64,
        interest: SocketInterest,
    ) -> wasmtime::Result<Result<Resource<DynPollable>, PluginError>> {
        let socket = match self.sockets().subscribe(handle) {
            Ok(socket) => socket,
            Err(error) => return Ok(Err(error)),
        };
        let pollable = SocketPollable::new(&socket, direction_of(interest));
        let table = self.ctx().table;
        let pollable = table.push(pollable)?;
        subscribe(table, pollable).map(Ok)
    }
}
