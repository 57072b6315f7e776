//! Capabilities: what guests can open by name. Each has a folder or file of its own and is in the list of the host; they see a
//! guest only through its context.

pub(crate) mod net_tcp;
pub(crate) mod process;
pub(crate) mod sys_info;
pub(crate) mod sys_loop;

use crate::abi::memory::GuestMemory;
use crate::guest::context::GuestContext;
use crate::handles::resource::Resource;
use crate::handles::table::Entry;
use mainspring_zcl::abi::ErrorCode;
use std::rc::Rc;

/// Where a guest's parameters are: already checked to lie within its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Where they start.
    pub offset: u64,
    /// How long they are.
    pub len: u32,
}

/// Something that guests can open by kind and name, such as `net` and `tcp`.
pub trait Capability: Send + Sync + 'static {
    /// The first half of its name.
    fn kind(&self) -> &str;

    /// The second half of its name.
    fn name(&self) -> &str;

    /// What listings say about it: bits of [`cap_flags`](mainspring_zcl::abi::cap_flags).
    fn flags(&self) -> u32 {
        mainspring_zcl::abi::cap_flags::CAN_OPEN
    }

    /// Opens it. Must not block.
    ///
    /// # Errors
    /// The code that the guest is given.
    fn open(
        &self,
        guest: &Rc<GuestContext>,
        memory: &mut GuestMemory<'_>,
        params: Params,
    ) -> Result<Opened, ErrorCode>;
}

/// What a capability opened.
pub struct Opened(pub(crate) Entry);

impl Opened {
    /// A new resource for the guest.
    pub fn new(resource: Rc<dyn Resource>) -> Opened {
        Opened(Entry::Resource(resource))
    }
}

/// Refuses parameters where there are none to give.
pub(crate) fn no_params(params: Params) -> Result<(), ErrorCode> {
    if params.len == 0 { Ok(()) } else { Err(ErrorCode::Invalid) }
}
