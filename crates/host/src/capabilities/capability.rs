//! What a capability is: one unit with the same four moments, for the host's own and for those of
//! other crates.

use crate::abi::memory::GuestMemory;
use crate::guest::context::GuestContext;
use crate::guest::state::GuestState;
use crate::handles::resource::Resource;
use crate::handles::table::HandleEntry;
use crate::limits::Limits;
use mainspring_zcl::abi::{ErrorCode, cap_flags};
use std::any::{Any, TypeId};
use std::fmt;
use std::rc::Rc;
use wasmtime::Linker;

/// The longest kind or name of a capability.
pub(crate) const CAP_NAME_BYTES_MAX: usize = 256;

/// What a capability is called, such as `net/tcp@v1`.
///
/// # Examples
/// ```
/// use mainspring_host::CapabilityId;
///
/// const TCP: CapabilityId = CapabilityId::new("net", "tcp", 1);
/// assert_eq!(TCP.to_string(), "net/tcp@v1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CapabilityId {
    kind: &'static str,
    name: &'static str,
    version: u32,
}

impl CapabilityId {
    /// Puts a name together. Guests open a capability by kind and name; the version is for people,
    /// and changes whenever old guests would misunderstand the new messages.
    ///
    /// # Panics
    /// If kind or name is empty or longer than 256 bytes: no guest could open it.
    pub const fn new(kind: &'static str, name: &'static str, version: u32) -> CapabilityId {
        assert!(!kind.is_empty() && kind.len() <= CAP_NAME_BYTES_MAX);
        assert!(!name.is_empty() && name.len() <= CAP_NAME_BYTES_MAX);
        CapabilityId { kind, name, version }
    }

    /// The first half, such as `net`.
    pub const fn kind(self) -> &'static str {
        self.kind
    }

    /// The second half, such as `tcp`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The version.
    pub const fn version(self) -> u32 {
        self.version
    }
}

impl fmt::Display for CapabilityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@v{}", self.kind, self.name, self.version)
    }
}

/// Something that guests can open by kind and name, such as `net` and `tcp`.
///
/// A capability has four moments, of which only the last is required:
///
/// | moment | when | what for |
/// | --- | --- | --- |
/// | [`link`](Capability::link) | once per host | imports of its own, for capabilities that are more than handles |
/// | [`configure`](Capability::configure) | a guest starts that has a configuration for it | refuse what makes no sense, before the guest runs |
/// | [`prepare`](Capability::prepare) | a guest uses it for the first time | what it keeps per guest |
/// | [`open`](Capability::open) | a guest opens it | a handle |
///
/// What one guest is given of it is its [`Config`](Capability::Config), set by
/// [`GuestConfig::configure`](crate::GuestConfig::configure); limits of its own belong there. What
/// it returns from `open` is any [`Resource`], or a [`Framed`](crate::Framed) handle that speaks in
/// messages.
///
/// # Examples
/// A capability that hands out numbers, as many as a guest's configuration says:
/// ```
/// use mainspring_host::{
///     Capability, CapabilityId, ErrorCode, GuestContext, Limit, Opened, Opening, Resource,
/// };
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// struct Numbers;
///
/// #[derive(Default)]
/// struct NumbersConfig {
///     most: u64,
/// }
///
/// impl Capability for Numbers {
///     const ID: CapabilityId = CapabilityId::new("demo", "numbers", 1);
///     type Config = NumbersConfig;
///     /// How many it has been given.
///     type State = Cell<u64>;
///
///     fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
///         opening.no_params()?;
///         Ok(Opened::new(Rc::new(Stream)))
///     }
/// }
///
/// struct Stream;
///
/// impl Resource for Stream {
///     fn flags(&self) -> u32 {
///         mainspring_zcl::abi::handle_flags::READABLE
///     }
///
///     fn read(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
///         let own = guest.own(&Numbers);
///         if own.state.get() >= own.config.most {
///             guest.refuse(Limit::Capability);
///             return Err(ErrorCode::Denied);
///         }
///         own.state.set(own.state.get() + 1);
///         let number = own.state.get().to_le_bytes();
///         buffer.get_mut(..8).ok_or(ErrorCode::Bounds)?.copy_from_slice(&number);
///         Ok(8)
///     }
/// }
///
/// let mut host = mainspring_host::HostConfig::new();
/// host.capability(Numbers);
/// let mut guest = mainspring_host::GuestConfig::new();
/// guest.configure::<Numbers>(NumbersConfig { most: 3 });
/// ```
pub trait Capability: Send + Sync + Sized + 'static {
    /// What it is called.
    const ID: CapabilityId;
    /// What listings say about it: bits of [`cap_flags`].
    const FLAGS: u32 = cap_flags::CAN_OPEN;
    /// What one guest is given of it, limits of its own included. A guest without a configuration
    /// for it has the default.
    type Config: Default + 'static;
    /// What it keeps for one guest over all of that guest's handles.
    type State: Default + 'static;

    /// Adds imports of its own for modules.
    ///
    /// # Errors
    /// The engine's; the host is then not built.
    fn link(&self, linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
        let _ = linker;
        Ok(())
    }

    /// Adds imports of its own for components, once for each component.
    ///
    /// # Errors
    /// The engine's; the component is then refused.
    #[cfg(feature = "wasi")]
    fn link_component(&self, linker: &mut wasmtime::component::Linker<GuestState>) -> wasmtime::Result<()> {
        let _ = linker;
        Ok(())
    }

    /// Looks at a configuration before its guest starts.
    ///
    /// # Errors
    /// What is wrong with it, in words; the guest is then not started.
    fn configure(&self, config: &Self::Config, limits: &Limits) -> Result<(), String> {
        let _ = (config, limits);
        Ok(())
    }

    /// Makes what it keeps for a guest that uses it for the first time. Guests that never do cost
    /// nothing.
    fn prepare(&self, guest: &GuestContext, config: &Self::Config) -> Self::State {
        let _ = (guest, config);
        Self::State::default()
    }

    /// Opens it. Must not block.
    ///
    /// # Errors
    /// The code that the guest is given.
    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode>;
}

/// What a capability has for one guest: see [`GuestContext::own`].
#[derive(Debug)]
pub struct PerGuest<C: Capability> {
    /// What the guest was given.
    pub config: C::Config,
    /// What is kept for it.
    pub state: C::State,
}

/// Where a guest's parameters are: already checked to lie within its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Where they start.
    pub offset: u64,
    /// How long they are.
    pub len: u32,
}

/// A guest opens a capability.
pub struct Opening<'a, 'm> {
    /// Who.
    pub guest: &'a Rc<GuestContext>,
    /// Its memory, during this call.
    pub memory: &'a mut GuestMemory<'m>,
    /// Where its parameters are.
    pub params: Params,
}

impl Opening<'_, '_> {
    /// The parameters.
    ///
    /// # Errors
    /// [`ErrorCode::Bounds`], which cannot happen: they were checked.
    pub fn params(&self) -> Result<&[u8], ErrorCode> {
        self.memory.get(self.params.offset, self.params.len)
    }

    /// Refuses parameters where there are none to give.
    ///
    /// # Errors
    /// [`ErrorCode::Invalid`] if there are any.
    pub fn no_params(&self) -> Result<(), ErrorCode> {
        if self.params.len == 0 { Ok(()) } else { Err(ErrorCode::Invalid) }
    }
}

impl fmt::Debug for Opening<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("params", &self.params).finish_non_exhaustive()
    }
}

/// What a capability opened.
pub struct Opened(pub(crate) HandleEntry);

impl Opened {
    /// A new resource for the guest.
    pub fn new(resource: Rc<dyn Resource>) -> Opened {
        Opened(HandleEntry::Resource(resource))
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// A capability as the host keeps it, whatever its types.
pub(crate) trait AnyCapability: Send + Sync {
    fn key(&self) -> TypeId;
    fn id(&self) -> CapabilityId;
    fn flags(&self) -> u32;
    fn link(&self, linker: &mut Linker<GuestState>) -> wasmtime::Result<()>;
    #[cfg(feature = "wasi")]
    fn link_component(&self, linker: &mut wasmtime::component::Linker<GuestState>) -> wasmtime::Result<()>;
    fn configure(&self, config: &dyn Any, limits: &Limits) -> Result<(), String>;
    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode>;
}

impl<C: Capability> AnyCapability for C {
    fn key(&self) -> TypeId {
        TypeId::of::<C>()
    }

    fn id(&self) -> CapabilityId {
        C::ID
    }

    fn flags(&self) -> u32 {
        C::FLAGS
    }

    fn link(&self, linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
        Capability::link(self, linker)
    }

    #[cfg(feature = "wasi")]
    fn link_component(&self, linker: &mut wasmtime::component::Linker<GuestState>) -> wasmtime::Result<()> {
        Capability::link_component(self, linker)
    }

    fn configure(&self, config: &dyn Any, limits: &Limits) -> Result<(), String> {
        match config.downcast_ref() {
            Some(config) => Capability::configure(self, config, limits),
            None => Err("it is another capability's".into()),
        }
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
        Capability::open(self, opening)
    }
}

/// The configuration of one capability, for one guest.
pub(crate) struct CapabilityConfig {
    pub(crate) key: TypeId,
    pub(crate) id: CapabilityId,
    pub(crate) config: Box<dyn Any>,
}

impl CapabilityConfig {
    pub(crate) fn new<C: Capability>(config: C::Config) -> CapabilityConfig {
        CapabilityConfig { key: TypeId::of::<C>(), id: C::ID, config: Box::new(config) }
    }
}

/// What the capabilities have for one guest. Both lists are short: what is not configured and not
/// used is in neither.
#[derive(Default)]
pub(crate) struct CapabilityData {
    configs: Vec<CapabilityConfig>,
    ready: Vec<(TypeId, Rc<dyn Any>)>,
}

impl CapabilityData {
    pub(crate) fn new(configs: Vec<CapabilityConfig>) -> CapabilityData {
        CapabilityData { configs, ready: Vec::new() }
    }

    pub(crate) fn get<C: Capability>(&self) -> Option<Rc<PerGuest<C>>> {
        let (_, found) = self.ready.iter().find(|(key, _)| *key == TypeId::of::<C>())?;
        found.clone().downcast().ok()
    }

    /// Takes the configuration out, for whoever makes the rest.
    pub(crate) fn take_config<C: Capability>(&mut self) -> C::Config {
        let index = self.configs.iter().position(|config| config.key == TypeId::of::<C>());
        let config = index.map(|index| self.configs.swap_remove(index).config);
        config.and_then(|config| config.downcast().ok()).map_or_else(Default::default, |config| *config)
    }

    pub(crate) fn put<C: Capability>(&mut self, own: Rc<PerGuest<C>>) {
        self.ready.push((TypeId::of::<C>(), own));
    }
}
