//! `proc/argv@v1` and `proc/env@v1`: what the guest was started with, as a stream to read once.

use crate::abi::memory::GuestMemory;
use crate::capabilities::{Capability, Opened, Params, no_params};
use crate::guest::context::GuestContext;
use crate::handles::resource::Resource;
use mainspring_zcl::abi::{ErrorCode, cap_flags, handle_flags};
use std::cell::Cell;
use std::rc::Rc;

/// The guest's arguments.
pub(crate) struct Arguments;
/// The guest's environment, as `NAME=value`.
pub(crate) struct Environment;

/// A list on the wire: version, count, then each as a length and bytes.
fn list<'a>(items: impl ExactSizeIterator<Item = (&'a str, &'a str, &'a str)>) -> Vec<u8> {
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
    bytes
}

fn opened(params: Params, bytes: impl FnOnce() -> Vec<u8>) -> Result<Opened, ErrorCode> {
    no_params(params)?;
    Ok(Opened::new(Rc::new(Stream { bytes: bytes(), read: Cell::new(0) })))
}

impl Capability for Arguments {
    fn kind(&self) -> &str {
        "proc"
    }

    fn name(&self) -> &str {
        "argv"
    }

    fn flags(&self) -> u32 {
        cap_flags::CAN_OPEN | cap_flags::PURE
    }

    fn open(
        &self,
        guest: &Rc<GuestContext>,
        _memory: &mut GuestMemory<'_>,
        params: Params,
    ) -> Result<Opened, ErrorCode> {
        opened(params, || list(guest.arguments.iter().map(|argument| (argument.as_str(), "", ""))))
    }
}

impl Capability for Environment {
    fn kind(&self) -> &str {
        "proc"
    }

    fn name(&self) -> &str {
        "env"
    }

    fn flags(&self) -> u32 {
        cap_flags::CAN_OPEN | cap_flags::PURE
    }

    fn open(
        &self,
        guest: &Rc<GuestContext>,
        _memory: &mut GuestMemory<'_>,
        params: Params,
    ) -> Result<Opened, ErrorCode> {
        let variables = guest.environment.iter();
        opened(params, || list(variables.map(|(name, value)| (name.as_str(), "=", value.as_str()))))
    }
}

struct Stream {
    bytes: Vec<u8>,
    read: Cell<usize>,
}

impl Resource for Stream {
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
