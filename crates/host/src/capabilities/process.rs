//! `proc/argv@v1` and `proc/env@v1`: what the guest was started with, as a stream to read once.
//!
//! A list is made once per guest; all of its handles read the same one.

use crate::capabilities::{Capability, CapabilityId, Opened, Opening};
use crate::guest::context::GuestContext;
use crate::handles::resource::Resource;
use mainspring_zcl::abi::{ErrorCode, cap_flags, handle_flags};
use std::cell::Cell;
use std::rc::Rc;

/// The guest's arguments.
pub(crate) struct Arguments;
/// The guest's environment, as `NAME=value`.
pub(crate) struct Environment;

impl Capability for Arguments {
    const ID: CapabilityId = CapabilityId::new("proc", "argv", 1);
    const FLAGS: u32 = cap_flags::CAN_OPEN | cap_flags::PURE;
    type Config = ();
    type State = Rc<[u8]>;

    fn prepare(&self, guest: &GuestContext, (): &()) -> Rc<[u8]> {
        list(guest.arguments().iter().map(|argument| (argument.as_str(), "", "")))
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
        open(&opening, |guest| guest.own(self).state.clone())
    }
}

impl Capability for Environment {
    const ID: CapabilityId = CapabilityId::new("proc", "env", 1);
    const FLAGS: u32 = cap_flags::CAN_OPEN | cap_flags::PURE;
    type Config = ();
    type State = Rc<[u8]>;

    fn prepare(&self, guest: &GuestContext, (): &()) -> Rc<[u8]> {
        list(guest.environment().iter().map(|(name, value)| (name.as_str(), "=", value.as_str())))
    }

    fn open(&self, opening: Opening<'_, '_>) -> Result<Opened, ErrorCode> {
        open(&opening, |guest| guest.own(self).state.clone())
    }
}

/// A list on the wire: version, count, then each as a length and bytes.
fn list<'a>(items: impl ExactSizeIterator<Item = (&'a str, &'a str, &'a str)>) -> Rc<[u8]> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(&(items.len() as u32).to_le_bytes());
    for (name, separator, value) in items {
        let length = name.len() + separator.len() + value.len();
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
        for part in [name, separator, value] {
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    bytes.into()
}

fn open(
    opening: &Opening<'_, '_>,
    list: impl FnOnce(&GuestContext) -> Rc<[u8]>,
) -> Result<Opened, ErrorCode> {
    opening.no_params()?;
    Ok(Opened::new(Rc::new(ListStream { bytes: list(opening.guest), read: Cell::new(0) })))
}

/// A list, as far as it has been read.
struct ListStream {
    bytes: Rc<[u8]>,
    read: Cell<usize>,
}

impl Resource for ListStream {
    fn flags(&self) -> u32 {
        handle_flags::READABLE | handle_flags::ENDABLE
    }

    fn read(&self, _guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        let rest = &self.bytes[self.read.get()..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read.set(self.read.get() + count);
        Ok(count)
    }
}
