//! Numbers as text, written and read for every request: `std::fmt` takes ten times as long.

/// Appends a number in decimal.
pub(crate) fn push_number(number: u64, text: &mut String) {
    text.push_str(itoa::Buffer::new().format(number));
}

/// Appends a number in hexadecimal, without zeroes before it.
pub(crate) fn push_hex(number: u64, text: &mut String) {
    let mut digits = [b'0'; 16];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    let zeroes = (number | 1).leading_zeros() as usize / 4;
    text.push_str(str::from_utf8(&digits[zeroes..]).unwrap_or_default());
}

/// Reads a number in decimal: digits alone.
pub(crate) fn read_number(word: &str) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.bytes().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// What each byte is as a digit in hexadecimal; [`NO_DIGIT`] if it is none.
const HEX: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        digits[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};
const NO_DIGIT: u8 = 0x80;

/// Reads a number in hexadecimal: digits alone.
pub(crate) fn read_hex(word: &str) -> Option<u64> {
    if word.is_empty() || word.len() > 16 {
        return None;
    }
    let (mut number, mut all) = (0, 0);
    for byte in word.bytes() {
        let digit = HEX[usize::from(byte)];
        all |= digit;
        number = number << 4 | u64::from(digit & 15);
    }
    (all & NO_DIGIT == 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for number in [0, 1, 9, 10, 15, 16, 255, 256, 1_767_910_000_000, u64::MAX - 1, u64::MAX] {
            let (mut decimal, mut hex) = (String::new(), String::new());
            push_number(number, &mut decimal);
            push_hex(number, &mut hex);
            assert_eq!((decimal.clone(), hex.clone()), (number.to_string(), format!("{number:x}")));
            assert_eq!((read_number(&decimal), read_hex(&hex)), (Some(number), Some(number)));
        }
    }

    #[test]
    fn what_is_no_number_is_nothing() {
        for word in ["", "+1", "-1", " 1", "1 ", "x", "18446744073709551616", "000000000000000000001"] {
            assert_eq!(read_number(word), None, "{word:?}");
        }
        for word in ["", "+1", "-1", "g", "A", "10000000000000000"] {
            assert_eq!(read_hex(word), None, "{word:?}");
        }
    }
}
