//! What a handle stands for.

use crate::guest::context::GuestContext;
use crate::readiness::signal::Signal;
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::sys_loop::Readiness;
use std::rc::Rc;

/// Something that a guest holds a handle of. Nothing here may block.
///
/// A resource that returns [`ErrorCode::Again`] should be [`Watchable`], or the guest cannot know
/// when to come back.
pub trait Resource: 'static {
    /// What `zi_handle_hflags` says: bits of [`handle_flags`](mainspring_zcl::abi::handle_flags).
    fn flags(&self) -> u32;

    /// `zi_read`: fills the front of `buffer`, which is guest memory, and says how far; 0 is the
    /// end.
    ///
    /// # Errors
    /// The code that the guest is given.
    fn read(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        let _ = (guest, buffer);
        Err(ErrorCode::NoSys)
    }

    /// `zi_write`: takes some of the front of `bytes`, which is guest memory, and says how much.
    ///
    /// # Errors
    /// The code that the guest is given.
    fn write(&self, guest: &GuestContext, bytes: &[u8]) -> Result<usize, ErrorCode> {
        let _ = (guest, bytes);
        Err(ErrorCode::NoSys)
    }

    /// Closes the sending direction.
    ///
    /// # Errors
    /// The code behind the guest's error frame; [`ErrorCode::NoSys`] if there is no such direction.
    fn shut_write(&self, guest: &GuestContext) -> Result<(), ErrorCode> {
        let _ = guest;
        Err(ErrorCode::NoSys)
    }

    /// The guest has closed the handle, or has ended. Whatever was counted as held for it is not
    /// any more.
    fn close(&self, guest: &GuestContext) {
        let _ = guest;
    }

    /// Whether it holds one of the process's descriptors: those of all guests together are bounded.
    fn holds_descriptor(&self) -> bool {
        false
    }

    /// How the resource is watched, if it can be.
    fn watchable(&self) -> Option<&dyn Watchable> {
        None
    }
}

/// A resource that `sys/loop` can watch. This is all that the loop knows about it.
pub trait Watchable {
    /// Where the resource raises and lowers its readiness. Always the same one.
    fn signal(&self) -> &Rc<Signal>;

    /// A watch has been added and [`Signal::interest`] has grown: make sure that these bits will be
    /// raised. A resource that raises its bits by itself need not do anything.
    ///
    /// # Errors
    /// The watch is then refused.
    fn arm(&self, guest: &GuestContext, interest: Readiness) -> Result<(), ErrorCode> {
        let _ = (guest, interest);
        Ok(())
    }
}
