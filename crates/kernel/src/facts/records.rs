//! Facts as a journal takes them: one behind the other, each as its kind, its version and the bytes
//! of its fields.

use crate::api::fact::Fact;
use crate::facts::codec::is_change_of_value;

/// Kind, version, and the length of the fields.
const HEADER: usize = 6;
/// Room for what a turn records, mostly.
const ROOM: usize = 512;

/// Facts in the order in which they became true, as the bytes that a journal keeps of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    bytes: Vec<u8>,
}

/// One fact of [`Records`]. [`Fact::read`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactRecord<'a> {
    /// Which kind of fact it is.
    pub kind: u8,
    /// In which version of that kind it is written.
    pub version: u8,
    /// Its fields.
    pub data: &'a [u8],
}

impl Records {
    /// Adds a fact behind all others.
    pub(crate) fn push<T: AsRef<str>>(&mut self, fact: &Fact<T>) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(ROOM);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[fact.kind(), fact.version(), 0, 0, 0, 0]);
        fact.write(&mut self.bytes);
        // A fact is bounded far below that.
        let length = (self.bytes.len() - start - HEADER) as u32;
        self.bytes[start + 2..start + HEADER].copy_from_slice(&length.to_le_bytes());
    }

    /// The facts, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = FactRecord<'_>> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let ([kind, version, a, b, c, d], behind) = rest.split_first_chunk::<HEADER>()?;
            let (data, behind) = behind.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            rest = behind;
            Some(FactRecord { kind: *kind, version: *version, data })
        })
    }
}

impl FactRecord<'_> {
    /// Whether the end of the command that had it recorded follows, most likely: something that a
    /// capability of the daemon's own keeps was changed.
    pub fn has_sequel(&self) -> bool {
        is_change_of_value(self.kind)
    }
}
