//! Data written as items, as httpie does: `key=text`, `key:=json`, `key=@file`, `key:=@file`;
//! `a[b]=c` and `a[]=c` nest.

use crate::cli::support::input;
use crate::cli::support::target::Failure;
use serde_json::{Map, Value};
use std::path::Path;

/// Brackets of one key at most.
const DEPTH_MAX: usize = 16;

/// Whether a word of the command line is an item and not JSON: what begins like JSON is JSON.
pub(super) fn is_item(word: &str) -> bool {
    !word.starts_with(['{', '[', '"']) && word.contains('=')
}

/// What to write instead, where a text was refused that could have been a number, or another thing
/// of JSON: `reason` is that of the refusal.
pub(super) fn meant_as_json(items: &[String], reason: &str) -> String {
    let meant = items.iter().filter(|item| is_item(item)).find_map(|item| {
        let (key, text) = item.split_once('=').filter(|(key, _)| !key.ends_with(':'))?;
        let is_json = serde_json::from_str::<Value>(text).is_ok_and(|value| !value.is_string());
        let refused = format!(": {} is not of type ", Value::from(text));
        (is_json && reason.contains(&refused)).then_some((key, text))
    });
    meant.map_or(String::new(), |(key, text)| format!("; {key}={text} is a text, write {key}:={text}"))
}

/// The object that items make.
pub(super) fn object(items: &[String]) -> Result<String, Failure> {
    let mut whole = Value::Object(Map::new());
    for item in items {
        let wrong = |reason: &str| Failure::Usage(format!("{item:?}: {reason}"));
        if !is_item(item) {
            return Err(wrong("is no item; write key=text or key:=json, or all of the data as JSON"));
        }
        let (left, right) = item.split_once('=').unwrap_or((item, ""));
        let (key, is_json) = left.strip_suffix(':').map_or((left, false), |key| (key, true));
        let text = match right.strip_prefix('@') {
            Some(file) => input::of_file(Path::new(file))?,
            None => right.to_owned(),
        };
        let value = match is_json {
            true => serde_json::from_str(&text).map_err(|error| wrong(&format!("is not JSON: {error}")))?,
            false => Value::String(text),
        };
        place(&mut whole, &path(key).map_err(wrong)?, value).map_err(|reason| wrong(&reason))?;
    }
    Ok(whole.to_string())
}

/// Where an item goes: `a[b][]` is `a`, `b`, the end of a list.
fn path(key: &str) -> Result<Vec<Option<&str>>, &'static str> {
    let (name, mut rest) = key.split_at(key.find('[').unwrap_or(key.len()));
    if name.is_empty() {
        return Err("the key is missing");
    }
    let mut path = vec![Some(name)];
    while !rest.is_empty() {
        let inner = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (part, after) = inner.ok_or("a bracket of the key is not closed")?;
        path.push((!part.is_empty()).then_some(part));
        rest = after;
    }
    if path.len() > DEPTH_MAX { Err("the key has too many brackets") } else { Ok(path) }
}

fn place(into: &mut Value, path: &[Option<&str>], value: Value) -> Result<(), String> {
    let [part, rest @ ..] = path else {
        *into = value;
        return Ok(());
    };
    let inner = match part {
        Some(name) => {
            if into.is_null() {
                *into = Value::Object(Map::new());
            }
            let object = into.as_object_mut().ok_or("is a list and an object at once")?;
            if rest.is_empty() && object.contains_key(*name) {
                return Err(format!("{name} is given twice"));
            }
            object.entry(*name).or_insert(Value::Null)
        }
        None => {
            if into.is_null() {
                *into = Value::Array(Vec::new());
            }
            let list = into.as_array_mut().ok_or("is a list and an object at once")?;
            list.push(Value::Null);
            let last = list.len() - 1;
            &mut list[last]
        }
    };
    place(inner, rest, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(items: &[&str]) -> Result<String, String> {
        let items: Vec<String> = items.iter().map(ToString::to_string).collect();
        object(&items).map_err(|failure| failure.to_string())
    }

    #[test]
    fn text_and_json_make_an_object() {
        assert_eq!(
            made(&[
                "key=colour",
                "value:=[1, 2.50]",
                "note=a=b",
                "empty=",
                "deep[x][y]=1",
                "list[]=a",
                "list[]=b"
            ])
            .unwrap(),
            r#"{"deep":{"x":{"y":"1"}},"empty":"","key":"colour","list":["a","b"],"note":"a=b","value":[1,2.5]}"#
        );
    }

    #[test]
    fn a_text_that_could_have_been_a_number_is_told() {
        let told = |items: &[&str], reason: &str| {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            meant_as_json(&items, reason)
        };
        let reason = "Sys.SchemaError (422): data/by: \"1\" is not of type \"integer\"";
        assert_eq!(told(&["name=x", "by=1"], reason), "; by=1 is a text, write by:=1");
        for items in [&["name=x", "by=2"][..], &["by:=\"1\""], &["{\"by\": \"1\"}"], &[]] {
            assert_eq!(told(items, reason), "", "{items:?}");
        }
        assert_eq!(told(&["by=one"], "data/by: \"one\" is not of type \"integer\""), "");
    }

    #[test]
    fn an_item_may_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.json");
        std::fs::write(&path, "{\"a\": 1}").unwrap();
        let path = path.display();
        assert_eq!(made(&[&format!("x:=@{path}")]).unwrap(), r#"{"x":{"a":1}}"#);
        assert_eq!(made(&[&format!("x=@{path}")]).unwrap(), r#"{"x":"{\"a\": 1}"}"#);
        assert!(made(&["x=@/no/such/file"]).unwrap_err().contains("cannot read"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_words() {
        for (items, words) in [
            (&["=x"][..], "the key is missing"),
            (&["a:={"], "is not JSON"),
            (&["a[=1"], "not closed"),
            (&["a=1", "a=2"], "given twice"),
            (&["a=1", "a[b]=2"], "a list and an object at once"),
            (&["a=1", "word"], "is no item"),
        ] {
            let told = made(items).unwrap_err();
            assert!(told.contains(words) && told.contains(items.last().unwrap()), "{items:?}: {told}");
        }
        assert!(made(&[&format!("a{}=1", "[b]".repeat(100))]).unwrap_err().contains("too many brackets"));
    }

    #[test]
    fn json_is_told_from_items() {
        for json in ["{\"a\": \"x=y\"}", "[\"=\"]", "\"a=b\"", "12", "true", "-"] {
            assert!(!is_item(json), "{json}");
        }
        assert!(is_item("a=b") && is_item("a:=1"));
    }
}
