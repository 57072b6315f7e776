//! What is kept from the log and from children, and what nobody can put into the log.

use crate::support::{Daemon, eventually, mainspring, process, with_programs};
use serde_json::json;
use std::process::Command;

const TOKEN: &str = "0123456789abcdef-secret";

fn listen(more: &str) -> String {
    format!("[[listen]]\ntcp = \"127.0.0.1:0\"\ntokens = [{{ name = \"ann\", token = \"{TOKEN}\"{more} }}]\n")
}

#[test]
fn a_token_is_neither_in_the_report_of_a_boot_that_fails_nor_in_the_log_of_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mainspring.toml");
    std::fs::write(&file, listen(", nmae = 1")).unwrap();
    let up =
        mainspring().args(["up", "--json", "--socket", "s"]).current_dir(folder.path()).output().unwrap();
    for text in [String::from_utf8(up.stdout).unwrap(), String::from_utf8(up.stderr).unwrap()] {
        assert!(text.contains("nmae") && text.contains("mainspring.toml:3:"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    let daemon = Daemon::with_config(&listen(""));
    std::fs::write(daemon.path("mainspring.toml"), listen(", nmae = 1")).unwrap();
    daemon.signal("HUP");
    eventually("that is told", || daemon.log().contains("the configuration was not reloaded"));
    let log = daemon.log();
    assert!(log.contains("nmae") && log.contains("mainspring.toml:3:"), "{log}");
    assert!(!log.contains("secret"), "{log}");
    daemon.end();
}

#[test]
fn a_line_break_in_the_name_of_a_property_makes_no_line_of_the_log() {
    let program = r#"
import json, lib
m = next(lib.messages())
metadata = {'id': 'x', 'timestamp': 1, 'causation': m['metadata']['id']}
name = '\nFORGED by a line\r\x1b[2J\u2028\u0085'
print(json.dumps({'kind': 'reply', 'type': 'Evil.Ask', 'data': {name: 1}, 'metadata': metadata}), flush=True)
for m in lib.messages(): pass
"#;
    let outbound = "outbound = { properties = { data = { additionalProperties = { type = \"string\" } } } }";
    let config = process("evil", &["query:Evil.Ask"], &["python3", "evil.py"], outbound);
    let daemon = with_programs(&config, &[("evil.py", program)]);
    let mut client = daemon.connect();
    client.ask("query", "Evil.Ask", json!(1));
    eventually("the fault is told", || daemon.log().contains("FORGED"));
    let log = daemon.log();
    assert!(!log.lines().any(|line| line.starts_with("FORGED")), "{log}");
    let is_obeyed = |it: char| it != '\n' && (it.is_control() || it == '\u{2028}');
    assert!(!log.contains(is_obeyed), "{log}");
    daemon.end();
}

/// A module whose only function has this name, and traps.
fn trapping_module(name: &str) -> String {
    let section = |id: char, body: &str| format!("{id}{}{body}", body.len() as u8 as char);
    let names = section('\u{1}', &format!("\u{1}\0{}{name}", name.len() as u8 as char));
    [
        "\0asm\u{1}\0\0\0",
        &section('\u{1}', "\u{1}\u{60}\0\0"),
        &section('\u{3}', "\u{1}\0"),
        &section('\u{5}', "\u{1}\0\u{1}"),
        &section('\u{7}', "\u{2}\u{6}_start\0\0\u{6}memory\u{2}\0"),
        &section('\u{a}', "\u{1}\u{3}\0\0\u{b}"),
        &section('\0', &format!("\u{4}name{names}")),
    ]
    .concat()
}

#[test]
fn a_line_break_in_the_name_of_a_guests_function_makes_no_line_of_the_log() {
    let never = "restart = { when = \"never\" }";
    let config = crate::guests::guest("evil", "query:Evil.Ask", "evil.wasm", never, "");
    let module = trapping_module("x\nFORGED by a guest\x1b[2J");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mainspring.toml"), config).unwrap();
    std::fs::write(folder.path().join("evil.wasm"), module).unwrap();
    let (path, mut command) = (folder.path().join("log"), mainspring());
    command.args(["up", "--socket", "s"]).current_dir(folder.path()).stdout(std::process::Stdio::null());
    let mut child = command.stderr(std::fs::File::create(&path).unwrap()).spawn().unwrap();
    let text = || std::fs::read_to_string(&path).unwrap();
    // It traps before the boot is over, which ends the daemon, or later.
    eventually("the trap is told", || text().contains("FORGED"));
    let _ = child.kill();
    child.wait().unwrap();
    let log = text();
    assert!(!log.lines().any(|line| line.starts_with("FORGED")), "{log}");
    assert!(!log.contains('\x1b'), "{log}");
}

#[test]
fn a_line_break_in_the_name_of_a_socket_makes_no_line_of_the_summary() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s\nFORGED");
    let mut command = mainspring();
    command.args(["up", "--no-config", "--log-level", "debug", "--socket"]).arg(&socket);
    let child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    eventually("it listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    crate::support::signal_process(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("FORGED"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("FORGED")), "{text}");
}

#[test]
fn children_get_neither_the_token_nor_what_belongs_to_the_service() {
    const KEPT: &[&str] = &[
        "MAINSPRING_TOKEN",
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "WATCHDOG_PID",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
    ];
    let program = "import lib, os\nlib.serve(lambda m: [os.environ.get(name) for name in m['data']])\n";
    let config = process("env", &["query:Env.Ask"], &["python3", "env.py"], "")
        + "env = { LISTEN_FDNAMES = \"of the manifest\" }\n";
    let files = [("lib.py", crate::support::LIBRARY), ("env.py", program)];
    let daemon = Daemon::prepared(&config, &files, |command: &mut Command| {
        for name in KEPT {
            command.env(name, "@inherited");
        }
        command.env("OTHER", "@inherited");
    });
    let mut names = KEPT.to_vec();
    names.push("OTHER");
    let expected = json!([null, null, null, null, null, null, "of the manifest", "@inherited"]);
    assert_eq!(daemon.connect().query("Env.Ask", json!(names)), expected);
    daemon.end();
}
