//! Whether the kernel will take the capabilities: each by itself, and all of them together.

use crate::config::capabilities::FoundCapability;
use crate::config::report::{Problem, Sources};
use crate::config::text::{Node, Place, Source};
use crate::settings::BootPhase;
use mainspring_kernel::schema::discover;
use mainspring_kernel::{BootPlan, Config, Effect, Kernel, Manifest, Now};
use mainspring_message::Kind;
use std::collections::HashMap;
use std::rc::Rc;

/// Adds what the kernel would refuse to the problems.
pub(in crate::config) fn verify(found: &[FoundCapability], sources: &mut Sources) {
    let mut ids: HashMap<&str, &FoundCapability> = HashMap::new();
    let mut handlers: HashMap<(Kind, String), &FoundCapability> = HashMap::new();
    let before = sources.problems.len();
    for one in found {
        let id = one.capability.manifest.id.as_str();
        if let Some(first) = ids.insert(id, one) {
            let message = format!("another capability has the id {id:?} too: {}", origin(first));
            sources.problem(&one.place_of("id"), message);
        }
        let Some(pairs) = verify_one(one, sources) else { continue };
        for pair in pairs.into_iter().filter(|(kind, _)| kind.is_request()) {
            let (kind, name) = pair.clone();
            match handlers.entry(pair) {
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(one);
                }
                std::collections::hash_map::Entry::Occupied(first) => {
                    let message = format!(
                        "{id} handles the {kind} {name}, but so does {}; a {kind} has one handler",
                        origin(first.get())
                    );
                    sources.problem_in(BootPhase::Build, &one.place_of("inbound"), message);
                }
            }
        }
    }
    // What nothing above foresaw must not be found out at the start.
    if sources.problems.len() == before {
        let all = found.iter().map(|one| one.capability.manifest.clone()).collect();
        if let (Err((phase, message)), Some(last)) = (boots(all), found.last()) {
            sources.problem_in(phase, &last.place, message);
        }
    }
}

/// The kinds and types of one capability, if the kernel would take it alone.
fn verify_one(one: &FoundCapability, sources: &mut Sources) -> Option<Vec<(Kind, String)>> {
    let manifest = &one.capability.manifest;
    let pairs = match discover(&manifest.inbound) {
        Ok(pairs) => pairs.into_iter().map(|pair| (pair.kind, pair.type_name)).collect(),
        Err(error) => {
            let place = one.place_in(one.inbound.as_ref(), &error.path);
            let message = format!("inbound, {}: {}", error.path, error.reason);
            sources.problem_in(BootPhase::Discover, &place, message);
            return None;
        }
    };
    if let Err((phase, message)) = boots(vec![manifest.clone()]) {
        let (key, message) = key_of(&message, manifest);
        let place = match (key.as_str(), &one.outbound) {
            ("outbound", outbound @ Some(_)) => one.place_in(outbound.as_ref(), pointer_in(&message)),
            _ => one.place_of(&key),
        };
        sources.problem_in(phase, &place, message);
        return None;
    }
    Some(pairs)
}

/// Boots a kernel up to where programs would be started; the phase and the complaint if it gets no
/// further.
fn boots(capabilities: Vec<Manifest>) -> Result<(), (BootPhase, String)> {
    let mut kernel = Kernel::new(Config::default(), 1);
    kernel.boot(BootPlan { capabilities, adapters: Vec::new() }, Now { mono_ns: 0, unix_ms: 0 });
    let mut effects = Vec::new();
    kernel.drain_effects(&mut effects);
    let report = effects.into_iter().find_map(|effect| match effect {
        Effect::BootFailed { report } => Some(report),
        _ => None,
    });
    let Some(report) = report else { return Ok(()) };
    let data: serde_json::Value = serde_json::from_str(report.data()).unwrap_or_default();
    let message = data["message"].as_str().unwrap_or("the kernel refuses it");
    let (name, text) = message.split_once(": ").unwrap_or(("", message));
    let phases = [BootPhase::Load, BootPhase::Discover, BootPhase::Build];
    let phase = phases.into_iter().find(|phase| phase.to_string() == name).unwrap_or_default();
    Err((phase, text.to_owned()))
}

/// The key of the manifest that a complaint is about (`limits.concurrency`, `outbound`), and the
/// complaint in fewer words.
fn key_of(message: &str, manifest: &Manifest) -> (String, String) {
    if let Some(text) = message.strip_prefix(&format!("the manifest of {:?}: ", manifest.id)) {
        let end = text.find([' ', ':']).unwrap_or(text.len());
        return (text[..end].to_owned(), text.to_owned());
    }
    let key = if message.starts_with("the outbound schema") { "outbound" } else { "inbound" };
    (key.to_owned(), message.to_owned())
}

/// The first JSON pointer in a text.
fn pointer_in(text: &str) -> &str {
    let start = text.find('#').unwrap_or(text.len());
    text[start..].split([':', ' ']).next().unwrap_or_default()
}

fn origin(found: &FoundCapability) -> String {
    let id = &found.capability.manifest.id;
    match &found.capability.file {
        Some(path) => format!("{id} in {}", path.display()),
        None if found.inbound.is_none() => format!("the native {id}"),
        None => {
            let Problem { path, line, .. } = Problem::at(&found.place, "");
            format!("{id} in {}, line {line}", path.display())
        }
    }
}

impl FoundCapability {
    /// Where the value of a dotted key of the manifest is, as far as the key is there.
    pub(in crate::config) fn place_of(&self, key: &str) -> Place {
        let node = self.node.at_key(key);
        let span = if std::ptr::eq(node, &self.node) { &self.place.span } else { &node.span };
        Place { source: self.place.source.clone(), span: span.clone() }
    }

    /// Where a node of a schema is.
    fn place_in(&self, schema: Option<&(Rc<Source>, Node)>, pointer: &str) -> Place {
        let Some((source, node)) = schema else { return self.place.clone() };
        Place { source: source.clone(), span: node.at_pointer(pointer).span.clone() }
    }
}
