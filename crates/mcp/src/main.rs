//! The program that `mainspring mcp` starts. It is not for people: `mainspring mcp --help` is.
//!
//! - `serve FILE`: the bridge, with the settings in a file
//! - `adapter COMMAND...`: the program of a capability whose tools are those of an MCP server
//! - `manifest FILE`: asks an MCP server what it offers, and prints the manifest of the capability
//! - `version`: prints the version

use mainspring_mcp::{ManifestSettings, McpError, Settings, adapter, serve};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", file] => Settings::read(Path::new(file)).and_then(Settings::bridge).and_then(serve),
        ["manifest", file] => print_manifest(Path::new(file)),
        ["adapter", _, ..] => adapter::run(&arguments[1..]),
        ["version"] => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        _ => {
            eprintln!("mainspring-mcp: this is a part of `mainspring mcp`, which says how to use it");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mainspring: {error}");
            ExitCode::from(if is_without_daemon(&error) { 3 } else { 1 })
        }
    }
}

fn is_without_daemon(error: &McpError) -> bool {
    use mainspring_client::{ConnectError, Error};
    matches!(
        error,
        McpError::Daemon(Error::Connect(
            ConnectError::NoDaemon { .. } | ConnectError::Denied(_) | ConnectError::NotADaemon(_)
        ))
    )
}

fn print_manifest(file: &Path) -> Result<(), McpError> {
    let settings = ManifestSettings::read(file)?;
    let made = adapter::manifest(&settings.id, &settings.prefix, &settings.command)?;
    let types: Vec<_> = made.types.iter().map(|(name, tool)| json!({ "type": name, "tool": tool })).collect();
    println!("{}", json!({ "manifest": made.manifest, "types": types, "leftOut": made.left_out }));
    Ok(())
}
