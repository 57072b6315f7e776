//! The keys of `mainspring.toml` and of manifests that are more than plain settings: a file for
//! each table, with how it becomes settings and what is checked on the way. (Tables that are
//! settings as they stand are in `settings/`.)
//!
//! `docs/reference/configuration.md` is made from these declarations.

pub(super) mod capability;
pub(super) mod listen;
pub(super) mod mcp;
pub(super) mod native;
pub(super) mod process;
pub(super) mod program;
#[cfg_attr(not(feature = "guests"), path = "no_wasm.rs")]
pub(super) mod wasm;

use mainspring_kernel::keys;
use mainspring_kernel::keys::KeyType;
use serde::de::{Deserialize, Deserializer, IgnoredAny};
use std::time::Duration;

/// How long a program may take to end unless its manifest says otherwise.
const GRACE_DEFAULT: Duration = Duration::from_secs(5);

keys! {
    /// `mainspring.toml`: what a daemon is to run. Every key may be left out. Relative paths begin
    /// at the folder of the file.
    pub(super) struct ConfigFile {
        /// Where clients connect, one table for each place. Absent: the Unix socket that the
        /// commands look for by themselves.
        listen: AnyTables = AnyTables;
        /// Capabilities that are code of the daemon. Absent: all of them.
        native: Option<Vec<String>> = None;
        /// Files with the manifests of capabilities, in TOML or JSON. `*`, `?` and `[abc]` in a
        /// name stand for other characters, `**` for any folders.
        manifests: Vec<String> = Vec::new();
        /// Capabilities whose manifests are written right here.
        capability: AnyTables = AnyTables;
        /// How capabilities are restarted whose own manifest does not say otherwise, key by key.
        restart: AnyTable = AnyTable;
    }
}

/// Declares types of values that are read by themselves, elsewhere.
macro_rules! read_elsewhere {
    ($($(#[$meta:meta])* $name:ident = $takes:literal;)*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(super) struct $name;

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                    IgnoredAny::deserialize(deserializer).map(|_| $name)
                }
            }

            impl KeyType for $name {
                fn takes() -> String {
                    $takes.into()
                }

                fn written(&self) -> Option<String> {
                    None
                }
            }
        )*
    };
}

read_elsewhere! {
    /// A table.
    AnyTable = "table";
    /// Any number of tables.
    AnyTables = "tables";
    /// A JSON Schema, or the path of a file that holds one.
    SchemaOrPath = "schema or path";
}
