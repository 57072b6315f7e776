//! Reading the configuration again: which capabilities have changed, by what they say or by the
//! files of their programs.

use crate::settings::{Capability, Program, Settings};
use crate::system::file_stamp::FileStamp;
use mainspring_kernel::Change;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reads the settings anew, off the daemon's thread.
pub type SettingsReader = Arc<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// The files of a program as they were: the program itself, and every argument that is a file.
fn stamps(program: &Program) -> Vec<FileStamp> {
    match program {
        Program::Native(_) | Program::Uplink(_) => Vec::new(),
        Program::Guest(guest) => FileStamp::of_regular(&guest.module).into_iter().collect(),
        Program::Process(process) => {
            let words = process.command.iter().enumerate();
            // A bare name is looked up in PATH, so a file of that name in the folder is not the
            // program.
            let files = words.filter(|(at, word)| *at > 0 || word.contains('/'));
            files.filter_map(|(_, word)| FileStamp::of_regular(&process.folder.join(word))).collect()
        }
    }
}

/// A capability and how its files were.
pub(crate) type Stamped = (Capability, Vec<FileStamp>);

/// Every capability with the stamps of its files.
pub(crate) fn stamp(capabilities: Vec<Capability>) -> Vec<Stamped> {
    capabilities
        .into_iter()
        .map(|capability| {
            let stamps = stamps(&capability.program);
            (capability, stamps)
        })
        .collect()
}

/// What the kernel is to change so that `old` becomes `new`, each with what it leads to; nothing
/// where nothing has changed. Those that are `touched` are started anew in any case.
pub(crate) fn changes(
    old: &[&Stamped],
    new: &[Stamped],
    touched: &BTreeSet<String>,
) -> Vec<(Change, Option<Stamped>)> {
    let find_new = |id: &str| new.iter().any(|(capability, _)| capability.manifest.id == id);
    let removed = old
        .iter()
        .map(|(capability, _)| &capability.manifest.id)
        .filter(|id| !find_new(id))
        .map(|id| (Change::Remove(id.clone()), None));
    let rest = new.iter().filter_map(|stamped| {
        let (capability, stamp) = stamped;
        let manifest = &capability.manifest;
        let change = match old.iter().find(|(there, _)| there.manifest.id == manifest.id) {
            None => Change::Add(manifest.clone()),
            Some((there, _)) if there.manifest != *manifest => Change::Replace(manifest.clone()),
            Some((there, before)) if there.program != capability.program || before != stamp => {
                Change::Restart(manifest.id.clone())
            }
            Some(_) if touched.contains(&manifest.id) => Change::Restart(manifest.id.clone()),
            Some(_) => return None,
        };
        Some((change, Some(stamped.clone())))
    });
    removed.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ProcessLimits, ProcessProgram};
    use serde_json::json;
    use std::path::Path;
    use std::time::Duration;

    fn capability(id: &str, description: &str, folder: &Path) -> Capability {
        let manifest = json!({
            "id": id, "description": description,
            "inbound": { "properties": { "kind": { "const": "query" }, "type": { "const": "A.B" } } },
        });
        Capability {
            manifest: serde_json::from_value(manifest).expect("a manifest"),
            program: Program::Process(ProcessProgram {
                command: vec!["sh".into(), "it.sh".into()],
                is_mcp_server: false,
                folder: folder.to_owned(),
                environment: Vec::new(),
                limits: ProcessLimits::default(),
                grace: Duration::from_secs(1),
            }),
            file: None,
        }
    }

    #[test]
    fn only_what_has_changed_is_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("it.sh"), "one").expect("a file");
        let list = |parts: &[(&str, &str)]| {
            stamp(parts.iter().map(|(id, text)| capability(id, text, folder.path())).collect())
        };
        let old = list(&[("same", "x"), ("touched", "x"), ("edited", "x"), ("gone", "x")]);
        let old: Vec<&Stamped> = old.iter().collect();
        let names = |new: &[Stamped]| -> Vec<String> {
            changes(&old, new, &["touched".into()].into())
                .iter()
                .map(|(change, _)| match change {
                    Change::Add(manifest) => format!("add {}", manifest.id),
                    Change::Replace(manifest) => format!("replace {}", manifest.id),
                    Change::Restart(id) => format!("restart {id}"),
                    Change::Remove(id) => format!("remove {id}"),
                })
                .collect()
        };
        let new = list(&[("edited", "y"), ("touched", "x"), ("same", "x"), ("new", "x")]);
        assert_eq!(names(&new), ["remove gone", "replace edited", "restart touched", "add new"]);
        std::fs::write(folder.path().join("it.sh"), "three").expect("a file");
        let new = list(&[("edited", "x"), ("same", "x"), ("gone", "x")]);
        assert_eq!(names(&new), ["remove touched", "restart edited", "restart same", "restart gone"]);
    }
}
