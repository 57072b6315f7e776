//! From one file to settings: every part is read, whatever is wrong with the others, so that one
//! look finds everything.

use crate::config::capabilities::Loader;
use crate::config::checks::{self, GuestCheck};
use crate::config::keys::{ConfigFile, listen};
use crate::config::report::{Sources, suggest};
use crate::config::text::{Node, Source, Value, decode};
use crate::settings::{EachSection, Listener, Section, Settings, each_section};
use crate::system::socket_path::default_socket_path;
use mainspring_kernel::keys::Keys;
use std::path::Path;
use std::rc::Rc;

/// The settings of a file; what is wrong is added to the problems.
pub(super) fn settings(
    path: &Path,
    guests: Option<&mut GuestCheck<'_>>,
    sources: &mut Sources,
) -> Option<Settings> {
    let (source, node) = sources.open(path)?;
    let own = own_keys(&node, &source, sources);
    // Its keys are read one by one below; this tells of those that are of the wrong type.
    let _: Option<ConfigFile> = sources.read(&own, &source);
    let listeners = match node.get("listen") {
        Some(listen) => listen::read(listen, &source, sources),
        None => Some(vec![Listener::Unix { path: default_socket_path() }]),
    };
    let mut loader = Loader::new(&node, &source, sources);
    loader.native(node.get("native"));
    loader.inline(node.get("capability"));
    loader.files(node.get("manifests"));
    let found = loader.finish();
    checks::kernel::verify(&found, sources);
    if let Some(check) = guests {
        checks::catalogue::verify(&found, sources);
        checks::guests::verify(&found, sources, check);
    }
    let capabilities = found.into_iter().map(|found| found.capability).collect();
    let mut settings = Settings::new(listeners.unwrap_or_default(), capabilities);
    each_section(&mut ReadSections { node: &node, source: &source, sources, settings: &mut settings });
    Some(settings)
}

/// The file without its sections, and without keys that nobody knows, which are told of.
fn own_keys(node: &Node, source: &Rc<Source>, sources: &mut Sources) -> Node {
    struct KnownKeys(Vec<&'static str>);

    impl EachSection for KnownKeys {
        fn section<S: Section>(&mut self) {
            self.0.push(S::NAME);
        }
    }

    let own: Vec<&str> = ConfigFile::keys().iter().map(|key| key.name).collect();
    let mut known = KnownKeys(own.clone());
    each_section(&mut known);
    for entry in node.entries().iter().filter(|entry| !known.0.contains(&entry.key.as_str())) {
        let message = format!("there is no key `{}` here; {}", entry.key, suggest(&entry.key, &known.0));
        sources.problem_at(source, &entry.key_span, message);
    }
    let entries = node.entries().iter().filter(|entry| own.contains(&entry.key.as_str()));
    Node { span: node.span.clone(), value: Value::Table(entries.cloned().collect()) }
}

struct ReadSections<'a> {
    node: &'a Node,
    source: &'a Rc<Source>,
    sources: &'a mut Sources,
    settings: &'a mut Settings,
}

impl EachSection for ReadSections<'_> {
    fn section<S: Section>(&mut self) {
        let Some(node) = self.node.get(S::NAME) else { return };
        let problems = &mut self.sources.problems;
        let Some(mut section) = decode::read::<S>(node, self.source, problems) else { return };
        self.sources.check_bounds(&section, node, self.source);
        if let Some(wrong) = section.contradiction() {
            let written = wrong.keys.iter().find_map(|key| node.get(key));
            self.sources.problem_at(self.source, &written.unwrap_or(node).span, wrong.message);
        }
        section.resolve(&|path| self.source.beside(path));
        *S::of(self.settings) = section;
    }
}
