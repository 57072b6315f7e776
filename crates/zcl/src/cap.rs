//! Opening capabilities: the request of `zi_cap_open`, the parameters of `net/tcp@v1`, the records
//! of a listener.

use crate::wire::{Reader, Truncated, put};

/// What `zi_cap_open` is pointed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CapOpen {
    /// Where the capability's kind is, such as `net`.
    pub kind_ptr: u64,
    /// How long it is.
    pub kind_len: u32,
    /// Where its name is, such as `tcp`.
    pub name_ptr: u64,
    /// How long it is.
    pub name_len: u32,
    /// Must be 0.
    pub mode: u32,
    /// Where the parameters are.
    pub params_ptr: u64,
    /// How long they are.
    pub params_len: u32,
}

impl CapOpen {
    /// Bytes of a request.
    pub const BYTES: usize = 40;

    /// Reads a request.
    pub fn decode(bytes: &[u8; CapOpen::BYTES]) -> CapOpen {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        CapOpen {
            kind_ptr: u64_at(0),
            kind_len: u32_at(8),
            name_ptr: u64_at(12),
            name_len: u32_at(20),
            mode: u32_at(24),
            params_ptr: u64_at(28),
            params_len: u32_at(36),
        }
    }

    /// Writes the request.
    pub const fn encode(&self) -> [u8; CapOpen::BYTES] {
        let bytes = put([0; CapOpen::BYTES], 0, self.kind_ptr.to_le_bytes());
        let bytes = put(bytes, 8, self.kind_len.to_le_bytes());
        let bytes = put(bytes, 12, self.name_ptr.to_le_bytes());
        let bytes = put(bytes, 20, self.name_len.to_le_bytes());
        let bytes = put(bytes, 24, self.mode.to_le_bytes());
        let bytes = put(bytes, 28, self.params_ptr.to_le_bytes());
        put(bytes, 36, self.params_len.to_le_bytes())
    }
}

/// The flags of [`TcpOpen`].
pub mod tcp_flags {
    /// Listen instead of connecting.
    pub const LISTEN: u32 = 1;
    /// Let the address be bound while old connections linger.
    pub const REUSEADDR: u32 = 2;
    /// Share the address with other listeners.
    pub const REUSEPORT: u32 = 4;
    /// Keep an IPv6 listener from accepting IPv4.
    pub const IPV6ONLY: u32 = 8;
    /// Send small segments at once.
    pub const NODELAY: u32 = 16;
    /// Probe idle connections.
    pub const KEEPALIVE: u32 = 32;
    /// Every flag there is.
    pub const ALL: u32 = 63;
}

/// The parameters of `net/tcp@v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpOpen {
    /// Where the name or address is.
    pub host_ptr: u64,
    /// How long it is: 1 to 255.
    pub host_len: u32,
    /// The port: up to 65,535; 0 only to listen.
    pub port: u32,
    /// [`tcp_flags`].
    pub flags: u32,
    /// How many connections may wait to be accepted; 0 for the default.
    pub backlog: u32,
    /// Where a listener's port is to be written as a 32-bit number; 0 for nowhere.
    pub out_port_ptr: u64,
}

impl TcpOpen {
    /// Bytes of the parameters when everything is given; 20 and 24 are fine, too.
    pub const BYTES: usize = 32;
    /// The longest name.
    pub const HOST_BYTES_MAX: u32 = 255;

    /// Reads parameters of 20, 24 or 32 bytes.
    ///
    /// # Errors
    /// [`Truncated`] for any other size.
    pub fn decode(bytes: &[u8]) -> Result<TcpOpen, Truncated> {
        let (has_backlog, has_out_port) = match bytes.len() {
            20 => (false, false),
            24 => (true, false),
            32 => (true, true),
            _ => return Err(Truncated),
        };
        let mut reader = Reader::new(bytes);
        Ok(TcpOpen {
            host_ptr: reader.u64()?,
            host_len: reader.u32()?,
            port: reader.u32()?,
            flags: reader.u32()?,
            backlog: if has_backlog { reader.u32()? } else { 0 },
            out_port_ptr: if has_out_port { reader.u64()? } else { 0 },
        })
    }

    /// Writes the parameters in full.
    pub const fn encode(&self) -> [u8; TcpOpen::BYTES] {
        let bytes = put([0; TcpOpen::BYTES], 0, self.host_ptr.to_le_bytes());
        let bytes = put(bytes, 8, self.host_len.to_le_bytes());
        let bytes = put(bytes, 12, self.port.to_le_bytes());
        let bytes = put(bytes, 16, self.flags.to_le_bytes());
        let bytes = put(bytes, 20, self.backlog.to_le_bytes());
        put(bytes, 24, self.out_port_ptr.to_le_bytes())
    }
}

/// What reading a listener returns: one record per accepted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AcceptRecord {
    /// The connection's handle.
    pub handle: u32,
    /// The peer's port.
    pub peer_port: u32,
    /// The peer's address; an IPv4 one is mapped into IPv6.
    pub peer_address: [u8; 16],
    /// The port that the connection came in on.
    pub local_port: u32,
}

impl AcceptRecord {
    /// Bytes of a record.
    pub const BYTES: usize = 32;

    /// Reads a record.
    ///
    /// # Errors
    /// [`Truncated`] if the reserved field is not zero.
    pub fn decode(bytes: &[u8; AcceptRecord::BYTES]) -> Result<AcceptRecord, Truncated> {
        let mut reader = Reader::new(bytes);
        let (handle, peer_port) = (reader.u32()?, reader.u32()?);
        let mut peer_address = [0; 16];
        peer_address.copy_from_slice(reader.bytes(16)?);
        let local_port = reader.u32()?;
        if reader.u32()? != 0 {
            return Err(Truncated);
        }
        Ok(AcceptRecord { handle, peer_port, peer_address, local_port })
    }

    /// Writes the record.
    pub const fn encode(&self) -> [u8; AcceptRecord::BYTES] {
        let bytes = put([0; AcceptRecord::BYTES], 0, self.handle.to_le_bytes());
        let bytes = put(bytes, 4, self.peer_port.to_le_bytes());
        let bytes = put(bytes, 8, self.peer_address);
        put(bytes, 24, self.local_port.to_le_bytes())
    }
}
