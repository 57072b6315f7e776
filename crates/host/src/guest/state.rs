//! What a guest's store carries.

use crate::abi::heap::Heap;
use crate::guest::confined::Confined;
use crate::guest::context::GuestContext;
use crate::limits::Limiter;
use crate::limits::ticker::ticks_in;
use std::any::Any;
use std::rc::Rc;
use wasmtime::Memory;

/// The data of a guest's store: the host's own, and whatever an extension of the host (such as
/// WASI) put there.
pub struct GuestState {
    pub(crate) context: Confined<Rc<GuestContext>>,
    pub(crate) memory: Option<Memory>,
    pub(crate) heap: Heap,
    pub(crate) limiter: Limiter,
    pub(crate) extras: Extras,
}

/// What a guest's store carries beside the host's own.
pub(crate) struct Extras {
    /// Put there by [`GuestConfig::extension`](crate::GuestConfig::extension).
    pub(crate) extension: Option<Box<dyn Any + Send>>,
    /// There if the guest imports WASI.
    #[cfg(feature = "wasi")]
    pub(crate) wasi: Option<Box<crate::wasi::WasiState>>,
    /// There if the guest is a component.
    #[cfg(feature = "wasi")]
    pub(crate) sockets: Option<Confined<Rc<crate::sockets::Sockets>>>,
}

impl GuestState {
    pub(crate) fn new(context: Rc<GuestContext>, extras: Extras) -> GuestState {
        GuestState {
            limiter: Limiter::new(Confined::new(context.clone())),
            context: Confined::new(context),
            memory: None,
            heap: Heap::default(),
            extras,
        }
    }

    /// The guest as its resources see it.
    pub fn context(&self) -> &Rc<GuestContext> {
        &self.context
    }

    /// What [`GuestConfig::extension`](crate::GuestConfig::extension) put here, if it is a `T`.
    pub fn extension_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.extras.extension.as_mut()?.downcast_mut()
    }

    /// How many ticks of the epoch the guest may run at a stretch.
    pub(crate) fn slice_ticks(&self) -> u64 {
        ticks_in(self.context.limits().cpu_slice)
    }
}

impl std::fmt::Debug for GuestState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuestState").field("context", &**self.context).finish_non_exhaustive()
    }
}
