//! `mainspring new capability NAME --mcp COMMAND`: the manifest of a capability whose program is a
//! server of the Model Context Protocol.

use crate::cli::models::helper;
use crate::cli::project::new::{NewPlace, failed, list_manifest, type_prefix, write_new};
use crate::cli::support::target::Failure;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs;

/// The manifest: it is made by a program, so it is JSON.
const MANIFEST_FILE: &str = "capability.json";
/// How many of the types are told.
const TYPES_SHOWN_MAX: usize = 12;

/// What the server offers, as a capability.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MadeFromServer {
    manifest: Value,
    types: Vec<Named>,
    left_out: Vec<String>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "type")]
    type_name: String,
    tool: String,
}

pub(super) fn write(place: &NewPlace, command: &[String]) -> Result<String, Failure> {
    let prefix = type_prefix(&place.name).map_err(Failure::Usage)?;
    let folder = place.dir.join(&place.name);
    if folder.exists() {
        return Err(Failure::Refused(format!("{} is there already, and stays as it is", folder.display())));
    }
    let settings = json!({ "id": place.name, "prefix": prefix, "command": rooted(command) });
    let made: MadeFromServer = serde_json::from_value(helper::ask("manifest", &settings)?)
        .map_err(|error| Failure::Refused(format!("the manifest cannot be read: {error}")))?;
    fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    let path = folder.join(MANIFEST_FILE);
    write_new(&path, &format!("{:#}\n", made.manifest)).map_err(|error| failed(&path, &error))?;
    let mut told = format!("wrote {}\n", path.display());
    let change = list_manifest(&place.dir, &folder, MANIFEST_FILE, &mut told)?;
    told += "\nIts tools are\n";
    for one in made.types.iter().take(TYPES_SHOWN_MAX) {
        told += &format!("  {}  ({})\n", one.type_name, one.tool);
    }
    if made.types.len() > TYPES_SHOWN_MAX {
        told += &format!("  and {} more: mainspring check\n", made.types.len() - TYPES_SHOWN_MAX);
    }
    for tool in &made.left_out {
        told += &format!("left out: {tool}, whose type another one has already\n");
    }
    told += "\nNext:\n";
    told += &change;
    told += &format!("  mainspring up &\n  mainspring describe {prefix}\n");
    Ok(told)
}

/// The command, with files of this folder named from the root: the capability runs in a folder of
/// its own.
fn rooted(command: &[String]) -> Vec<String> {
    let root = |word: &String| {
        let is_file = word.contains('/') && !word.contains("://") && fs::metadata(word).is_ok();
        let path = is_file.then(|| std::path::absolute(word).ok()).flatten();
        path.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| word.clone())
    };
    command.iter().map(root).collect()
}
