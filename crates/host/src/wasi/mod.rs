//! WASI, by wasmtime-wasi: preview 1 for modules, preview 2 for components.
//!
//! Standard streams are the guest's handles 0, 1 and 2. Clocks and random numbers are the system's.
//! Folders are those that were opened for the guest. Sockets are off by default, and then pass the
//! same allow-list as `net/tcp@v1`. Whatever blocks does so on threads of its own; a guest that
//! waits in `poll` costs nothing.

mod component;
mod folders;
mod network;
mod random;
mod runtime;
mod streams;

use crate::guest::context::GuestContext;
use crate::guest::state::GuestState;
pub use component::Component;
use folders::Account;
use folders::preview1::LastWritten;
use mainspring_zcl::abi::{STDERR, STDIN, STDOUT};
use network::{Lookups, Names, NamesView, Rules};
pub(crate) use runtime::WithTokio;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use streams::Standard;
use wasmtime::{Linker, component as wasm_component};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::sockets::WasiSocketsView;
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtxBuilder, WasiCtxView, WasiView};

/// The module that preview 1 is imported from.
pub(crate) const PREVIEW1: &str = "wasi_snapshot_preview1";

/// How many of WASI's resources count as one handle: a connection is a socket, its two streams and
/// what they are polled by.
const RESOURCES_PER_HANDLE: usize = 5;

/// The most random bytes that a component gets by one call, if the host may hold as many for it:
/// the host makes them before the guest has memory for them, in some 4 ms.
const RANDOM_BYTES_MAX: usize = 1 << 20;

/// What a guest that imports WASI gets beside its arguments, its environment and its standard
/// streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WasiConfig {
    /// The folders that it sees.
    pub folders: Vec<Folder>,
    /// Whether it may use WASI's sockets, as far as the allow-list goes. Off by default:
    /// `net/tcp@v1` costs less.
    pub sockets: bool,
}

/// A folder that a guest sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// What the guest calls it.
    pub guest_path: String,
    /// Whether the guest may change what is in it.
    pub writable: bool,
}

/// A folder could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the folder {path}: {reason:#}")]
pub struct FolderError {
    path: String,
    reason: wasmtime::Error,
}

/// The WASI side of one guest's store.
pub(crate) struct WasiState {
    preview1: WasiP1Ctx,
    /// What it has added to its folders.
    account: Account,
    last_written: LastWritten,
    rules: Arc<Rules>,
    lookups: Lookups,
}

impl WasiState {
    pub(crate) fn new(guest: &Rc<GuestContext>, config: &WasiConfig) -> Result<WasiState, FolderError> {
        let rules = Rules::of(guest, config.sockets);
        let mut builder = WasiCtxBuilder::new();
        builder
            .stdin(Standard::new(guest, STDIN))
            .stdout(Standard::new(guest, STDOUT))
            .stderr(Standard::new(guest, STDERR))
            .args(&guest.arguments)
            .envs(&guest.environment)
            .allow_tcp(config.sockets)
            .allow_udp(false)
            .max_random_size(guest.limits().buffered_bytes.min(RANDOM_BYTES_MAX) as u64)
            .allow_ip_name_lookup(config.sockets);
        let check = rules.clone();
        builder.socket_addr_check(move |address, purpose| {
            let allowed = check.admits(address, purpose);
            Box::pin(async move { allowed })
        });
        for folder in &config.folders {
            let permissions = if folder.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            builder
                .preopened_dir(&folder.path, &folder.guest_path, permissions)
                .map_err(|reason| FolderError { path: folder.path.display().to_string(), reason })?;
        }
        let mut preview1 = builder.build_p1();
        let resources_max = guest.limits().handles.saturating_mul(RESOURCES_PER_HANDLE);
        preview1.ctx().table.set_max_capacity(resources_max);
        // Where nothing can be written, there is nothing to keep an account of.
        let writable = config.folders.iter().any(|folder| folder.writable);
        let limit = guest.limits().folder_bytes.filter(|_| writable);
        let account = Account::new(limit, guest.shared_refusals());
        let last_written = LastWritten::default();
        Ok(WasiState { preview1, account, last_written, rules, lookups: Lookups::default() })
    }

    fn names(&mut self) -> NamesView<'_> {
        NamesView { sockets: self.preview1.sockets(), rules: &self.rules, lookups: &mut self.lookups }
    }
}

/// A store's data with room for WASI. Guests that do not import it have none, and none of its calls
/// either.
pub(crate) trait HasWasi: Send + 'static {
    fn wasi(&mut self) -> &mut WasiState;
}

/// Lets wasmtime-wasi find its state.
pub(crate) fn view<T: HasWasi>(data: &mut T) -> WasiCtxView<'_> {
    data.wasi().preview1.ctx()
}

/// Adds preview 1 to what modules can import.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, |data| &mut data.wasi().preview1)?;
    random::add_to_linker(linker)?;
    folders::preview1::add_to_linker(linker)
}

/// Adds preview 2 to what components can import.
pub(crate) fn add_to_component_linker(
    linker: &mut wasm_component::Linker<GuestState>,
) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    let names =
        wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::add_to_linker::<_, Names>(linker, |data| {
            data.wasi().names()
        });
    let sockets =
        wasmtime_wasi::p2::bindings::sockets::tcp_create_socket::add_to_linker::<_, Names>(linker, |data| {
            data.wasi().names()
        });
    linker.allow_shadowing(false);
    names?;
    sockets?;
    folders::preview2::add_to_linker(linker)
}

/// The exit code, if a guest ended by asking for one.
pub(crate) fn exit_code(error: &wasmtime::Error) -> Option<i32> {
    error.downcast_ref::<I32Exit>().map(|exit| exit.0)
}
