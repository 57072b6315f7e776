//! One pass over JSON text, comparing it with a shape.
//!
//! The text was parsed before, so it is JSON; nothing here depends on that for more than the
//! quality of the answer. Every step returns nothing as soon as acceptance is not certain. Beyond
//! plain disagreement that is the case for what the library's values could not hold: lone
//! surrogates, numbers out of range, deep nesting.

use super::shape::{ArrayShape, Literal, ObjectShape, Property, Rules, Shape, types};

/// How deep values may nest before the library is asked (its reader gives up at 128).
const DEPTH_MAX: u32 = 100;
/// The longest number that surely lies within the range of a double, in bytes.
const NUMBER_BYTES_MAX: usize = 300;
/// The longest integer that surely fits an `i64`, in bytes.
const INTEGER_BYTES_MAX: usize = 18;

/// A cursor over JSON text.
pub(super) struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A string literal's inside, and whether it contains escapes.
struct Text<'a> {
    bytes: &'a [u8],
    escaped: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0 }
    }

    /// Whether the whole text is one value of this shape.
    pub(super) fn whole(mut self, shape: &Shape) -> bool {
        self.value(shape, 0).is_some() && {
            self.skip_space();
            self.at == self.bytes.len()
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self, shape: &Shape, depth: u32) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_space();
        let start = self.at;
        self.plain_value(shape, depth)?;
        if let Some(rules) = &shape.rules
            && (!rules.also.is_empty() || !rules.any.is_empty())
        {
            let end = self.at;
            self.combined(rules, start, depth)?;
            self.at = end;
        }
        Some(())
    }

    /// Looks at the same value again for each shape that it must have as well.
    #[cold]
    fn combined(&mut self, rules: &Rules, start: usize, depth: u32) -> Option<()> {
        for also in &rules.also {
            self.at = start;
            self.value(also, depth + 1)?;
        }
        for branches in &rules.any {
            let mut has_shape = |branch| {
                self.at = start;
                self.value(branch, depth + 1).is_some()
            };
            if !branches.iter().any(&mut has_shape) {
                return None;
            }
        }
        Some(())
    }

    fn plain_value(&mut self, shape: &Shape, depth: u32) -> Option<()> {
        let admits = |bit| (shape.types & bit != 0).then_some(());
        match self.peek()? {
            b'"' => {
                admits(types::STRING)?;
                let text = self.string()?;
                match &shape.rules {
                    Some(rules) => check_string(rules, &text),
                    None => Some(()),
                }
            }
            b'{' => {
                admits(types::OBJECT)?;
                no_literal(shape)?;
                match &shape.object {
                    Some(object) => self.object(object, depth),
                    None => self.object(&ANY_OBJECT, depth),
                }
            }
            b'[' => {
                admits(types::ARRAY)?;
                no_literal(shape)?;
                match &shape.array {
                    Some(array) => self.array(array, depth),
                    None => self.array(&ANY_ARRAY, depth),
                }
            }
            b't' => {
                admits(types::BOOLEAN)?;
                self.word(b"true")?;
                one_of(shape, &Literal::Boolean(true))
            }
            b'f' => {
                admits(types::BOOLEAN)?;
                self.word(b"false")?;
                one_of(shape, &Literal::Boolean(false))
            }
            b'n' => {
                admits(types::NULL)?;
                self.word(b"null")?;
                one_of(shape, &Literal::Null)
            }
            _ => self.number(shape),
        }
    }

    fn object(&mut self, shape: &ObjectShape, depth: u32) -> Option<()> {
        self.at += 1;
        let mut seen = 0_u64;
        // Where the next name is expected: most writers keep the order of the schema, or some other
        // order, each time.
        let mut hint = 0;
        self.skip_space();
        if self.peek()? == b'}' {
            self.at += 1;
            return (shape.required == 0).then_some(());
        }
        loop {
            self.skip_space();
            match self.name(&shape.properties, hint)? {
                Some(at) => {
                    seen |= 1 << at;
                    hint = at + 1;
                    self.value(&shape.properties[at].shape, depth + 1)?;
                }
                None => self.value(shape.additional.as_ref()?, depth + 1)?,
            }
            self.skip_space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return (seen & shape.required == shape.required).then_some(());
                }
                _ => return None,
            }
        }
    }

    fn array(&mut self, shape: &ArrayShape, depth: u32) -> Option<()> {
        self.at += 1;
        let mut count = 0;
        self.skip_space();
        if self.peek()? == b']' {
            self.at += 1;
        } else {
            loop {
                self.value(&shape.items, depth + 1)?;
                count += 1;
                self.skip_space();
                match self.peek()? {
                    b',' => self.at += 1,
                    b']' => {
                        self.at += 1;
                        break;
                    }
                    _ => return None,
                }
            }
        }
        (shape.count.0 <= count && count <= shape.count.1).then_some(())
    }

    /// Reads a name and its colon, and finds the property of that name, tried first at `hint`.
    #[inline]
    fn name(&mut self, properties: &[Property], hint: usize) -> Option<Option<usize>> {
        if let Some(Property { written: Some(written), .. }) = properties.get(hint)
            && self.bytes[self.at..].starts_with(written)
        {
            self.at += written.len();
            return Some(Some(hint));
        }
        let name = self.string()?;
        if name.escaped {
            return None;
        }
        self.skip_space();
        self.eat(b':')?;
        Some(properties.iter().position(|known| known.name.as_bytes() == name.bytes))
    }

    fn string(&mut self) -> Option<Text<'a>> {
        self.eat(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at = self.next_mark();
            match self.peek()? {
                b'"' => {
                    let bytes = self.bytes.get(start..self.at)?;
                    self.at += 1;
                    return Some(Text { bytes, escaped });
                }
                _ => {
                    escaped = true;
                    self.escape()?;
                }
            }
        }
    }

    /// The place of the next quote or backslash, or the end; eight bytes are looked at together.
    #[inline(always)]
    fn next_mark(&self) -> usize {
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        while let Some((chunk, behind)) = rest.split_first_chunk::<8>() {
            let marks = marks(u64::from_le_bytes(*chunk));
            if marks != 0 {
                return self.bytes.len() - rest.len() + (marks.trailing_zeros() / 8) as usize;
            }
            rest = behind;
        }
        // The last word has some of the bytes before in it, unless there are none.
        let word = match self.bytes.last_chunk::<8>() {
            Some(last) if !rest.is_empty() => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
            _ => short_word(rest),
        };
        self.bytes.len() - rest.len() + (marks(word).trailing_zeros() as usize / 8).min(rest.len())
    }

    /// Skips an escape, but not one of a surrogate: whether those pair up is for the library to
    /// say.
    fn escape(&mut self) -> Option<()> {
        let escape = self.bytes.get(self.at + 1)?;
        self.at += 2;
        if *escape == b'u' {
            let digits = self.bytes.get(self.at..self.at + 4)?;
            if matches!(digits[0], b'd' | b'D') && !matches!(digits[1], b'0'..=b'7') {
                return None;
            }
            self.at += 4;
        }
        Some(())
    }

    fn number(&mut self, shape: &Shape) -> Option<()> {
        let start = self.at;
        self.at += usize::from(self.peek()? == b'-');
        let digits = self.at;
        let mut value = 0_i64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            self.at += 1;
        }
        if self.at == digits {
            return None;
        }
        match self.peek() {
            Some(b'e' | b'E') => None,
            Some(b'.') => self.fraction(shape, start),
            _ => {
                let negative = digits > start;
                let value =
                    (self.at - digits <= INTEGER_BYTES_MAX).then_some(if negative { -value } else { value });
                check_integer(shape, value, self.at - start)
            }
        }
    }

    /// A number with a decimal point, accepted only where nothing is asked of it but to be a
    /// number.
    fn fraction(&mut self, shape: &Shape, start: usize) -> Option<()> {
        self.at += 1;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        let plain = !matches!(self.peek(), Some(b'e' | b'E')) && self.at - start <= NUMBER_BYTES_MAX;
        let asked = |rules: &Rules| rules.range.is_some() || rules.literals.is_some();
        let free = shape.types & types::FRACTION != 0 && !shape.rules.as_deref().is_some_and(asked);
        (plain && free).then_some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }
}

static ANY_OBJECT: ObjectShape =
    ObjectShape { properties: Vec::new(), required: 0, additional: Some(Shape::anything()) };
static ANY_ARRAY: ArrayShape = ArrayShape { items: Shape::anything(), count: (0, u64::MAX) };

/// Fewer than eight bytes as one word, the first of them lowest, and zeroes behind them.
#[cold]
#[inline(never)]
fn short_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Marks (in the high bit of each byte) the first quote or backslash of eight bytes. False marks
/// can only stand above the first true one, so the first mark counts.
#[inline]
fn marks(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let without = |byte: u8| (word ^ (ONES * u64::from(byte))).wrapping_sub(ONES);
    // A byte above 0x7f is neither, and the others have a high bit only if the subtraction made
    // one.
    (without(b'"') | without(b'\\')) & !word & HIGH
}

fn check_string(rules: &Rules, text: &Text<'_>) -> Option<()> {
    if rules.length.is_none() && rules.literals.is_none() {
        return Some(());
    }
    if text.escaped {
        return None;
    }
    if let Some((least, most)) = rules.length {
        // A character has one to four bytes: most lengths need no counting.
        let bytes = text.bytes.len() as u64;
        if bytes.div_ceil(4) < least || bytes > most {
            // Characters are counted by the bytes that begin one.
            let length = text.bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u64;
            if length < least || length > most {
                return None;
            }
        }
    }
    match &rules.literals {
        None => Some(()),
        Some(literals) => {
            let same =
                |literal: &Literal| matches!(literal, Literal::Text(known) if known.as_bytes() == text.bytes);
            literals.iter().any(same).then_some(())
        }
    }
}

/// Checks a number written without point or exponent; `value` is nothing if it may not fit.
fn check_integer(shape: &Shape, value: Option<i64>, bytes: usize) -> Option<()> {
    if shape.types & types::INTEGER == 0 || bytes > NUMBER_BYTES_MAX {
        return None;
    }
    let range = shape.rules.as_ref().and_then(|rules| rules.range);
    let needs_value = shape.types & types::FRACTION == 0 || shape.rules.is_some();
    if !needs_value {
        return Some(());
    }
    let value = value?;
    if let Some((least, most)) = range
        && (value < least || value > most)
    {
        return None;
    }
    one_of(shape, &Literal::Integer(value))
}

#[inline]
fn one_of(shape: &Shape, value: &Literal) -> Option<()> {
    match shape.rules.as_ref().and_then(|rules| rules.literals.as_ref()) {
        None => Some(()),
        Some(literals) => literals.contains(value).then_some(()),
    }
}

fn no_literal(shape: &Shape) -> Option<()> {
    shape.rules.as_ref().is_none_or(|rules| rules.literals.is_none()).then_some(())
}
