//! Those who have no business here: users, groups, strangers at the door, and crowds.

use crate::clients::{limit_descriptors, raise_descriptors};
use crate::support::{
    Client, Daemon, PATIENCE, code, eventually, exists, line, mainspring, process, start_at,
};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

/// A user, and a group, that are not these.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root can be somebody else");
    }
    root
}

/// Why a daemon does not listen in a folder; `None` if it does.
fn refusal(folder: &Path) -> Option<String> {
    let socket = folder.join("s");
    let mut command = mainspring();
    command.args(["up", "--no-config", "--json", "--socket"]).arg(&socket).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut text).unwrap();
    let told: Value = serde_json::from_str(&text).unwrap();
    let message = told["data"]["message"].as_str().map(str::to_owned);
    if message.is_none() {
        crate::support::signal_process(child.id(), "TERM");
    }
    child.wait().unwrap();
    message
}

/// A folder with this owner, group and mode.
fn folder_of(parent: &Path, name: &str, owner: u32, group: u32, mode: u32) -> std::path::PathBuf {
    let path = parent.join(name);
    fs::create_dir(&path).unwrap();
    chown(&path, Some(owner), Some(group)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_folder_that_a_foreign_group_may_write_to_or_of_another_owner_is_refused() {
    if !is_root() {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    for (name, owner, group, mode, words) in [
        ("group", 0, NOBODY, 0o770, "other users"),
        ("everybody", 0, 0, 0o777, "other users"),
        ("sticky", 0, 0, 0o1777, "other users"),
        ("owner", NOBODY, 0, 0o700, "belongs to user 65534"),
    ] {
        let folder = folder_of(outer.path(), name, owner, group, mode);
        let refused = refusal(&folder).unwrap_or_else(|| panic!("{name} is accepted"));
        assert!(refused.contains(words), "{name}: {refused}");
    }
    for (name, group, mode) in [("own", 0, 0o700), ("readable", NOBODY, 0o755), ("own-group", 0, 0o770)] {
        let folder = folder_of(outer.path(), name, 0, group, mode);
        assert_eq!(refusal(&folder), None, "{name}");
    }
}

#[test]
fn a_folder_that_somebody_else_can_put_another_in_the_place_of_is_refused() {
    if !is_root() {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    for (name, owner, mode) in [("open", 0, 0o777), ("of-another", NOBODY, 0o755)] {
        let parent = folder_of(outer.path(), name, owner, 0, mode);
        for inner in ["there", "made"] {
            let folder = parent.join(inner);
            if inner == "there" {
                folder_of(&parent, inner, 0, 0, 0o700);
            }
            let refused = refusal(&folder).unwrap_or_else(|| panic!("{name}/{inner} is accepted"));
            assert!(refused.contains(&parent.display().to_string()), "{refused}");
        }
    }
    // The sticky bit keeps others from that.
    let parent = folder_of(outer.path(), "sticky", 0, 0, 0o1777);
    assert_eq!(refusal(&folder_of(&parent, "inner", 0, 0, 0o700)), None);
    // Whoever owns a link leads it elsewhere when he likes.
    let folder = folder_of(outer.path(), "target", 0, 0, 0o700);
    symlink(&folder, outer.path().join("own-link")).unwrap();
    assert_eq!(refusal(&outer.path().join("own-link")), None);
    let link = parent.join("link");
    symlink(&folder, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    let refused = refusal(&link).expect("a link of another is accepted");
    assert!(refused.contains("belongs to user 65534"), "{refused}");
}

#[test]
fn the_end_of_a_daemon_whose_lock_was_deleted_leaves_its_successors_lock_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, lock) = (folder.path().join("s"), folder.path().join("s.lock"));
    let mut first = start_at(&socket, &[], Stdio::null());
    fs::remove_file(&socket).unwrap();
    fs::remove_file(&lock).unwrap();
    let mut second = start_at(&socket, &[], Stdio::null());
    crate::support::signal_process(first.id(), "TERM");
    assert!(first.wait().unwrap().success());
    let left = (exists(&socket), exists(&lock));
    let third = mainspring().args(["up", "--no-config", "--socket"]).arg(&socket).output().unwrap();
    crate::support::signal_process(second.id(), "TERM");
    assert!(second.wait().unwrap().success());
    assert_eq!(left, (true, true), "the socket and the lock of the second");
    let text = String::from_utf8(third.stderr).unwrap();
    assert!(text.contains("already running"), "{text}");
    assert!(!exists(&socket) && !exists(&lock), "the second leaves nothing behind");
}

const TOKENS: &str = r#"
[[listen]]
tcp = "127.0.0.1:0"
tokens = [{ name = "ann", token = "0123456789abcdef" }]
"#;

fn tcp_place(daemon: &Daemon) -> String {
    let mut adapters = daemon.boot["data"]["adapters"].as_array().unwrap().iter();
    adapters.find_map(|adapter| adapter.as_str()?.strip_prefix("tcp:")).unwrap().to_owned()
}

fn next(stream: &TcpStream) -> Option<Value> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = String::new();
    BufReader::new(stream).read_line(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[test]
fn strangers_without_a_token_do_not_keep_out_who_has_one() {
    const AT_GATES_MAX: usize = 1024;
    if !raise_descriptors(2 * AT_GATES_MAX as u64 + 200) {
        println!("skipped: this process may not open so many descriptors");
        return;
    }
    let daemon = Daemon::with_config(TOKENS);
    let place = tcp_place(&daemon);
    let mut client = daemon.connect();
    let mut strangers: Vec<TcpStream> = Vec::new();
    // More than there may be, whoever of them has been closed for its silence by now.
    while strangers.len() < AT_GATES_MAX + 100 {
        strangers.push(TcpStream::connect(&place).unwrap());
        if strangers.len().is_multiple_of(64) {
            client.query("Syscall.Ping", json!(strangers.len()));
        }
    }
    let mut holder = TcpStream::connect(&place).unwrap();
    let ping = line("query", "Syscall.Ping", "q-1", &json!(4));
    holder.write_all(format!("{{\"token\":\"0123456789abcdef\"}}\n{ping}").as_bytes()).unwrap();
    let answer = next(&holder).expect("an answer");
    assert_eq!(answer["data"], json!(4), "{answer}");
    // Whoever had waited longest has made room, or was too late anyway.
    let told = next(&strangers[0]).expect("a word");
    assert!([503, 403].contains(&code(&told)), "{told}");
    daemon.end();
}

#[test]
fn clients_that_take_every_descriptor_do_not_keep_a_process_from_coming_back() {
    let quick = "restart = { backoff_ms = 10, max_restarts = 3, window_ms = \"1m\", probe_ms = \"30s\" }";
    let script = r#"while read -r line; do
  id=${line#*'"id":"'}; id=${id%%'"'*}
  printf '{"kind":"reply","type":"Mortal.Ask","data":%s,"metadata":{"id":"r-%s","timestamp":1,"causation":"%s"}}\n' "$$" "$id" "$id"
done"#;
    let config = process("mortal", &["query:Mortal.Ask"], &["sh", "mortal.sh"], quick) + TOKENS;
    let daemon =
        Daemon::prepared(&config, &[("mortal.sh", script)], |command| limit_descriptors(command, 128));
    let mut first = daemon.connect();
    for round in 0..3 {
        let pid = first.query("Mortal.Ask", json!(round)).as_u64().unwrap();
        // By both doors.
        let crowd: Vec<(Client, TcpStream)> =
            (0..100).map(|_| (daemon.connect(), TcpStream::connect(tcp_place(&daemon)).unwrap())).collect();
        first.query("Syscall.Ping", json!(1));
        crate::support::signal_process(pid as u32, "KILL");
        // As soon as its descriptors are free, somebody stands there for them.
        let more: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(daemon.socket()).unwrap()).collect();
        eventually("it is back", || {
            let answer = first.ask("query", "Mortal.Ask", json!(round));
            assert!(answer["kind"] == json!("reply") || code(&answer) == 502, "{answer}");
            answer["data"].as_u64().is_some_and(|now| now != pid)
        });
        drop((crowd, more));
        eventually("they are gone", || {
            first.query("Sys.Stats", json!({}))["floors"]["clients"]["open"] == json!(1)
        });
    }
    daemon.end();
}
