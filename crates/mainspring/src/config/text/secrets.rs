//! Where secrets stand in the text of a file, sound or not: diagnostics quote that text, and end up
//! in logs.
//!
//! This reads less than TOML and JSON do, so that it finds tokens in a file that neither of them
//! can read: whatever follows the key `token`, and among `tokens` every text that is neither a name
//! nor a path.

use std::ops::Range;

/// The key of a secret, that of a list of them, and the keys beside it whose values are none.
const SECRET_KEY: &str = "token";
const LIST_KEY: &str = "tokens";
const PLAIN_KEYS: [&str; 2] = ["name", "token_file"];

/// What a secret is shown as, a character each.
const MASK: char = '*';

/// The places of secrets in a text, in order and apart from each other.
pub(in crate::config) fn places(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = keys(text, SECRET_KEY).filter_map(|at| value(text, at)).collect();
    for region in lists(text) {
        found.extend(texts(text, region));
    }
    found.sort_by_key(|place| place.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for place in found {
        match apart.last_mut() {
            Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
            _ => apart.push(place),
        }
    }
    apart
}

/// A piece of the text (`range` of it), with a mask in place of every secret.
pub(in crate::config) fn masked(text: &str, range: Range<usize>, secrets: &[Range<usize>]) -> String {
    let start = range.start;
    let mut secrets = secrets.iter().skip_while(|secret| secret.end <= start).peekable();
    let mask = |(at, c): (usize, char)| {
        while secrets.next_if(|secret| secret.end <= start + at).is_some() {}
        if secrets.peek().is_some_and(|secret| secret.start <= start + at) { MASK } else { c }
    };
    text[range].char_indices().map(mask).collect()
}

/// A message without the secrets that it may quote.
pub(in crate::config) fn masked_message(message: String, text: &str, secrets: &[Range<usize>]) -> String {
    let mut message = message;
    for secret in secrets.iter().filter_map(|place| text.get(place.clone())).filter(|secret| secret.len() > 3)
    {
        if message.contains(secret) {
            message = message.replace(secret, "***");
        }
    }
    message
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Where the values of a key begin: behind `key =` or `"key":`.
fn keys<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(key).filter_map(move |(at, _)| {
        let (before, after) = (&text[..at], &text[at + key.len()..]);
        if before.ends_with(is_word) || after.starts_with(is_word) {
            return None;
        }
        let rest = after.trim_start_matches(['"', '\'']).trim_start();
        let rest = rest.strip_prefix(['=', ':'])?.trim_start();
        Some(text.len() - rest.len())
    })
}

/// The value that begins here, without its quotes. One that has none, or no end, goes to the end of
/// its line.
fn value(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    if let Some(place) = quoted(text, at) {
        return Some(place);
    }
    // A list or a table is looked at by its own keys.
    if rest.starts_with(['[', '{']) {
        return None;
    }
    let end = rest.find(['\n', ',', '}', ']']).unwrap_or(rest.len());
    Some(at..at + rest[..end].trim_end().len())
}

/// The text in quotes that begins here.
fn quoted(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    for quotes in ["\"\"\"", "'''"] {
        if let Some(inside) = rest.strip_prefix(quotes) {
            let start = at + quotes.len();
            return Some(start..start + inside.find(quotes).unwrap_or(inside.len()));
        }
    }
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (offset, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return Some(at + 1..at + offset),
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            c if c == quote => return Some(at + 1..at + offset),
            _ => {}
        }
    }
    Some(at + 1..text.len())
}

/// The lists of tokens: `tokens = [...]`, and what follows `[[listen.tokens]]` up to the next
/// table.
fn lists(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = keys(text, LIST_KEY)
        .filter(|at| text[*at..].starts_with('['))
        .map(|at| at..end_of_list(text, at))
        .collect();
    for (at, _) in text.match_indices(LIST_KEY) {
        let line_start = text[..at].rfind('\n').map_or(0, |before| before + 1);
        let is_header = text[line_start..].trim_start().starts_with('[')
            && text[at + LIST_KEY.len()..].trim_start().starts_with(']');
        if is_header {
            let start = text[at..].find('\n').map_or(text.len(), |offset| at + offset);
            let end = text[start..].find("\n[").map_or(text.len(), |offset| start + offset);
            found.push(start..end);
        }
    }
    found
}

/// The end of the list that begins here, or of the text.
fn end_of_list(text: &str, start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '"' | '\'' => at = quoted(text, at).map_or(at, |place| place.end),
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += text[at..].chars().next().map_or(0, char::len_utf8);
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The texts in a list of tokens that may be secrets.
fn texts(text: &str, region: Range<usize>) -> Vec<Range<usize>> {
    let (mut at, mut found) = (region.start, Vec::new());
    while at < region.end {
        let Some(c) = text[at..].chars().next() else { break };
        let Some(place) = quoted(text, at) else {
            at += c.len_utf8();
            continue;
        };
        let before = text[..at]
            .trim_end()
            .strip_suffix(['=', ':'])
            .map(|before| before.trim_end().trim_end_matches(['"', '\'']));
        let is_plain = PLAIN_KEYS.iter().any(|key| {
            before.and_then(|before| before.strip_suffix(key)).is_some_and(|rest| !rest.ends_with(is_word))
        });
        at = place.end;
        // Over the quotes at its end, however many.
        let quotes: usize = text[at..].chars().take_while(|next| *next == c).take(3).count();
        let is_key = text[at + quotes..].trim_start().starts_with(['=', ':']);
        if !is_plain && !is_key {
            found.push(place);
        }
        at += quotes.max(1).min(text.len() - at);
        while !text.is_char_boundary(at) {
            at += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        masked(text, 0..text.len(), &places(text))
    }

    #[test]
    fn a_secret_is_masked_however_it_is_written_and_its_neighbours_are_not() {
        for (text, expected) in [
            ("token = \"abc\"", "token = \"***\""),
            ("token='a\\' # b", "token='**' # b"),
            ("token = \"a\\\"c\" x", "token = \"****\" x"),
            ("\"token\": \"abc\",", "\"token\": \"***\","),
            ("token = \"no end\nx = 1", "token = \"******\nx = 1"),
            ("token = bare, x", "token = ****, x"),
            ("token = 1234", "token = ****"),
            ("token = \"\"\"\nab\"\"\" x", "token = \"\"\"***\"\"\" x"),
            ("token_file = \"path\"", "token_file = \"path\""),
            ("tokenize = \"x\"", "tokenize = \"x\""),
            (
                "tokens = [{ name = 'ann', token_file = 'f', tokn = 'abc' }]",
                "tokens = [{ name = 'ann', token_file = 'f', tokn = '***' }]",
            ),
            ("tokens = ['abc', \"d]e\"] x = 'y'", "tokens = ['***', \"***\"] x = 'y'"),
            (
                "{\"tokens\": [{\"name\": \"ann\", \"tok\": \"abc\"}]}",
                "{\"tokens\": [{\"name\": \"ann\", \"tok\": \"***\"}]}",
            ),
            (
                "[[listen.tokens]]\nname = 'ann'\ntokn = 'abc'\n[log]\nlevel = 'x'",
                "[[listen.tokens]]\nname = 'ann'\ntokn = '***'\n[log]\nlevel = 'x'",
            ),
            ("tokens = [{ token = 'é", "tokens = [{ token = '*"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn a_message_does_not_quote_a_secret() {
        let text = "tokens = ['abcdef']";
        let message = masked_message("found the text \"abcdef\"".into(), text, &places(text));
        assert_eq!(message, "found the text \"***\"");
    }
}
