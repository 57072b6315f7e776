//! Fields as bytes: numbers are LEB128, texts have their length before them. Facts on disk and the
//! tape are made of these.

use crate::api::fact::PeerName;
use crate::api::rights::Rights;
use crate::facts::FactError;
use mainspring_message::text_of;

/// Writes fields, one behind the other.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    #[inline]
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        if number < 0x80 {
            self.0.push(number as u8);
            return self;
        }
        // All at once: a byte by itself costs a look at the room that is left. Ten bytes whatever
        // the number: that has no branch, and what is too much is cut off.
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&(spread(number) | 0x8080_8080_8080_8080).to_le_bytes());
        bytes[8] = (number >> 56) as u8 | 0x80;
        bytes[9] = (number >> 63) as u8;
        let last = number.ilog2() as usize / 7;
        bytes[last] &= 0x7f;
        let end = self.0.len() + last + 1;
        self.0.extend_from_slice(&bytes);
        self.0.truncate(end);
        self
    }

    /// A number of which all bits are used, in eight bytes.
    #[inline]
    pub(crate) fn word(&mut self, word: u64) -> &mut Self {
        self.0.extend_from_slice(&word.to_le_bytes());
        self
    }

    pub(crate) fn maybe(&mut self, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => {
                self.0.push(1);
                self.number(number)
            }
            None => {
                self.0.push(0);
                self
            }
        }
    }

    #[inline]
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.blob(text.as_bytes())
    }

    #[inline]
    pub(crate) fn blob(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn flag(&mut self, flag: bool) -> &mut Self {
        self.0.push(u8::from(flag));
        self
    }

    pub(crate) fn maybe_text(&mut self, text: Option<&str>) -> &mut Self {
        self.0.push(u8::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
        self
    }

    pub(crate) fn rights(&mut self, rights: &Rights) -> &mut Self {
        self.0.push(u8::from(rights.is_operator()));
        self.0.push(u8::from(rights.allow().is_some()));
        if let Some(allow) = rights.allow() {
            self.number(allow.len() as u64);
            for pattern in allow {
                self.text(pattern);
            }
        }
        self
    }

    pub(crate) fn peer<T: AsRef<str>>(&mut self, peer: &PeerName<T>) -> &mut Self {
        let (tag, name) = match peer {
            PeerName::Client(name) => (0, name),
            PeerName::Capability(name) => (1, name),
        };
        self.0.push(tag);
        self.text(name.as_ref())
    }
}

/// The lowest 56 bits, seven in each byte: halves are moved apart, then halves of these, and so on.
fn spread(number: u64) -> u64 {
    let halves = (number & 0x0fff_ffff) | (number & 0x00ff_ffff_f000_0000) << 4;
    let quarters = (halves & 0x0000_3fff_0000_3fff) | (halves & 0x0fff_c000_0fff_c000) << 2;
    (quarters & 0x007f_007f_007f_007f) | (quarters & 0x3f80_3f80_3f80_3f80) << 1
}

/// What [`spread`] made eight bytes of.
fn gather(bytes: u64) -> u64 {
    let quarters = (bytes & 0x007f_007f_007f_007f) | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
    let halves = (quarters & 0x0000_3fff_0000_3fff) | (quarters & 0x3fff_0000_3fff_0000) >> 2;
    (halves & 0x0fff_ffff) | (halves & 0x0fff_ffff_0000_0000) >> 4
}

/// Reads fields, one behind the other.
pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
    /// What is being read, for errors.
    pub(crate) name: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn wrong(&self, field: &'static str) -> FactError {
        FactError::Field { name: self.name, field }
    }

    #[inline]
    pub(crate) fn byte(&mut self, field: &'static str) -> Result<u8, FactError> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| self.wrong(field))?;
        self.rest = rest;
        Ok(*first)
    }

    #[inline]
    pub(crate) fn number(&mut self, field: &'static str) -> Result<u64, FactError> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => match self.long_number() {
                Some(number) => Ok(number),
                None => self.any_number(field),
            },
        }
    }

    /// A number of two to eight bytes, if there are eight to look at: all at once, as they were
    /// written.
    #[inline]
    fn long_number(&mut self) -> Option<u64> {
        let word = u64::from_le_bytes(*self.rest.first_chunk::<8>()?);
        let last = (!word & 0x8080_8080_8080_8080).trailing_zeros() / 8;
        let bits = gather(word & (0x7f7f_7f7f_7f7f_7f7f >> (56 - 8 * last.min(7))));
        // No number ends in a zero byte.
        if last > 7 || bits >> (7 * last) == 0 {
            return None;
        }
        self.rest = &self.rest[last as usize + 1..];
        Some(bits)
    }

    fn any_number(&mut self, field: &'static str) -> Result<u64, FactError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(field)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit, and no number ends in a zero byte: there is one
            // way to write it.
            if (shift == 63 && bits > 1) || (shift > 0 && byte == 0) {
                return Err(self.wrong(field));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.wrong(field))
    }

    pub(crate) fn word(&mut self, field: &'static str) -> Result<u64, FactError> {
        let (word, rest) = self.rest.split_first_chunk().ok_or_else(|| self.wrong(field))?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*word))
    }

    pub(crate) fn small(&mut self, field: &'static str) -> Result<u32, FactError> {
        let number = self.number(field)?;
        u32::try_from(number).map_err(|_| self.wrong(field))
    }

    pub(crate) fn is_there(&mut self, field: &'static str) -> Result<bool, FactError> {
        match self.byte(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.wrong(field)),
        }
    }

    pub(crate) fn maybe(&mut self, field: &'static str) -> Result<Option<u64>, FactError> {
        Ok(if self.is_there(field)? { Some(self.number(field)?) } else { None })
    }

    #[inline]
    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, FactError> {
        text_of(self.blob(field)?).ok_or_else(|| self.wrong(field))
    }

    #[inline]
    pub(crate) fn blob(&mut self, field: &'static str) -> Result<&'a [u8], FactError> {
        let length = usize::try_from(self.number(field)?).map_err(|_| self.wrong(field))?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.wrong(field))?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn maybe_text(&mut self, field: &'static str) -> Result<Option<&'a str>, FactError> {
        Ok(if self.is_there(field)? { Some(self.text(field)?) } else { None })
    }

    pub(crate) fn rights(&mut self) -> Result<Rights, FactError> {
        let operator = self.is_there("operator")?;
        if !self.is_there("allow")? {
            return Ok(Rights::from_parts(None, operator));
        }
        let count = self.number("allow")?;
        let patterns = (0..count).map(|_| self.text("allow").map(Box::from));
        Ok(Rights::from_parts(Some(patterns.collect::<Result<_, _>>()?), operator))
    }

    pub(crate) fn peer(&mut self) -> Result<PeerName<&'a str>, FactError> {
        let tag = self.byte("peer")?;
        let name = self.text("peer")?;
        match tag {
            0 => Ok(PeerName::Client(name)),
            1 => Ok(PeerName::Capability(name)),
            _ => Err(self.wrong("peer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_any_length_is_written_behind_its_length_and_read_again() {
        let all: Vec<u8> = (1..=200).collect();
        let mut bytes = Vec::new();
        for length in 0..=all.len() {
            Writer(&mut bytes).blob(&all[..length]).flag(true);
        }
        let mut reader = Reader { rest: &bytes, name: "test" };
        for length in 0..=all.len() {
            assert_eq!(reader.blob("blob"), Ok(&all[..length]));
            assert_eq!(reader.is_there("flag"), Ok(true));
        }
        assert_eq!(reader.rest, b"");
    }

    #[test]
    fn a_number_is_written_in_seven_bits_a_byte_and_read_again() {
        let edges = (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 0x0123_4567_89ab_cdef >> bit]);
        for number in edges.chain([u64::MAX, 1_790_000_000_000]) {
            let mut bytes = Vec::new();
            Writer(&mut bytes).number(number);
            let (mut plain, mut rest) = (Vec::new(), number);
            while rest >= 0x80 {
                plain.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            plain.push(rest as u8);
            assert_eq!(bytes, plain, "{number:#x}");
            assert_eq!(Reader { rest: &bytes, name: "test" }.number("number"), Ok(number));
            // The same where more follows, and where it is written with a zero byte too many.
            bytes.extend([0xff; 8]);
            let mut reader = Reader { rest: &bytes, name: "test" };
            assert_eq!((reader.number("number"), reader.rest), (Ok(number), &[0xff; 8][..]));
            plain.iter_mut().for_each(|byte| *byte |= 0x80);
            plain.extend([0; 9]);
            assert!(Reader { rest: &plain, name: "test" }.number("number").is_err(), "{number:#x}");
        }
    }
}
