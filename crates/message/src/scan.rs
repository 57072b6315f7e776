//! A scanner that checks JSON text without building anything.
//!
//! The envelope needs the *places* of five strings and of `data`, plus the certainty that the whole
//! line is JSON (it will be spliced into other lines). A general parser gives values, not places;
//! this one gives both checks in one pass over the bytes.

/// How deep objects and arrays may nest.
pub const DEPTH_MAX: u32 = 128;

/// What would have fitted where text is not JSON. The cursor stays there. It is no more than this
/// so that every step of the scanner returns in registers.
pub(crate) type Expected = &'static str;

/// Why text is not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// Byte offset of the first byte that does not fit.
    pub(crate) at: usize,
    /// What would have fitted.
    pub(crate) expected: Expected,
}

/// The inside of a string literal, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringSpan {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether the inside holds escapes, so that the text differs from the bytes.
    pub(crate) escaped: bool,
}

#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    /// The cursor: where the next byte is looked at, or the first that does not fit.
    pub(crate) at: usize,
    /// Whether a line break was met between tokens. It is legal JSON, but would cut a line in two.
    pub(crate) saw_line_break: bool,
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Whether `text` can stand between quotes as it is.
pub(crate) fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some(last) = bytes.last_chunk::<8>() else {
        return specials(short_word(bytes)) == 0;
    };
    // The last word may overlap the one before it.
    let marks = |word: &[u8; 8]| specials(u64::from_le_bytes(*word));
    bytes.as_chunks::<8>().0.iter().fold(marks(last), |all, word| all | marks(word)) == 0
}

/// Fewer than eight bytes as one word: each of them somewhere in it, and nothing else but spaces.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    bytes.iter().fold(u64::from_le_bytes(*b"        "), |word, byte| word << 8 | u64::from(*byte))
}

/// Marks (in the high bit of each byte) the first quote, backslash or control character of eight
/// bytes. Marks above the first one may be wrong; the first never is.
const fn specials(word: u64) -> u64 {
    // With their second bit turned, quotes and control characters are all that lies below 0x21.
    let low = (word ^ (LOW_BITS * 2)).wrapping_sub(LOW_BITS * 0x21);
    let backslashes = (word ^ (LOW_BITS * b'\\' as u64)).wrapping_sub(LOW_BITS);
    // A byte above 0x7f is neither, and the others have a high bit only if the subtraction made
    // one.
    (low | backslashes) & !word & HIGH_BITS
}

/// The number that eight digits make, the first of them lowest in the word; nothing if one is no
/// digit.
const fn eight_digits(word: u64) -> Option<u64> {
    let digits = word ^ (LOW_BITS * b'0' as u64);
    // What is no digit has a bit above the lowest four, or gets one by adding six.
    if (digits | digits.wrapping_add(LOW_BITS * 6)) & (LOW_BITS * 0xf0) != 0 {
        return None;
    }
    // Neighbours become pairs, pairs become fours, fours become the whole.
    let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000 << 32 | 1) >> 32)
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0, saw_line_break: false }
    }

    /// The text, of which nothing changes.
    #[inline]
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    /// The byte after the one at the cursor: the first of a name in quotes.
    #[inline]
    pub(crate) fn second(&self) -> u8 {
        self.bytes().get(self.at + 1).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn skip_whitespace(&mut self) {
        while let Some(byte) = self.peek() {
            if byte > b' ' {
                return;
            }
            match byte {
                b' ' | b'\t' => {}
                b'\n' | b'\r' => self.saw_line_break = true,
                _ => return,
            }
            self.at += 1;
        }
    }

    /// Moves past `literal` if it stands at the cursor.
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self, literal: &[u8; N]) -> bool {
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        if rest.first_chunk() != Some(literal) {
            return false;
        }
        self.at += N;
        true
    }

    /// Moves past a whole number below 2^53 written with digits alone, if a value ends right after
    /// it.
    #[inline]
    pub(crate) fn take_integer(&mut self) -> Option<u64> {
        let mut at = self.at;
        let mut number = 0u64;
        // Timestamps have thirteen digits.
        let first = self.bytes().get(at..at + 8).and_then(|bytes| bytes.first_chunk());
        if let Some(eight) = first.and_then(|bytes| eight_digits(u64::from_le_bytes(*bytes))) {
            (number, at) = (eight, at + 8);
        }
        while let Some(digit @ b'0'..=b'9') = self.bytes().get(at).copied() {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            at += 1;
        }
        let digits = at - self.at;
        let plain = (1..=15).contains(&digits) && (digits == 1 || self.bytes()[self.at] != b'0');
        if !plain || !matches!(self.bytes().get(at), Some(b',' | b'}' | b' ')) {
            return None;
        }
        self.at = at;
        Some(number)
    }

    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, expected: Expected) -> Result<(), Expected> {
        if self.peek() != Some(byte) {
            return Err(expected);
        }
        self.at += 1;
        Ok(())
    }

    /// The end of the text, after optional whitespace.
    pub(crate) fn end(&mut self) -> Result<(), Expected> {
        self.skip_whitespace();
        if self.at == self.bytes().len() { Ok(()) } else { Err("nothing more after the value") }
    }

    /// A string literal at the cursor.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Result<StringSpan, Expected> {
        let start = self.at + 1;
        let escaped = self.skip_string()?;
        Ok(StringSpan { start, end: self.at - 1, escaped })
    }

    /// Moves behind the string literal at the cursor; returns whether it holds escapes.
    #[inline]
    fn skip_string(&mut self) -> Result<bool, Expected> {
        self.expect(b'"', "a string")?;
        // Mostly the next special character is the closing quote.
        let mut rest = self.bytes().get(self.at..).unwrap_or_default();
        while let Some((chunk, behind)) = rest.split_first_chunk::<8>() {
            let marks = specials(u64::from_le_bytes(*chunk));
            if marks == 0 {
                rest = behind;
                continue;
            }
            let end = self.bytes().len() - rest.len() + marks.trailing_zeros() as usize / 8;
            if self.bytes().get(end) == Some(&b'"') {
                self.at = end + 1;
                return Ok(false);
            }
            break;
        }
        self.rest_of_string()
    }

    /// The rest of a string literal that has escapes, or whose end is near the end of the text.
    #[cold]
    #[inline(never)]
    fn rest_of_string(&mut self) -> Result<bool, Expected> {
        let mut escaped = false;
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return Err("no control character inside a string"),
                None => return Err("the closing quote of a string"),
            }
        }
    }

    /// Moves to the next quote, backslash or control character.
    #[inline]
    fn skip_plain(&mut self) {
        let mut rest = self.bytes().get(self.at..).unwrap_or_default();
        while let Some((chunk, behind)) = rest.split_first_chunk::<8>() {
            let marks = specials(u64::from_le_bytes(*chunk));
            if marks != 0 {
                self.at = self.bytes().len() - rest.len() + marks.trailing_zeros() as usize / 8;
                return;
            }
            rest = behind;
        }
        self.at = self.bytes().len() - rest.len();
        self.at += (specials(self.last_word()).trailing_zeros() as usize / 8).min(rest.len());
    }

    /// The fewer than eight bytes that are left, and zeroes behind them.
    #[inline]
    fn last_word(&self) -> u64 {
        let rest = &self.bytes()[self.at..];
        match self.bytes().last_chunk::<8>() {
            Some(last) if !rest.is_empty() => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
            _ => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        }
    }

    fn escape(&mut self) -> Result<(), Expected> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err("four hexadecimal digits after \\u");
                    }
                    self.at += 1;
                }
            }
            _ => return Err("one of \" \\ / b f n r t u after a backslash"),
        }
        Ok(())
    }

    /// Moves behind any value at the cursor, or after whitespace there.
    pub(crate) fn value(&mut self, depth: u32) -> Result<(), Expected> {
        // One bit per open level: 1 for an object, 0 for an array. DEPTH_MAX is the width of this
        // integer.
        let mut levels: u128 = 0;
        let mut open = 0u32;
        'value: loop {
            self.skip_whitespace();
            match self.peek() {
                Some(b'"') => {
                    self.skip_string()?;
                }
                Some(bracket @ (b'{' | b'[')) => {
                    if open + depth >= DEPTH_MAX {
                        return Err("at most 128 levels of nesting");
                    }
                    self.at += 1;
                    open += 1;
                    levels = (levels << 1) | u128::from(bracket == b'{');
                    self.skip_whitespace();
                    let empty = if bracket == b'{' { b'}' } else { b']' };
                    if self.peek() != Some(empty) {
                        if bracket == b'{' {
                            self.skip_name()?;
                        }
                        continue 'value;
                    }
                    self.at += 1;
                    open -= 1;
                    levels >>= 1;
                }
                Some(b't') => self.word("true")?,
                Some(b'f') => self.word("false")?,
                Some(b'n') => self.word("null")?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                _ => return Err("a value"),
            }
            // A value just ended: close levels until one goes on.
            loop {
                if open == 0 {
                    return Ok(());
                }
                self.skip_whitespace();
                let in_object = levels & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if in_object {
                            self.skip_whitespace();
                            self.skip_name()?;
                        }
                        continue 'value;
                    }
                    Some(b'}') if in_object => {}
                    Some(b']') if !in_object => {}
                    _ if in_object => return Err("a comma or the end of the object"),
                    _ => return Err("a comma or the end of the array"),
                }
                self.at += 1;
                open -= 1;
                levels >>= 1;
            }
        }
    }

    /// `"name" :` at the cursor.
    #[inline]
    pub(crate) fn member_name(&mut self) -> Result<StringSpan, Expected> {
        if self.peek() != Some(b'"') {
            return Err("a member name in quotes");
        }
        let name = self.string()?;
        self.colon()?;
        Ok(name)
    }

    /// The same, for whoever does not ask which.
    #[inline]
    fn skip_name(&mut self) -> Result<(), Expected> {
        if self.peek() != Some(b'"') {
            return Err("a member name in quotes");
        }
        self.skip_string()?;
        self.colon()
    }

    #[inline]
    fn colon(&mut self) -> Result<(), Expected> {
        self.skip_whitespace();
        self.expect(b':', "a colon after the member name")
    }

    fn word(&mut self, word: &'static str) -> Result<(), Expected> {
        if !self.bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err("true, false or null");
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Expected> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.skip_digits(),
            _ => return Err("a digit"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Expected> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err("a digit");
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }
}

/// Whether `text` is one JSON value that may stand inside so many objects and arrays; the flag says
/// whether line breaks stand between its tokens.
pub(crate) fn check(text: &str, depth: u32) -> Result<bool, Syntax> {
    let mut scanner = Scanner::new(text);
    match scanner.value(depth).and_then(|()| scanner.end()) {
        Ok(()) => Ok(scanner.saw_line_break),
        Err(expected) => Err(Syntax { at: scanner.at, expected }),
    }
}

/// Whether JSON nests so deeply that it cannot stand inside so many objects and arrays of a
/// message.
pub fn is_too_deep(text: &str, depth: u32) -> bool {
    // `[` and `{` differ in one bit.
    let is_opening = |byte: &&u8| **byte | 0x20 == b'{';
    // As many brackets as levels at least, so most texts need no closer look.
    let openings = text.as_bytes().iter().filter(is_opening).count();
    openings + depth as usize > DEPTH_MAX as usize && check(text, depth).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    fn serde_accepts(text: &str) -> bool {
        // A raw value, because that is the promise: text that can be spliced. Nesting is bounded at
        // another depth there, so the generators below stay shallow.
        serde_json::from_str::<&RawValue>(text).is_ok()
    }

    #[test]
    fn nesting_beyond_the_bound_is_refused_and_within_it_accepted() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(check(&nested(DEPTH_MAX as usize), 0).is_ok());
        assert!(check(&nested(DEPTH_MAX as usize + 1), 0).is_err());
        assert!(check(&"[".repeat(1_000_000), 0).is_err());
    }

    #[test]
    fn specials_are_found_at_every_place_of_a_word() {
        for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for place in 0..8 {
                let mut word = *b"abcdefgh";
                word[place] = special;
                let marks = specials(u64::from_le_bytes(word));
                assert_eq!(marks.trailing_zeros() as usize / 8, place);
            }
        }
        assert_eq!(specials(u64::from_le_bytes([0xff, 0x80, 0x20, b'!', b'#', b'[', b']', 0x7f])), 0);
    }

    #[test]
    fn integers_are_read_as_they_are_written() {
        let read = |text: &str| Scanner::new(text).take_integer();
        for number in (0..16).flat_map(|power| {
            let ten = 10u64.pow(power) % 1_000_000_000_000_000;
            [ten.saturating_sub(1), ten, ten + 7, 123_456_789_012_345 % ten.max(1)]
        }) {
            assert_eq!(read(&format!("{number},")), Some(number));
            assert_eq!(read(&format!("{number}}}     ")), Some(number));
        }
        for text in
            ["", "1", "x,", "01,", "12345678", "1234567x,", "12345:78,", "123456789012345678,", "1.5,"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn text_is_plain_unless_a_special_stands_anywhere_in_it() {
        for length in 0..=24 {
            let plain = "x".repeat(length);
            assert!(is_plain(&plain));
            for (place, special) in
                (0..length).flat_map(|place| ["\"", "\\", "\n"].map(|special| (place, special)))
            {
                assert!(!is_plain(&format!("{}{special}{}", &plain[..place], &plain[place + 1..])));
            }
        }
    }

    fn fragment() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("{".to_owned()),
            Just("}".to_owned()),
            Just("[".to_owned()),
            Just("]".to_owned()),
            Just(",".to_owned()),
            Just(":".to_owned()),
            Just("\"a\"".to_owned()),
            Just("\"\\u00e9\\n\"".to_owned()),
            Just("\"é\"".to_owned()),
            Just("\"\\x\"".to_owned()),
            Just("-0.5e+3".to_owned()),
            Just("01".to_owned()),
            Just("1.".to_owned()),
            Just("true".to_owned()),
            Just("nul".to_owned()),
            Just("null".to_owned()),
            Just(" \t\n".to_owned()),
            "[ -~]{0,3}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn accepts_exactly_what_serde_json_accepts(fragments in prop::collection::vec(fragment(), 0..12)) {
            let text = fragments.concat();
            prop_assert_eq!(check(&text, 0).is_ok(), serde_accepts(&text), "{}", text);
        }

        #[test]
        fn accepts_every_value_that_serde_json_writes(seed in any::<u64>()) {
            let value = sample(seed, 0);
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                prop_assert!(check(&text, 0).is_ok(), "{}", text);
            }
        }
    }

    fn sample(seed: u64, depth: u32) -> serde_json::Value {
        let next = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        match (next >> 33) % if depth > 4 { 5 } else { 7 } {
            0 => serde_json::Value::Null,
            1 => (next & 1 == 0).into(),
            2 => (next as i64).into(),
            3 => ((next >> 11) as f64 / 7.0).into(),
            4 => format!("s\"\\\n{}é", next % 97).into(),
            5 => (0..next % 4).map(|i| sample(next ^ i, depth + 1)).collect(),
            _ => (0..next % 4).map(|i| (format!("k{i}\""), sample(next ^ (i << 7), depth + 1))).collect(),
        }
    }
}
