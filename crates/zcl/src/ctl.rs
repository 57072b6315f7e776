//! `zi_ctl`: requests about the host itself and about handles, answered at once.

use crate::frame::{HEADER_BYTES, Header};
use crate::wire::{Reader, Truncated, put};

/// Lists the capabilities.
pub const OP_CAPS_LIST: u16 = 1;
/// Reserved.
pub const OP_CAPS_DESCRIBE: u16 = 2;
/// Reserved.
pub const OP_CAPS_OPEN: u16 = 3;
/// Does something to a handle: see [`HandleOp`].
pub const OP_HANDLE_OP: u16 = 4;

/// Closes the sending direction of a connection.
pub const HANDLE_OP_SHUT_WR: u32 = 1;

/// The traces of errors.
pub mod trace {
    /// The request is not a frame.
    pub const BAD_FRAME: &str = "t_ctl_bad_frame";
    /// The response does not fit.
    pub const OVERFLOW: &str = "t_ctl_overflow";
    /// The payload of a `HANDLE_OP` is malformed.
    pub const BAD_HANDLE_OP: &str = "t_ctl_bad_handle_op";
    /// There is no such handle.
    pub const BAD_HANDLE: &str = "t_ctl_bad_handle";
    /// The handle cannot do this.
    pub const NO_SYS: &str = "t_ctl_nosys";
    /// It failed.
    pub const HANDLE_OP_FAILED: &str = "t_ctl_handle_op_failed";
    /// There is no such operation.
    pub const UNKNOWN_OP: &str = "t_ctl_unknown_op";
}

/// The payload of an [`OP_HANDLE_OP`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleOp {
    /// The handle.
    pub handle: u32,
    /// What to do to it.
    pub op: u32,
}

impl HandleOp {
    /// Bytes of the payload.
    pub const PAYLOAD_BYTES: usize = 16;
    /// Bytes of the frame.
    pub const FRAME_BYTES: usize = HEADER_BYTES + HandleOp::PAYLOAD_BYTES;
    const VERSION: u32 = 1;

    /// Reads a payload.
    ///
    /// # Errors
    /// [`Truncated`] if the size, the version or the reserved field is wrong.
    pub fn decode(payload: &[u8]) -> Result<HandleOp, Truncated> {
        let mut reader = Reader::new(payload);
        let (version, handle, op, reserved) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
        if version != HandleOp::VERSION || reserved != 0 || !reader.rest().is_empty() {
            return Err(Truncated);
        }
        Ok(HandleOp { handle, op })
    }

    /// The whole request.
    pub const fn to_frame(&self, rid: u32) -> [u8; HandleOp::FRAME_BYTES] {
        let header = Header::request(OP_HANDLE_OP, rid, HandleOp::PAYLOAD_BYTES as u32);
        let bytes = put([0; HandleOp::FRAME_BYTES], 0, header.encode());
        let bytes = put(bytes, HEADER_BYTES, HandleOp::VERSION.to_le_bytes());
        let bytes = put(bytes, HEADER_BYTES + 4, self.handle.to_le_bytes());
        put(bytes, HEADER_BYTES + 8, self.op.to_le_bytes())
    }
}
