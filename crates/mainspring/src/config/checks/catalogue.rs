//! What a capability does not tell about its types: their description, and what they reply with.
//! It works without, but completion, generated documents, the SDKs and language models have nothing
//! to go by.

use crate::config::capabilities::FoundCapability;
use crate::config::report::Sources;
use crate::settings::Program;
use mainspring_kernel::Manifest;
use mainspring_kernel::schema::{TypeSchema, discover};
use mainspring_message::Kind;

/// Types that are named in one warning.
const NAMED_MAX: usize = 4;

/// Warns of commands and queries that nothing describes, or whose reply nothing describes.
pub(in crate::config) fn verify(found: &[FoundCapability], sources: &mut Sources) {
    for one in found {
        // A native one has its schemas in the daemon, an MCP server gives its own.
        if !matches!(one.capability.program, Program::Process(_) | Program::Guest(_)) {
            continue;
        }
        let manifest = &one.capability.manifest;
        let Ok(pairs) = discover(&manifest.inbound) else { continue };
        let requests: Vec<(Kind, String)> = pairs
            .into_iter()
            .filter(|pair| pair.kind.is_request())
            .map(|pair| (pair.kind, pair.type_name))
            .collect();
        if let Some(names) = undescribed(manifest, &requests) {
            let message = format!(
                "nothing says what {names} is for; write a `description` into its branch of `inbound` or into `types`"
            );
            sources.warn(&one.place_of("inbound"), message);
        }
        if let Some(names) = without_reply(manifest, &requests) {
            let message = format!(
                "nothing says what {names} replies with; add a branch with kind `reply` and that type to `outbound`"
            );
            let key = if one.outbound.is_some() { "outbound" } else { "inbound" };
            sources.warn(&one.place_of(key), message);
        }
    }
}

/// The types without a description. That of the capability is enough for one that has a single
/// type.
fn undescribed(manifest: &Manifest, requests: &[(Kind, String)]) -> Option<String> {
    if requests.len() == 1 && !manifest.description.is_empty() {
        return None;
    }
    let is_silent =
        |(kind, name): &&(Kind, String)| manifest.type_description(*kind, name).is_none_or(str::is_empty);
    named(requests.iter().filter(is_silent))
}

/// The types whose reply has no schema.
fn without_reply(manifest: &Manifest, requests: &[(Kind, String)]) -> Option<String> {
    let has_schema = |name: &str| {
        let outbound = manifest.outbound.as_ref();
        outbound.is_some_and(|outbound| TypeSchema::find(outbound, Kind::Reply, name).is_some())
    };
    named(requests.iter().filter(|(_, name)| !has_schema(name)))
}

/// Types in words, each once; nothing if there is none.
fn named<'a>(types: impl Iterator<Item = &'a (Kind, String)>) -> Option<String> {
    let mut names: Vec<&str> = types.map(|(_, name)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(names.join(", ")),
        (false, more) => Some(format!("{} (and {more} more)", names.join(", "))),
    }
}
