//! The boot, its summary, its failures, and who may have the socket.

use crate::guests::guest;
use crate::support::{
    Client, Daemon, LIBRARY, eventually, exists, mainspring, process, signal_process, start_at,
};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use tempfile::TempDir;

#[test]
fn a_daemon_without_any_file_answers() {
    let folder = TempDir::new().unwrap();
    let mut child = mainspring()
        .args(["up", "--json"])
        .current_dir(folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    let socket = folder.path().join("mainspring/mainspring.sock");
    let mut client = Client::new(UnixStream::connect(&socket).unwrap());
    client.command("Memory.Set", json!({ "key": "a", "value": [1, { "b": null }] }));
    assert_eq!(client.query("Memory.Get", json!({ "key": "a" })), json!({ "value": [1, { "b": null }] }));
    signal_process(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
    assert!(!exists(&socket));
}

#[test]
fn the_summary_names_capabilities_adapters_and_timeouts() {
    let daemon = Daemon::start();
    assert_eq!(daemon.boot["type"], json!("Sys.BootComplete"));
    let data = &daemon.boot["data"];
    assert_eq!(data["capabilities"][0]["id"], json!("Memory"));
    assert!(data["capabilities"][0]["handles"].as_array().unwrap().contains(&json!("command:Memory.Set")));
    assert_eq!(data["adapters"], json!([format!("unix:{}", daemon.socket().display())]));
    assert_eq!(data["timers"]["defaultTimeout"], json!(30000));
    daemon.end();
}

#[test]
fn the_summary_for_people_says_where_it_listens_and_what_it_can() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("s");
    let child = mainspring()
        .args(["up", "--no-config", "--socket"])
        .arg(&socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the socket is there", || exists(&socket));
    signal_process(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("is ready"), "{text}");
    assert!(text.contains(&socket.display().to_string()), "{text}");
    assert!(text.contains("Memory.Set"), "{text}");
}

#[test]
fn the_socket_is_its_owners_alone() {
    let daemon = Daemon::start();
    let mode = std::fs::metadata(daemon.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    daemon.end();
}

#[test]
fn a_second_daemon_on_the_same_socket_is_refused_and_harms_nothing() {
    let daemon = Daemon::start();
    let second = mainspring().args(["up", "--no-config", "--socket"]).arg(daemon.socket()).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8(second.stderr).unwrap();
    assert!(text.contains("already running"), "{text}");
    daemon.connect().query("Syscall.Ping", json!({}));
    daemon.end();
}

#[test]
fn a_socket_that_was_left_behind_is_replaced() {
    let mut daemon = Daemon::start();
    let socket = daemon.socket();
    daemon.signal("KILL");
    daemon.wait();
    assert!(exists(&socket), "a killed daemon leaves its socket behind");
    let mut second = start_at(&socket, &[], Stdio::null());
    Client::new(UnixStream::connect(&socket).unwrap()).query("Syscall.Ping", json!({}));
    signal_process(second.id(), "TERM");
    assert!(second.wait().unwrap().success());
}

#[test]
fn a_socket_of_another_program_and_a_file_are_left_alone() {
    let folder = TempDir::new().unwrap();
    let (taken, file) = (folder.path().join("taken"), folder.path().join("file"));
    let _listener = UnixListener::bind(&taken).unwrap();
    std::fs::write(&file, "precious").unwrap();
    for (path, expected) in [(&taken, "another program listens"), (&file, "is not a socket")] {
        let output = mainspring().args(["up", "--no-config", "--socket"]).arg(path).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(UnixStream::connect(&taken).is_ok());
}

#[test]
fn a_path_that_no_socket_can_have_is_refused_in_words() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x".repeat(120));
    let output = mainspring().args(["up", "--no-config", "--socket"]).arg(path).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("too long"), "{text}");
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let folder = TempDir::new().unwrap();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let output = mainspring().args(["up", "--no-config", "--socket"]).arg(open.join("s")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("other users"));
}

#[test]
fn a_program_that_cannot_be_started_fails_the_boot_and_ends_what_was_started_before() {
    let folder = TempDir::new().unwrap();
    let mark = "import lib, os\nopen('pid', 'w').write(str(os.getpid()))\nlib.serve(lambda m: 1)\n";
    let config = process("first", &["query:First.Ask"], &["python3", "first.py"], "")
        // What no look at the file shows: it has the header of a module, and nothing behind it is
        // one.
        + &guest("second", "query:Second.Ask", "second.wasm", "", "");
    std::fs::write(folder.path().join("mainspring.toml"), config).unwrap();
    std::fs::write(folder.path().join("second.wasm"), b"\0asm\x01\0\0\0\x01\xff\xff").unwrap();
    std::fs::write(folder.path().join("lib.py"), LIBRARY).unwrap();
    std::fs::write(folder.path().join("first.py"), mark).unwrap();
    let output = mainspring()
        .args(["up", "--json", "--socket", "socket"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["type"], json!("Sys.BootFailed"));
    let message = report["data"]["message"].as_str().unwrap();
    assert!(message.starts_with("SPAWN: second could not be spawned"), "{message}");
    assert!(!exists(&folder.path().join("socket")));
    if let Ok(pid) = std::fs::read_to_string(folder.path().join("pid")) {
        assert!(!crate::support::is_alive(pid.parse().unwrap()), "the first process is still there");
    }
}

#[test]
fn a_configuration_with_a_fault_fails_the_boot_in_its_first_phase() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("mainspring.toml"), "nonsense = 1\n").unwrap();
    let up = |arguments: &[&str]| {
        let output = mainspring().arg("up").args(arguments).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (told, complaint) = up(&["--json"]);
    let report: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&report["kind"], &report["type"]), (&json!("error"), &json!("Sys.BootFailed")));
    let message = report["data"]["message"].as_str().unwrap();
    assert!(message.starts_with("LOAD: error: there is no key `nonsense` here"), "{message}");
    assert!(
        complaint.starts_with("mainspring: the boot failed while reading its files:\nerror: "),
        "{complaint}"
    );
    assert!(complaint.contains("mainspring.toml:1:1"), "{complaint}");
    let (told, complaint_again) = up(&[]);
    assert_eq!((told.as_str(), complaint_again), ("", complaint));
}

#[test]
fn a_boot_that_fails_over_a_schema_or_a_second_handler_says_in_which_phase() {
    let manifest = |id: &str, name: &str| {
        format!(
            "[[capability]]\nid = \"{id}\"\ndescription = \"d\"\nprogram = {{ process = [\"true\"] }}\n\
             inbound = {{ properties = {{ kind = {{ const = \"query\" }}, type = {name} }} }}\n"
        )
    };
    let open = manifest("a", "{ type = \"string\" }");
    let twice = manifest("a", "{ const = \"A.B\" }") + &manifest("b", "{ const = \"A.B\" }");
    let reserved = manifest("a", "{ const = \"Sys.Mine\" }");
    let both = open.clone() + &manifest("b", "{ const = \"A.B\" }").replace("\"d\"", "\"\"");
    let discover = ("DISCOVER", "reading the schemas of capabilities");
    let (build, load) = (("BUILD", "finding who handles what"), ("LOAD", "reading its files"));
    for (text, (phase, deed)) in [(open, discover), (twice, build), (reserved, build), (both, load)] {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("mainspring.toml"), &text).unwrap();
        let output = mainspring().args(["up", "--json"]).current_dir(folder.path()).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = report["data"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{phase}: error: ")), "{phase}: {message}");
        let complaint = String::from_utf8(output.stderr).unwrap();
        // People are told what was done, programs the name of the phase.
        let words = format!("mainspring: the boot failed while {deed}:\n");
        assert!(complaint.starts_with(&words), "{complaint}");
    }
}

#[test]
fn a_listener_that_cannot_be_opened_is_told_in_words_and_by_its_phase() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    std::fs::write(folder.path().join("mainspring.toml"), "[[listen]]\nunix = 'file/it.sock'\n").unwrap();
    let output = mainspring().args(["up", "--json"]).current_dir(folder.path()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = report["data"]["message"].as_str().unwrap();
    assert!(message.starts_with("ADAPT: the listener unix could not be started: "), "{message}");
    let complaint = String::from_utf8(output.stderr).unwrap();
    let words =
        "mainspring: the boot failed while opening listeners: the listener unix could not be started: ";
    assert!(complaint.starts_with(words), "{complaint}");
}
