//! For models and programs: `codegen`, `mcp` as far as this program goes by itself. What it goes on
//! as is tested by `sdk/mcp`.

use crate::fake::{command, stderr, stdout};
use crate::real::Real;
use serde_json::Value;
use std::process::Command;

#[test]
fn codegen_writes_modules_that_know_every_message() {
    let daemon = Real::start("");
    let told = daemon.ok(&["codegen", "--lang", "ts", "--out", "catalogue.ts"]);
    assert!(told.starts_with("wrote catalogue.ts: 4 commands and queries, 1 events"), "{told}");
    let text = std::fs::read_to_string(daemon.folder().join("catalogue.ts")).unwrap();
    let wanted = "  /** Returns the value of a key; 404 if there is none. */\n  \"Memory.Get\": {\n    kind: \"query\";\n    data: {\n      \"key\": string;\n    };\n    reply: {\n      \"value\": unknown;\n    };\n  };\n";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("\"change\": \"set\" | \"deleted\";"), "{text}");
    daemon.ok(&["codegen", "--lang", "python", "--out", "catalogue.py"]);
    let check = "import catalogue, typing; print(sorted(catalogue.MemoryListData.__optional_keys__), catalogue.typed(7))";
    let output = Command::new("python3").args(["-c", check]).current_dir(daemon.folder()).output().unwrap();
    assert_eq!(stdout(&output), "['after', 'limit', 'prefix'] 7\n", "{}", stderr(&output));
}

#[test]
fn mcp_install_writes_the_bridge_into_a_clients_configuration_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let before = r#"{ "mcpServers": { "files": { "command": "npx" } } }"#;
    std::fs::write(folder.path().join(".mcp.json"), before).unwrap();
    let words =
        ["mcp", "install", "claude", "--socket", "app.sock", "--allow", "Notes.*,Calendar.Day", "--operator"];
    let output = command(&words, folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(folder.path().join(".mcp.json")).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["mcpServers"]["files"]["command"], "npx");
    let arguments: Vec<&str> = written["mcpServers"]["mainspring"]["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(arguments[..2], ["mcp", "--socket"]);
    assert!(arguments[2].starts_with('/') && arguments[2].ends_with("/app.sock"), "{arguments:?}");
    assert_eq!(arguments[3..], ["--allow=Notes.*", "--allow=Calendar.Day", "--operator"]);
    for (client, file) in [("cursor", ".cursor/mcp.json"), ("vscode", ".vscode/mcp.json")] {
        let output =
            command(&["mcp", "install", client, "--socket", "app.sock"], folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            std::fs::read_to_string(folder.path().join(file)).unwrap().contains("\"mainspring\""),
            "{file}"
        );
    }
}

#[test]
fn mcp_install_knows_the_file_of_codex_and_print_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let install = |words: &[&str]| {
        let words = [&["mcp", "install", "--socket", "app.sock"], words].concat();
        let home = folder.path().join("home");
        let mut command = command(&words, folder.path());
        let output = command.env("HOME", home).env_remove("CODEX_HOME").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output).to_owned()
    };
    let printed: Value = serde_json::from_str(&install(&["--print", "--all"])).unwrap();
    assert_eq!(printed["mcpServers"]["mainspring"]["args"][3], "--all");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
    install(&["codex", "--tool", "remember=Memory.Set"]);
    let text = std::fs::read_to_string(folder.path().join("home/.codex/config.toml")).unwrap();
    assert!(text.starts_with("[mcp_servers.mainspring]\ncommand = \"/"), "{text}");
    assert!(text.contains("\"--tool=remember=Memory.Set\""), "{text}");
}

#[test]
fn mcp_by_http_needs_a_token_and_an_address_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let try_it = |address: &str, token: &str| {
        let words = ["mcp", "--socket", "app.sock", "--http", address];
        let output = command(&words, folder.path()).env("MAINSPRING_MCP_TOKEN", token).output().unwrap();
        (output.status.code(), stderr(&output).to_owned())
    };
    let (code, words) = try_it("127.0.0.1:0", "short");
    assert!(code == Some(2) && words.contains("--http needs a token of at least 16 bytes"), "{words}");
    let (code, words) = try_it("0.0.0.0:0", "a token that is long enough");
    assert!(code == Some(2) && words.contains("unencrypted"), "{words}");
}

#[test]
fn a_program_that_is_not_there_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(&["mcp", "--socket", "app.sock"], folder.path())
        .env("MAINSPRING_MCP", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = stderr(&output);
    assert!(words.contains("cargo install --locked --path crates/mcp"), "{words}");
    assert!(words.contains("cargo xtask mcp --release") && words.contains("MAINSPRING_MCP"), "{words}");
}
