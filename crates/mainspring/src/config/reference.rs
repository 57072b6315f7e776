//! The documentation of the configuration, made from the declarations of its keys.

use crate::config::keys::ConfigFile;
use crate::config::keys::capability::ManifestFile;
use crate::config::keys::listen::{ListenFile, TokenFile};
use crate::config::keys::mcp::McpFile;
use crate::config::keys::native::NativeFile;
use crate::config::keys::process::{ProcessFile, ProcessLimitsFile};
#[cfg(feature = "guests")]
use crate::config::keys::wasm::{WasmFile, WasmLimitsFile};
use crate::settings::{EachSection, Section, each_section};
use mainspring_kernel::keys::{Key, KeyDefault, Keys};
use mainspring_kernel::{ActorLimits, RestartPolicy, RetryPolicy};

const INTRODUCTION: &str = include_str!("reference.md");

/// The text of `docs/reference/configuration.md`.
#[must_use]
pub fn reference() -> String {
    let mut page = ReferencePage { text: String::from(INTRODUCTION.trim_end()) };
    page.text.push_str("\n\n## `mainspring.toml`\n");
    page.table(ConfigFile::ABOUT, top_level(), "Top level");
    page.keys::<ListenFile>("`[[listen]]`");
    page.keys::<TokenFile>("`[[listen.tokens]]`");
    page.keys::<RestartPolicy>("`[restart]`");
    each_section(&mut page);
    page.text.push_str("\n## Manifests\n");
    page.keys::<ManifestFile>("`[[capability]]`, or a file of its own");
    page.keys::<RetryPolicy>("`[retry]`");
    page.keys::<ActorLimits>("`[limits]` of a capability");
    page.text.push_str("\n## Programs\n");
    page.keys::<ProcessFile>("`[program]` with `process`");
    page.keys::<ProcessLimitsFile>("`[program.limits]` of a process");
    #[cfg(feature = "guests")]
    {
        page.keys::<WasmFile>("`[program]` with `wasm`");
        page.keys::<WasmLimitsFile>("`[program.limits]` of a guest");
    }
    page.keys::<McpFile>("`[program]` with `mcp`");
    page.keys::<NativeFile>("`[program]` with `native`");
    page.text
}

/// The keys of `mainspring.toml`, sections among them.
fn top_level() -> Vec<Key> {
    struct TopLevelKeys(Vec<Key>);

    impl EachSection for TopLevelKeys {
        fn section<S: Section>(&mut self) {
            self.0.push(Key {
                name: S::NAME,
                about: S::ABOUT.split("\n\n").next().unwrap_or_default(),
                takes: S::takes(),
                bounds: None,
                default: KeyDefault::Absent,
            });
        }
    }

    let mut names = TopLevelKeys(ConfigFile::keys());
    each_section(&mut names);
    names.0
}

struct ReferencePage {
    text: String,
}

impl EachSection for ReferencePage {
    fn section<S: Section>(&mut self) {
        self.keys::<S>(&format!("`[{}]`", S::NAME));
    }
}

impl ReferencePage {
    fn keys<T: Keys>(&mut self, heading: &str) {
        self.table(T::ABOUT, T::keys(), heading);
    }

    fn table(&mut self, about: &str, mut keys: Vec<Key>, heading: &str) {
        self.text.push_str(&format!(
            "\n### {heading}\n\n{}\n\n| key | takes | default | |\n| --- | --- | --- | --- |\n",
            lines(about)
        ));
        keys.sort_by_key(|key| key.name);
        for Key { name, about, takes, bounds, default } in &keys {
            let takes = match bounds {
                Some(bounds) => format!("{takes}, {bounds}"),
                None => takes.clone(),
            };
            let default = match default {
                KeyDefault::Needed => "needed".into(),
                KeyDefault::Absent => String::new(),
                KeyDefault::Value(value) => format!("`{value}`"),
            };
            self.text.push_str(&format!("| `{name}` | {takes} | {default} | {} |\n", one_line(about)));
        }
    }
}

/// A paragraph, broken where it is in the code.
fn lines(text: &str) -> String {
    text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
