//! Facts as a journal takes them: one behind the other, each as its kind, its version and the bytes
//! of its fields.

use crate::api::fact::Fact;
use crate::facts::codec::is_change_of_value;

/// What stands before the fields of a fact: their length, its kind and version, and six zeros.
const HEADER: usize = 12;
/// Room for what a turn records, mostly.
const ROOM: usize = 512;
/// The most room that is kept for the next turn.
const SPARE_BYTES_MAX: usize = 64 << 10;

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
        let (kind, version) = (fact.kind(), fact.version());
        self.bytes.extend_from_slice(&[0, 0, 0, 0, kind, version, 0, 0, 0, 0, 0, 0]);
        fact.write(&mut self.bytes);
        // A fact is bounded far below that.
        let length = (self.bytes.len() - start - HEADER) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// No facts, with the room that these had.
    #[inline]
    pub(crate) fn emptied(mut self) -> Records {
        self.bytes.clear();
        if self.bytes.capacity() <= SPARE_BYTES_MAX { self } else { Records::default() }
    }

    /// How many bytes they take before they need more memory.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity()
    }

    /// The facts, oldest first: of each the length of its fields in four bytes, the lowest first,
    /// its kind, its version, six zeros, and its fields. That is how records stand in a batch of a
    /// journal, but for their checksums.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The facts, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = FactRecord<'_>> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let (header, behind) = rest.split_first_chunk::<HEADER>()?;
            let [a, b, c, d, kind, version, ..] = *header;
            let (data, behind) = behind.split_at(u32::from_le_bytes([a, b, c, d]) as usize);
            rest = behind;
            Some(FactRecord { kind, version, data })
        })
    }
}

impl<T: AsRef<str>> FromIterator<Fact<T>> for Records {
    fn from_iter<I: IntoIterator<Item = Fact<T>>>(facts: I) -> Records {
        let mut records = Records::default();
        facts.into_iter().for_each(|fact| records.push(&fact));
        records
    }
}

impl FactRecord<'_> {
    /// Whether the end of the command that had it recorded follows, most likely: something that a
    /// capability of the daemon's own keeps was changed.
    pub fn has_sequel(&self) -> bool {
        is_change_of_value(self.kind)
    }
}
