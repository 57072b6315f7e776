//! The capabilities that a file names: native ones, those written in it, and those in files of
//! their own.

use crate::config::checks::keywords;
use crate::config::keys::capability::ManifestFile;
use crate::config::keys::{native, program};
use crate::config::patterns;
use crate::config::report::Sources;
use crate::config::text::{Node, Place, Source, Value, decode};
use crate::natives::{keeps_facts, native_names};
use crate::settings::{Capability, Program};
use mainspring_kernel::{Manifest, RestartPolicy, TypeNotes};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// A capability, and where everything about it stands.
#[derive(Debug)]
pub(super) struct FoundCapability {
    pub(super) capability: Capability,
    /// Its manifest, or what names it.
    pub(super) place: Place,
    pub(super) node: Node,
    /// Where its schemas stand; a native one has them in the daemon.
    pub(super) inbound: Option<(Rc<Source>, Node)>,
    pub(super) outbound: Option<(Rc<Source>, Node)>,
}

/// Collects the capabilities of one configuration.
pub(super) struct Loader<'a> {
    source: Rc<Source>,
    sources: &'a mut Sources,
    /// `restart` of the configuration, if it is sound.
    restart: Node,
    found: Vec<FoundCapability>,
    /// Manifests that were read, so that two patterns may name the same one.
    seen: Vec<PathBuf>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(config: &Node, source: &Rc<Source>, sources: &'a mut Sources) -> Loader<'a> {
        let restart = config.get("restart").cloned().unwrap_or_else(Node::empty);
        let sound: Option<RestartPolicy> = sources.read(&restart, source);
        let restart = if sound.is_some() { restart } else { Node::empty() };
        Loader { source: source.clone(), sources, restart, found: Vec::new(), seen: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<FoundCapability> {
        self.found
    }

    /// `native`: names of capabilities that are code of the daemon; all of them when it is absent.
    pub(super) fn native(&mut self, names: Option<&Node>) {
        let Some(names) = names else {
            let place = Place { source: self.source.clone(), span: 0..0 };
            native_names().for_each(|name| self.add_native(name, &place));
            return;
        };
        for node in names.elements() {
            let Value::Text(name) = &node.value else { continue };
            let place = Place { source: self.source.clone(), span: node.span.clone() };
            match native::check_name(name) {
                Ok(()) => self.add_native(name, &place),
                Err(message) => self.sources.problem(&place, message),
            }
        }
    }

    fn add_native(&mut self, name: &str, place: &Place) {
        let Some(capability) = crate::config::native(name) else { return };
        let place = place.clone();
        self.found.push(FoundCapability {
            capability,
            place,
            node: Node::empty(),
            inbound: None,
            outbound: None,
        });
    }

    /// `[[capability]]`: manifests in the configuration itself.
    pub(super) fn inline(&mut self, manifests: Option<&Node>) {
        let Some(manifests) = manifests else { return };
        if !matches!(manifests.value, Value::List(_)) {
            let message = "`capability` is a list of tables: write `[[capability]]`";
            return self.sources.problem_at(&self.source.clone(), &manifests.span, message);
        }
        for node in manifests.elements() {
            self.manifest(&self.source.clone(), node, None);
        }
    }

    /// `manifests`: patterns of files.
    pub(super) fn files(&mut self, patterns: Option<&Node>) {
        for node in patterns.map_or(&[][..], Node::elements) {
            let Value::Text(pattern) = &node.value else { continue };
            let place = Place { source: self.source.clone(), span: node.span.clone() };
            let files = match patterns::files(self.source.folder(), pattern) {
                Ok(files) => files,
                Err(error) => {
                    self.sources.problem(&place, format!("this is not a pattern: {}", error.msg));
                    continue;
                }
            };
            if files.is_empty() {
                let message = format!("no file matches {}", self.source.beside(pattern).display());
                // A folder that waits for its first capability is no mistake.
                match self.source.beside(patterns::fixed_folder(pattern)).is_dir() {
                    true => self.sources.warn(&place, message),
                    false => self.sources.problem(&place, message),
                }
            }
            for path in files {
                let path = self.source.beside(path);
                if self.seen.contains(&path) {
                    continue;
                }
                self.seen.push(path.clone());
                if let Some((source, node)) = self.sources.open_named(&path, &place) {
                    self.manifest(&source, &node, Some(path));
                }
            }
        }
    }

    fn manifest(&mut self, source: &Rc<Source>, node: &Node, path: Option<PathBuf>) {
        let file: Option<ManifestFile> = self.sources.read(node, source);
        let restart = match node.get("restart") {
            Some(own) => self.sources.read(&own.over(&self.restart), source),
            None => decode::read(&self.restart, source, &mut Vec::new()),
        };
        let inbound = self.schema(source, node, "inbound");
        let outbound = self.schema(source, node, "outbound");
        for (source, schema) in [&inbound, &outbound].into_iter().flatten() {
            keywords::verify(source, schema, self.sources);
        }
        let types = self.type_notes(source, node);
        let program = program::read(source, node, self.sources);
        let (Some(file), Some(restart), Some(program), Some(inbound)) = (file, restart, program, inbound)
        else {
            return;
        };
        let manifest = Manifest {
            id: file.id,
            description: file.description,
            inbound: inbound.1.to_json(),
            outbound: outbound.as_ref().map(|(_, schema)| schema.to_json()),
            subscribes: file.subscribes,
            types,
            cancel: file.cancel,
            operator: file.operator,
            uncaused: file.uncaused,
            durable: file.durable,
            redeliver: file.redeliver,
            durable_events: file.durable_events,
            share: file.share,
            share_events: file.share_events,
            partition_by: file.partition_by,
            keeps_facts: matches!(&program, Program::Native(name) if keeps_facts(name)),
            restart,
            retry: file.retry,
            limits: file.limits,
        };
        self.found.push(FoundCapability {
            capability: Capability { manifest, program, file: path },
            place: Place { source: source.clone(), span: node.span.clone() },
            node: node.clone(),
            inbound: Some(inbound),
            outbound,
        });
    }

    /// `types`: what is said about each type.
    fn type_notes(&mut self, source: &Rc<Source>, manifest: &Node) -> BTreeMap<String, TypeNotes> {
        let Some(node) = manifest.get("types") else { return BTreeMap::new() };
        serde_json::from_value(node.to_json()).unwrap_or_else(|error| {
            let place = Place { source: source.clone(), span: node.span.clone() };
            self.sources.problem(&place, format!("`types`: {error}"));
            BTreeMap::new()
        })
    }

    /// A schema that is written in the manifest, or in the file that it names.
    fn schema(&mut self, source: &Rc<Source>, manifest: &Node, key: &str) -> Option<(Rc<Source>, Node)> {
        let node = manifest.get(key)?;
        let place = Place { source: source.clone(), span: node.span.clone() };
        match &node.value {
            Value::Table(_) | Value::Bool(_) => Some((source.clone(), node.clone())),
            Value::Text(path) => self.sources.open_named(&source.beside(path), &place),
            Value::Null if key == "outbound" => None,
            _ => {
                self.sources.problem(&place, "expected a JSON Schema, or the path of a file with one");
                None
            }
        }
    }
}
