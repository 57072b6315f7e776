//! The members of an object that is known to be JSON, one by one, without building anything.

use crate::draft::Json;
use crate::scan::Scanner;
use crate::text::Text;

/// The members of the data of a message: names and values as they are written.
///
/// For whoever reads many objects that look alike. It ends early at a name that is written with
/// escapes, so whoever misses something asks a parser.
///
/// ```
/// use mainspring_message::{Json, Members};
///
/// let data = Json::parse(r#"{"key": "a", "value": [1, 2]}"#)?;
/// let mut members = Members::of(&data);
/// let (name, key) = members.next().unwrap();
/// assert_eq!((name, key.plain_string()), ("key", Some("a")));
/// assert_eq!(members.next().unwrap().1.text(), "[1, 2]");
/// # Ok::<(), mainspring_message::NotJson>(())
/// ```
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    /// What stands before the next member.
    before: u8,
}

/// The value of a member.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    text: &'a str,
    /// Whether it is a string without escapes.
    is_plain: bool,
}

impl<'a> Members<'a> {
    /// The members of an object; none of anything else.
    #[must_use]
    pub fn of(data: &'a Json) -> Members<'a> {
        Members::of_checked(data.as_str())
    }

    #[inline]
    pub(crate) fn of_checked(text: &'a str) -> Members<'a> {
        Members { text, scanner: Scanner::new(text), before: b'{' }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Member<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a str, Member<'a>)> {
        let Members { text, scanner, before } = self;
        scanner.skip_whitespace();
        scanner.expect(std::mem::replace(before, b','), "a member").ok()?;
        scanner.skip_whitespace();
        let name = scanner.member_name().ok().filter(|name| !name.escaped)?;
        scanner.skip_whitespace();
        let start = scanner.at;
        let is_plain = match scanner.peek() {
            Some(b'"') => !scanner.string().ok()?.escaped,
            _ => {
                scanner.value(1).ok()?;
                false
            }
        };
        Some((&text[name.start..name.end], Member { text: &text[start..scanner.at], is_plain }))
    }
}

impl<'a> Member<'a> {
    /// The JSON text.
    #[must_use]
    pub fn text(self) -> &'a str {
        self.text
    }

    /// The text of a string that is written without escapes; nothing if it is anything else.
    #[must_use]
    pub fn plain_string(self) -> Option<&'a str> {
        self.is_plain.then(|| &self.text[1..self.text.len() - 1])
    }

    /// The value by itself.
    #[must_use]
    pub fn to_json(self) -> Json {
        Json::from_checked(Text::from(self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, String)> {
        let data = Json::parse(text).unwrap();
        Members::of(&data).map(|(name, member)| (name.to_owned(), member.text().to_owned())).collect()
    }

    #[test]
    fn members_come_as_they_are_written() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(all("{}"), []);
        assert_eq!(
            all(r#" { "a" : 1 , "b": {"c": [1, "}"]} , "": "x\"y" } "#),
            [pair("a", "1"), pair("b", r#"{"c": [1, "}"]}"#), pair("", r#""x\"y""#)]
        );
        for other in ["1", "null", "[1, 2]", r#""{}""#] {
            assert_eq!(all(other), [], "{other}");
        }
        // One that is spelt with escapes is for a parser.
        assert_eq!(all(r#"{"a":1,"\u0062":2,"c":3}"#), [pair("a", "1")]);
    }

    #[test]
    fn only_a_string_without_escapes_is_plain() {
        let plain = |value: &str| {
            let data = Json::parse(&format!(r#"{{"a": {value} }}"#)).unwrap();
            let (_, member) = Members::of(&data).next().unwrap();
            assert_eq!(member.text(), value);
            member.plain_string().map(str::to_owned)
        };
        assert_eq!(plain(r#""a b""#).as_deref(), Some("a b"));
        assert_eq!(plain(r#""""#).as_deref(), Some(""));
        assert_eq!(plain(r#""a string of some length""#).as_deref(), Some("a string of some length"));
        for other in [r#""a\n""#, r#""some way to the escape \" here""#, "1", r#"["a"]"#, "null"] {
            assert_eq!(plain(other), None, "{other}");
        }
    }
}
