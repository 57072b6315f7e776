//! Writes the bridge into the configuration of a model's client.

use crate::cli::support::target::Failure;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A client whose configuration is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelClient {
    /// Claude Code: `.mcp.json` in the project.
    Claude,
    /// Cursor: `.cursor/mcp.json` in the project.
    Cursor,
    /// Visual Studio Code: `.vscode/mcp.json` in the project.
    Vscode,
    /// Codex: `config.toml` in `$CODEX_HOME`, or else in `~/.codex`.
    Codex,
}

/// The name of the server in configurations.
const NAME: &str = "mainspring";
/// The longest configuration that is changed.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// How a client starts the bridge.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The program.
    pub(super) command: String,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
}

impl Entry {
    /// As most clients want it.
    pub(super) fn json(&self) -> Value {
        json!({ "mcpServers": { NAME: self.server() } })
    }

    fn server(&self) -> Value {
        json!({ "command": self.command, "args": self.arguments })
    }
}

/// Writes an entry, and returns the file. What else the file holds stays as it is.
pub(super) fn install(
    client: ModelClient,
    entry: &Entry,
    folder: &Path,
    home: Option<&Path>,
) -> Result<PathBuf, Failure> {
    let path = match client {
        ModelClient::Claude => folder.join(".mcp.json"),
        ModelClient::Cursor => folder.join(".cursor/mcp.json"),
        ModelClient::Vscode => folder.join(".vscode/mcp.json"),
        ModelClient::Codex => codex_file(home)?,
    };
    let fault = |reason: String| Failure::Refused(format!("{}: {reason}", path.display()));
    let before = read(&path).map_err(fault)?;
    let after = match client {
        ModelClient::Claude | ModelClient::Cursor => change_json(&before, "mcpServers", entry.server()),
        ModelClient::Vscode => {
            let mut server = entry.server();
            server["type"] = json!("stdio");
            change_json(&before, "servers", server)
        }
        ModelClient::Codex => change_toml(&before, entry),
    };
    write(&path, &after.map_err(fault)?).map_err(fault)?;
    Ok(path)
}

fn codex_file(home: Option<&Path>) -> Result<PathBuf, Failure> {
    let own = std::env::var_os("CODEX_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = own.or_else(|| home.map(|home| home.join(".codex")));
    let unknown = || Failure::Refused("nobody knows where your home is: set HOME or CODEX_HOME".to_owned());
    Ok(folder.ok_or_else(unknown)?.join("config.toml"))
}

fn read(path: &Path) -> Result<String, String> {
    match fs::metadata(path) {
        Ok(about) if about.len() > FILE_BYTES_MAX => {
            return Err(format!("is longer than {FILE_BYTES_MAX} bytes"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error.to_string()),
    }
    fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Writes beside and renames: a configuration is never half written.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    // A link leads to the file that is meant.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut beside = target.clone().into_os_string();
    beside.push(format!(".{}.new", std::process::id()));
    let written = fs::write(&beside, text)
        .and_then(|()| match fs::metadata(&target) {
            Ok(about) => fs::set_permissions(&beside, about.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| fs::rename(&beside, &target));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        error.to_string()
    })
}

fn change_json(before: &str, member: &str, server: Value) -> Result<String, String> {
    let mut all: Map<String, Value> = match before.trim() {
        "" => Map::new(),
        text => serde_json::from_str(text).map_err(|error| {
            format!("is not a JSON object ({error}); add this by hand: {}", json!({ NAME: server }))
        })?,
    };
    let servers = all.entry(member).or_insert_with(|| json!({}));
    let Some(servers) = servers.as_object_mut() else { return Err(format!("{member} is not an object")) };
    servers.insert(NAME.to_owned(), server);
    serde_json::to_string_pretty(&all).map(|text| text + "\n").map_err(|error| error.to_string())
}

/// Codex has TOML. Its table is replaced as text, so that comments around it stay.
fn change_toml(before: &str, entry: &Entry) -> Result<String, String> {
    let header = format!("[mcp_servers.{NAME}]");
    if before.contains("mcp_servers = ") {
        return Err("has mcp_servers as an inline table; add the server there by hand".to_owned());
    }
    let mut kept = String::new();
    let mut is_ours = false;
    for line in before.lines() {
        let table = line.trim();
        if table.starts_with('[') {
            is_ours = table == header || table.starts_with(&format!("[mcp_servers.{NAME}."));
        }
        if !is_ours {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    let kept = kept.trim_end();
    let separator = if kept.is_empty() { "" } else { "\n\n" };
    // A text of JSON is one of TOML as well.
    let (command, arguments) = (json!(entry.command), json!(entry.arguments));
    Ok(format!("{kept}{separator}{header}\ncommand = {command}\nargs = {arguments}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            command: "/opt/mainspring".to_owned(),
            arguments: vec!["mcp".to_owned(), "--socket".to_owned()],
        }
    }

    #[test]
    fn what_else_a_configuration_holds_stays() {
        let before = r#"{ "other": 1, "mcpServers": { "files": { "command": "npx" }, "mainspring": { "command": "old" } } }"#;
        let after: Value =
            serde_json::from_str(&change_json(before, "mcpServers", entry().server()).unwrap()).unwrap();
        assert_eq!(after["other"], 1);
        assert_eq!(after["mcpServers"]["files"]["command"], "npx");
        assert_eq!(after["mcpServers"]["mainspring"]["command"], "/opt/mainspring");
        assert!(
            change_json("{ // a comment\n}", "mcpServers", entry().server()).unwrap_err().contains("by hand")
        );
    }

    #[test]
    fn the_table_of_codex_is_replaced_and_the_rest_stays() {
        let before = "# mine\nmodel = \"m\"\n\n[mcp_servers.mainspring]\ncommand = \"old\"\n\n[mcp_servers.mainspring.env]\nA = \"b\"\n\n[tui]\ntheme = \"x\"\n";
        let after = change_toml(before, &entry()).unwrap();
        assert!(
            after.starts_with("# mine\nmodel = \"m\"") && after.contains("[tui]\ntheme = \"x\""),
            "{after}"
        );
        assert!(!after.contains("old") && !after.contains("A = \"b\""), "{after}");
        assert_eq!(change_toml(&after, &entry()).unwrap(), after, "twice is once");
    }
}
