//! Which types of others are sent away: what nodes share, what this node wants of it, and what it
//! does not serve itself.

use crate::machine::Uplink;
use crate::sharing::nodes::Nodes;
use crate::sharing::share::{Share, SharedManifest, request_kind};
use crate::wire::names::fits;
use mainspring_kernel::schema::narrow;
use mainspring_kernel::{
    ActorLimits, Kernel, Level, Manifest, Now, Redeliver, RestartPolicy, RetryPolicy, TypeNotes,
};
use mainspring_message::Kind;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What the ids of imported capabilities begin with.
pub const IMPORT_PREFIX: &str = "uplink:";
/// Capabilities that are imported at once. Beyond: they are not, and that is told.
const IMPORTS_MAX: usize = 1024;
/// Manifests that are remembered by their hash.
const MANIFESTS_MAX: usize = 2048;
/// Where the journal keeps what was imported last.
const STORE: &str = "uplink.imports";
/// How long a manifest that was asked for is waited for.
const ASK_AGAIN_NS: i64 = 2_000_000_000;
/// An imported capability is never unhealthy for good, and is not restarted in vain.
const RESTART_WINDOW_MS: u64 = 60_000;

/// A change of the capabilities that the kernel is to know of.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportChange {
    /// This is imported from now on, or is imported as something else.
    Set(Box<Manifest>),
    /// The capability of this id is not imported any more.
    Remove(String),
}

/// One imported capability.
#[derive(Clone, Debug)]
pub(crate) struct Import {
    pub(crate) hash: String,
    pub(crate) partition_by: Option<String>,
    /// What the kernel knows of it.
    pub(crate) manifest: Manifest,
    /// The nodes that can be sent to, by name.
    pub(crate) nodes: Vec<Rc<str>>,
    /// Those of them where commands survive.
    pub(crate) durable_nodes: Vec<Rc<str>>,
    /// Whether a node that shares it is silent. NATS may still think that it is there, and give it
    /// requests: so one that is there is chosen here.
    pub(crate) has_suspect: bool,
    /// Whether the kernel has it.
    pub(crate) is_adopted: bool,
}

/// All of them, by the id that the capability has on its nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Imports {
    pub(crate) by_id: BTreeMap<String, Import>,
    manifests: BTreeMap<String, SharedManifest>,
    /// Kinds and types that this node serves itself.
    pub(crate) served_here: BTreeSet<(String, String)>,
    changes: Vec<ImportChange>,
    /// Manifests that were asked for, each with when.
    asked: BTreeMap<String, i64>,
}

/// What all nodes that are there say of one capability.
struct Offer<'a> {
    share: &'a Share,
    nodes: Vec<&'a Rc<str>>,
}

/// The offers of each capability, by hash.
fn offers(nodes: &Nodes) -> BTreeMap<&str, BTreeMap<&str, Offer<'_>>> {
    let mut all: BTreeMap<&str, BTreeMap<&str, Offer<'_>>> = BTreeMap::new();
    for (name, node) in nodes.iter().filter(|(_, node)| !node.is_silent && !node.parts) {
        for share in &node.shares {
            let of_id = all.entry(&share.id).or_default();
            of_id.entry(&share.hash).or_insert_with(|| Offer { share, nodes: Vec::new() }).nodes.push(name);
        }
    }
    all
}

impl Imports {
    /// What the kernel is to change since this was last asked.
    pub(crate) fn take_changes(&mut self) -> Vec<ImportChange> {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Import> {
        self.by_id.get(id)
    }

    /// Remembers what is behind a hash.
    pub(crate) fn note_manifest(&mut self, hash: &str, manifest: SharedManifest) {
        if self.manifests.len() < MANIFESTS_MAX {
            self.manifests.insert(hash.to_owned(), manifest);
        }
    }

    /// Whether a manifest may be asked for: it was not for a while.
    pub(crate) fn may_ask(&mut self, hash: &str, now_ns: i64) -> bool {
        self.asked.retain(|_, at_ns| now_ns.saturating_sub(*at_ns) < ASK_AGAIN_NS);
        if self.asked.contains_key(hash) || self.asked.len() >= MANIFESTS_MAX {
            return false;
        }
        self.asked.insert(hash.to_owned(), now_ns);
        true
    }

    /// The manifests that are wanted and not known, each with a node that has it.
    fn unknown(&self, nodes: &Nodes, patterns: &[String]) -> Vec<(Rc<str>, String)> {
        let mut unknown = Vec::new();
        for (id, by_hash) in offers(nodes) {
            for (hash, offer) in by_hash {
                if !self.manifests.contains_key(hash) && !self.wanted(id, offer.share, patterns).is_empty() {
                    unknown.push((Rc::clone(offer.nodes[0]), hash.to_owned()));
                }
            }
        }
        unknown
    }

    /// The kinds and types of an offer that are wanted here.
    fn wanted(&self, id: &str, share: &Share, patterns: &[String]) -> Vec<(Kind, String)> {
        let is_taken = |kind: &str, name: &str| {
            self.by_id.iter().any(|(other, import)| {
                other != id && handles(&import.manifest).any(|(its, of)| its.as_str() == kind && of == name)
            })
        };
        let wanted = share.types.iter().filter(|(kind, name)| {
            fits(patterns, name)
                && !self.served_here.contains(&(kind.clone(), name.clone()))
                && !is_taken(kind, name)
                && !crate::wire::names::is_reserved(name)
        });
        wanted.filter_map(|(kind, name)| Some((request_kind(kind)?, name.clone()))).collect()
    }
}

/// The kinds and types that an import's own manifest names.
fn handles(manifest: &Manifest) -> impl Iterator<Item = (Kind, &str)> {
    let branches = manifest.inbound["oneOf"].as_array();
    branches.into_iter().flatten().filter_map(|branch| {
        let of = &branch["properties"];
        Some((request_kind(of["kind"]["const"].as_str()?)?, of["type"]["const"].as_str()?))
    })
}

/// The manifest by which the kernel knows an imported capability.
fn import_manifest(
    shared: &SharedManifest,
    wanted: &[(Kind, String)],
    is_durable: bool,
    concurrency: u32,
) -> Option<Manifest> {
    let inbound = narrow(&shared.inbound, wanted.iter().map(|(kind, name)| (*kind, name.as_str())))?;
    let types = shared.types.iter().filter(|(name, _)| wanted.iter().any(|(_, wanted)| wanted == *name));
    let notes = types.map(|(name, notes)| {
        let notes: TypeNotes = serde_json::from_value(notes.clone()).unwrap_or_default();
        (name.clone(), notes)
    });
    let mut manifest = Manifest::new(
        format!("{IMPORT_PREFIX}{}", shared.id),
        format!("{} (on other nodes)", shared.description.trim()),
        inbound,
    );
    manifest.types = notes.collect();
    manifest.cancel = true;
    manifest.durable = is_durable;
    manifest.redeliver = Redeliver::Always;
    manifest.retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    manifest.restart = RestartPolicy {
        max_restarts: u32::MAX,
        window_ms: RESTART_WINDOW_MS,
        backoff_ms: 10,
        ..RestartPolicy::default()
    };
    manifest.limits = ActorLimits { concurrency, ..ActorLimits::default() };
    Some(manifest)
}

impl Uplink {
    /// Looks again at what others share, and at what is to be imported of it.
    pub(crate) fn review_imports(&mut self, kernel: &mut Kernel, now: Now) {
        self.is_changed = false;
        let mut problems: BTreeMap<Rc<str>, Vec<String>> = BTreeMap::new();
        let nodes = std::mem::take(&mut self.nodes);
        for import in self.imports.by_id.values_mut() {
            (import.nodes, import.durable_nodes) = (Vec::new(), Vec::new());
            import.has_suspect = nodes.has_silent(&import.hash);
        }
        for (id, by_hash) in offers(&nodes) {
            let Some((hash, offer)) = self.choose(id, &by_hash) else { continue };
            for (other, of) in by_hash.iter().filter(|(other, _)| **other != hash) {
                let text = format!("{id}: schema or partition_by {other} differs from {hash}, which is used");
                for node in &of.nodes {
                    problems.entry(Rc::clone(node)).or_default().push(text.clone());
                }
            }
            self.review_import(id, hash, offer, &nodes, kernel, now);
        }
        self.nodes = nodes;
        self.drop_imports_served_here(kernel, now);
        self.tell_problems(problems);
        self.want_manifests(now);
    }

    /// Asks for the manifests that are wanted and not known.
    pub(crate) fn want_manifests(&mut self, now: Now) {
        for (node, hash) in self.imports.unknown(&self.nodes, &self.settings.import) {
            self.ask_for_manifest(&node, &hash, now);
        }
    }

    /// Which of several that call themselves the same is used: the one that is imported already
    /// while anybody has it, else the one that most nodes have.
    fn choose<'a>(
        &self,
        id: &str,
        by_hash: &'a BTreeMap<&'a str, Offer<'a>>,
    ) -> Option<(&'a str, &'a Offer<'a>)> {
        let there = self.imports.get(id).and_then(|import| by_hash.get_key_value(import.hash.as_str()));
        let most =
            || by_hash.iter().max_by_key(|(hash, offer)| (offer.nodes.len(), std::cmp::Reverse(**hash)));
        there.or_else(most).map(|(hash, offer)| (*hash, offer))
    }

    fn review_import(
        &mut self,
        id: &str,
        hash: &str,
        offer: &Offer<'_>,
        nodes: &Nodes,
        kernel: &mut Kernel,
        now: Now,
    ) {
        let wanted = self.imports.wanted(id, offer.share, &self.settings.import);
        let usable: Vec<&Rc<str>> = offer
            .nodes
            .iter()
            .copied()
            .filter(|name| nodes.get(name).is_some_and(|node| node.is_usable()))
            .collect();
        let has_durable = |name: &Rc<str>| {
            let shares = nodes.get(name).map(|node| node.shares.as_slice()).unwrap_or_default();
            shares.iter().any(|share| share.id == id && share.durable)
        };
        // Commands survive here and there, or they do not.
        let is_durable = self.settings.has_journal && offer.nodes.iter().any(|name| has_durable(name));
        let is_durable = is_durable || self.imports.get(id).is_some_and(|import| import.manifest.durable);
        let Some(shared) = self.imports.manifests.get(hash) else { return };
        let Some(manifest) = import_manifest(shared, &wanted, is_durable, self.settings.concurrency) else {
            return;
        };
        let known = self.imports.by_id.get(id);
        if known.is_none() && self.imports.by_id.len() >= IMPORTS_MAX {
            return self.notice(
                Level::Warn,
                format!("{id} is not imported: there are {IMPORTS_MAX} imports already"),
            );
        }
        let is_new = known.is_none_or(|import| import.manifest != manifest);
        let is_adopted = known.is_some_and(|import| import.is_adopted) && !is_new;
        let import = Import {
            hash: hash.to_owned(),
            partition_by: shared.partition_by.clone(),
            nodes: usable.iter().map(|name| Rc::clone(name)).collect(),
            durable_nodes: usable
                .iter()
                .filter(|name| has_durable(name))
                .map(|name| Rc::clone(name))
                .collect(),
            has_suspect: nodes.has_silent(hash),
            manifest,
            is_adopted,
        };
        if is_new {
            let kept = json!({ "hash": import.hash, "shared": shared, "durable": is_durable, "types": offer.share.types });
            kernel.keep_value(STORE, id, Some(&kept.to_string()), now);
            self.imports.changes.push(ImportChange::Set(Box::new(import.manifest.clone())));
        }
        self.imports.by_id.insert(id.to_owned(), import);
    }

    /// What is served here by now is not imported.
    fn drop_imports_served_here(&mut self, kernel: &mut Kernel, now: Now) {
        let served = &self.imports.served_here;
        let mut gone = Vec::new();
        for (id, import) in &mut self.imports.by_id {
            let branches = import.manifest.inbound["oneOf"].as_array().cloned().unwrap_or_default();
            let is_served = |branch: &Value| {
                let of = &branch["properties"];
                let text = |value: &Value| value["const"].as_str().unwrap_or_default().to_owned();
                served.contains(&(text(&of["kind"]), text(&of["type"])))
            };
            let left: Vec<Value> = branches.iter().filter(|branch| !is_served(branch)).cloned().collect();
            if left.len() == branches.len() {
                continue;
            }
            if left.is_empty() {
                gone.push(id.clone());
            } else {
                import.manifest.inbound["oneOf"] = left.into();
                self.imports.changes.push(ImportChange::Set(Box::new(import.manifest.clone())));
            }
        }
        for id in gone {
            self.imports.by_id.remove(&id);
            kernel.keep_value(STORE, &id, None, now);
            self.imports.changes.push(ImportChange::Remove(format!("{IMPORT_PREFIX}{id}")));
        }
    }

    /// What an earlier run imported is there from the start, so that what it had accepted can go
    /// on. Gives the manifests.
    pub fn restore_imports<'a>(
        &mut self,
        kept: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Vec<Manifest> {
        let mut manifests = Vec::new();
        for (id, text) in kept {
            let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
            let Ok(shared) = serde_json::from_value::<SharedManifest>(value["shared"].clone()) else {
                continue;
            };
            let hash = value["hash"].as_str().unwrap_or_default().to_owned();
            let types = serde_json::from_value(value["types"].clone()).unwrap_or_default();
            let share =
                Share { id: id.to_owned(), hash: hash.clone(), types, partition_by: None, durable: false };
            let wanted = self.imports.wanted(id, &share, &self.settings.import);
            let is_durable = value["durable"].as_bool().unwrap_or(false);
            let Some(manifest) = import_manifest(&shared, &wanted, is_durable, self.settings.concurrency)
            else {
                continue;
            };
            manifests.push(manifest.clone());
            let partition_by = shared.partition_by.clone();
            self.imports.note_manifest(&hash, shared);
            let (nodes, durable_nodes) = (Vec::new(), Vec::new());
            let has_suspect = false;
            let import =
                Import { hash, partition_by, manifest, nodes, durable_nodes, has_suspect, is_adopted: true };
            self.imports.by_id.insert(id.to_owned(), import);
        }
        manifests
    }

    /// The kernel has taken a change over, or has refused it.
    pub fn adopted(&mut self, id: &str, result: Result<(), String>) {
        let Some(id) = id.strip_prefix(IMPORT_PREFIX) else { return };
        match result {
            Ok(()) => {
                if let Some(import) = self.imports.by_id.get_mut(id) {
                    import.is_adopted = true;
                }
            }
            Err(reason) => self.notice(Level::Warn, format!("{id} is not imported: {reason}")),
        }
    }

    fn tell_problems(&mut self, mut problems: BTreeMap<Rc<str>, Vec<String>>) {
        let mut told = Vec::new();
        for (name, node) in self.nodes.iter_mut() {
            let now = problems.remove(name).unwrap_or_default();
            for text in now.iter().filter(|text| !node.problems.contains(text)) {
                told.push(format!("node {name}: {text}"));
            }
            node.problems = now;
        }
        for text in told {
            self.notice(Level::Warn, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::share::share_of;
    use mainspring_kernel::schema::discover;

    /// What is imported is checked as fast as at home, and what it asks beyond its data is kept.
    #[test]
    fn an_import_asks_what_its_node_asks_and_no_more() {
        let inbound = json!({ "oneOf": [
            { "properties": { "kind": { "const": "command" }, "type": { "const": "Order.Place" },
                "data": { "$ref": "#/$defs/order" } } },
            { "properties": { "kind": { "const": "query" }, "type": { "const": "Order.Get" },
                "metadata": { "required": ["correlation"] } } },
        ], "$defs": { "order": { "type": "object", "required": ["item"] } } });
        let mut manifest = Manifest::new("orders", "Takes orders.", inbound);
        manifest.share = true;
        let (_, shared) = share_of(&manifest, false).unwrap();
        let wanted = [(Kind::Command, "Order.Place".to_owned()), (Kind::Query, "Order.Get".to_owned())];
        let import = import_manifest(&shared, &wanted, false, 1).unwrap();
        let pairs = discover(&import.inbound).unwrap();
        let of = |name: &str| &pairs.iter().find(|pair| pair.type_name == name).unwrap().validator;
        let place = of("Order.Place");
        assert!(place.has_shape() && !place.needs_metadata());
        assert!(place.check(r#"{"item":1}"#, "{}").is_ok() && place.check("{}", "{}").is_err());
        let get = of("Order.Get");
        assert!(get.check("1", r#"{"correlation":"w"}"#).is_ok() && get.check("1", "{}").is_err());
        assert_eq!(handles(&import).count(), 2);
    }
}
