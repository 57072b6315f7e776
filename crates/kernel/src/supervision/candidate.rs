//! A manifest that was read and found usable, on its way into the loop.

use crate::api::manifest::Manifest;
use crate::builtins;
use crate::flow::ingest::is_reserved;
use crate::flow::routes::{Handler, Outbound, Route};
use crate::kernel::Kernel;
use crate::keys::{KeyType, OutOfBounds};
use crate::schema::{Discovery, EnvelopeValidator, discover};
use hashbrown::HashMap;
use mainspring_message::{Kind, check_type_name};

/// A capability whose schemas were read.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) manifest: Manifest,
    inbound: Discovery,
    outbound: Outbound,
}

/// What a life of an actor is held to: its manifest, and what was read from it.
#[derive(Debug)]
pub(crate) struct Contract {
    pub(crate) manifest: Manifest,
    /// The kinds and types of `inbound`, as they are named on the wire.
    pub(crate) handles: Vec<(Kind, String)>,
    pub(crate) outbound: Outbound,
}

impl Candidate {
    /// Reads the schemas of a manifest.
    pub(crate) fn discover(manifest: Manifest) -> Result<Candidate, String> {
        let inbound = discover(&manifest.inbound)
            .map_err(|error| format!("the inbound schema of {}: {error}", manifest.id))?;
        let outbound = read_outbound(&manifest)?;
        Ok(Candidate { manifest, inbound, outbound })
    }
}

impl Kernel {
    /// Checks that every command and query has one handler, if the candidates come in and the routes of the capabilities
    /// for which `is_vacated` holds are free.
    pub(crate) fn check_claims(
        &self,
        candidates: &[&Candidate],
        is_vacated: impl Fn(u32) -> bool,
    ) -> Result<(), String> {
        let mut claimed: HashMap<(Kind, &str), &str, foldhash::fast::FixedState> = HashMap::default();
        for candidate in candidates {
            let id = candidate.manifest.id.as_str();
            for pair in candidate.inbound.iter().filter(|pair| pair.kind.is_request()) {
                let (kind, name) = (pair.kind, pair.type_name.as_str());
                if is_reserved(name) {
                    return Err(format!("{id} claims {kind}:{name}, which the loop keeps for itself"));
                }
                let there = match self.routes.route(kind, name).map(|route| route.handler) {
                    Some(Handler::Capability(first)) if is_vacated(first) => None,
                    Some(Handler::Capability(first)) => {
                        Some(self.actors[first as usize].manifest.id.as_str())
                    }
                    Some(Handler::Builtin(_)) => Some("the loop"),
                    None => None,
                };
                if let Some(first) = there.or_else(|| claimed.insert((kind, name), id)) {
                    return Err(format!("duplicate handler for {kind}:{name}: {first} and {id}"));
                }
            }
        }
        Ok(())
    }

    /// Adds the ways to a capability, whose claims were checked.
    pub(crate) fn add_routes(&mut self, capability: u32, candidate: Candidate) -> Contract {
        let Candidate { manifest, inbound, outbound } = candidate;
        let mut handles = Vec::new();
        for event in &manifest.subscribes {
            self.routes.add_subscriber(event, capability, None);
        }
        for pair in inbound {
            match pair.kind {
                Kind::Event => self.routes.add_subscriber(&pair.type_name, capability, Some(pair.validator)),
                Kind::Command | Kind::Query => {
                    let handler = Handler::Capability(capability);
                    let route = Route { handler, inbound: Some(pair.validator) };
                    let added = self.routes.add_handler(pair.kind, &pair.type_name, route);
                    debug_assert!(added.is_ok(), "the claims were checked");
                }
                // Outcomes come to whoever asked; listing them in a schema is allowed and needs no route.
                Kind::Reply | Kind::Error => {}
            }
            handles.push((pair.kind, pair.type_name));
        }
        Contract { manifest, handles, outbound }
    }

    /// Adds the ways to what the loop serves itself.
    pub(crate) fn add_builtin_routes(&mut self) {
        builtins::add_routes(&mut self.routes);
    }
}

/// Checks what a manifest says, but for its schemas.
pub(crate) fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    let id = &manifest.id;
    let wrong = |what: &str| Err(format!("the manifest of {id:?}: {what}"));
    if id.is_empty() || id.len() > 128 || id.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return wrong("id must be 1 to 128 characters without spaces");
    }
    if manifest.description.trim().is_empty() {
        return wrong("description must say what the capability does");
    }
    for event in &manifest.subscribes {
        if let Err(reason) = check_type_name(event) {
            return wrong(&format!("subscribes: {event:?}: {reason}"));
        }
    }
    for (table, found) in [
        ("limits", manifest.limits.out_of_bounds()),
        ("restart", manifest.restart.out_of_bounds()),
        ("retry", manifest.retry.out_of_bounds()),
    ] {
        if let Some(OutOfBounds { key, message }) = found.first() {
            return wrong(&format!("{table}.{key} {message}"));
        }
    }
    Ok(())
}

fn read_outbound(manifest: &Manifest) -> Result<Outbound, String> {
    let Some(schema) = &manifest.outbound else { return Ok(Outbound::Anything) };
    if let Ok(pairs) = discover(schema) {
        let pairs = pairs.into_iter().map(|pair| ((pair.kind, pair.type_name.into()), pair.validator));
        return Ok(Outbound::Pairs(pairs.collect()));
    }
    let whole = EnvelopeValidator::new(schema)
        .map_err(|error| format!("the outbound schema of {}: {error}", manifest.id))?;
    Ok(Outbound::Whole(Box::new(whole)))
}
