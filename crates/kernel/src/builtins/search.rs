//! `Syscall.Search`: types by words, the best first.

use super::notes::{Hints, Notes};
use super::{Answer, BUILTINS, Caller, Whole, read};
use crate::flow::refusal::Refusal;
use crate::kernel::Kernel;
use mainspring_message::{Envelope, Failure, Kind};
use serde::Deserialize;
use serde_json::{Value, json};

/// Types in one answer unless the request says otherwise, and at most.
const LIMIT_DEFAULT: u64 = 10;
const LIMIT_MAX: u64 = 100;
/// Words and bytes of a question that count.
const WORDS_MAX: usize = 16;
const TEXT_BYTES_MAX: usize = 1024;

/// What a word is worth where it is found.
const IN_NAME: u32 = 8;
const IN_TITLE: u32 = 6;
const IN_DESCRIPTION: u32 = 3;
const OF_CAPABILITY: u32 = 2;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchData {
    text: String,
    limit: Option<Whole>,
}

/// The words of a text in small letters; `Order.PlaceItem` has `order`, `place`, `item`.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for character in text.chars() {
        if !character.is_alphanumeric() || (character.is_uppercase() && was_small) {
            words.push(String::new());
        }
        was_small = character.is_lowercase() || character.is_numeric();
        if character.is_alphanumeric() {
            words.last_mut().into_iter().for_each(|word| word.extend(character.to_lowercase()));
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// How well words of a question fit a text: twice as well when they are the same as when one begins
/// the other.
fn fit(wanted: &[String], text: &str, worth: u32) -> u32 {
    let there = words(text);
    let each = wanted.iter().map(|word| {
        if there.contains(word) {
            2 * worth
        } else if there.iter().any(|other| {
            word.len() > 2 && (other.starts_with(&**word) || word.starts_with(&**other) && other.len() > 2)
        }) {
            worth
        } else {
            0
        }
    });
    each.sum()
}

impl Kernel {
    pub(super) fn search(&mut self, request: &Envelope, caller: Caller) -> Answer {
        let data: SearchData = read(request)?;
        if data.text.len() > TEXT_BYTES_MAX {
            return Err(Refusal::new(
                Failure::LimitExceeded,
                format!("data.text: longer than {TEXT_BYTES_MAX} bytes"),
            ));
        }
        let mut wanted = words(&data.text);
        wanted.truncate(WORDS_MAX);
        let limit = data.limit.map_or(LIMIT_DEFAULT, |Whole(limit)| limit.clamp(1, LIMIT_MAX)) as usize;
        let mut found: Vec<(u32, Value)> = Vec::new();
        let mut work = 0;
        for capability in self.actors.ids() {
            let Some((manifest, handles)) = self.actors.announced(capability) else { continue };
            for (kind, name) in handles.iter().filter(|(kind, _)| kind.is_request()) {
                if !self.may_see(caller.recipient, name) {
                    continue;
                }
                let notes = Notes::of(manifest, *kind, name);
                work += 16 * (name.len() + notes.description.len()) as u64;
                let whose = format!("{} {}", manifest.id, manifest.description);
                let score = fit(&wanted, name, IN_NAME)
                    + fit(&wanted, notes.title.unwrap_or_default(), IN_TITLE)
                    + fit(&wanted, notes.description, IN_DESCRIPTION)
                    + fit(&wanted, &whose, OF_CAPABILITY);
                if score > 0 {
                    let hints = notes.hints;
                    found.push((
                        score,
                        told(name, *kind, Some(&manifest.id), notes.description, hints, score),
                    ));
                }
            }
        }
        for entry in BUILTINS {
            let score =
                fit(&wanted, entry.type_name, IN_NAME) + fit(&wanted, entry.description, IN_DESCRIPTION);
            if let (Some(kind), 1..) = (entry.kinds.first(), score) {
                found.push((
                    score,
                    told(entry.type_name, *kind, None, entry.description, Hints::of(*kind, None), score),
                ));
            }
        }
        self.out.work += work;
        let total = found.len();
        // The first of equals is the one that comes first by name, in every run.
        found.sort_by(|(one, a), (other, b)| {
            other.cmp(one).then_with(|| a["type"].as_str().cmp(&b["type"].as_str()))
        });
        let types: Vec<Value> = found.into_iter().take(limit).map(|(_, item)| item).collect();
        Ok(json!({ "types": types, "total": total }).to_string())
    }
}

fn told(
    name: &str,
    kind: Kind,
    capability: Option<&str>,
    description: &str,
    hints: Hints,
    score: u32,
) -> Value {
    json!({
        "type": name, "kind": kind.as_str(), "capability": capability, "description": description,
        "hints": hints.told(), "score": score,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_into_words() {
        assert_eq!(
            words("Order.PlaceItem now, HTTP2-Server!"),
            ["order", "place", "item", "now", "http2", "server"]
        );
        assert!(words(" ,.").is_empty());
    }

    #[test]
    fn the_same_word_fits_better_than_a_beginning_and_others_do_not() {
        let wanted = words("add note");
        assert_eq!(fit(&wanted, "Notes.Add", 4), 8 + 4);
        assert_eq!(fit(&wanted, "Order.Place", 4), 0);
        assert_eq!(fit(&words("a"), "Address", 4), 0);
    }
}
