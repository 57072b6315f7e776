//! Standard output that nobody reads.

use crate::support::{Client, eventually, line, mainspring, signal_process};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon that hangs is waited for.
const SHORT: Duration = Duration::from_secs(20);

/// A pipe that is full, and how many bytes are in it. Its writer blocks, as those of a shell do.
fn full_pipe() -> (File, OwnedFd, usize) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let mut bytes = 0;
    while let Ok(count) = rustix::io::write(&writer, &[b'x'; 4096]) {
        bytes += count;
    }
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (File::from(reader), writer, bytes)
}

/// Waits for the end of a daemon, or kills it.
fn ends(mut child: Child) -> bool {
    let deadline = Instant::now() + SHORT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

#[test]
fn a_summary_that_nobody_reads_hangs_neither_the_daemon_nor_its_end() {
    for words in [&["--json"][..], &[]] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let (reader, writer, _) = full_pipe();
        let mut command = mainspring();
        command.args(["up", "--no-config", "--socket"]).arg(&socket).args(words);
        let child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
        drop(command);
        eventually("it listens", || UnixStream::connect(&socket).is_ok());
        let mut client = Client::new(UnixStream::connect(&socket).unwrap());
        client.stream.set_read_timeout(Some(SHORT)).unwrap();
        client.send(line("query", "Syscall.Ping", "p", &json!(1)));
        let answered = std::io::Read::read(&mut client.stream, &mut [0; 4096]);
        signal_process(child.id(), "TERM");
        assert!(ends(child), "{words:?}: it does not end");
        assert!(answered.is_ok_and(|count| count > 0), "{words:?}: it does not answer");
        drop(reader);
    }
}

#[test]
fn a_summary_that_is_read_late_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let (mut reader, writer, bytes) = full_pipe();
    let mut command = mainspring();
    command.args(["up", "--no-config", "--json", "--socket"]).arg(&socket);
    let child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    eventually("it listens", || UnixStream::connect(&socket).is_ok());
    let mut client = Client::new(UnixStream::connect(&socket).unwrap());
    client.stream.set_read_timeout(Some(SHORT)).unwrap();
    client.send(line("query", "Syscall.Ping", "p", &json!(1)));
    let answered = std::io::Read::read(&mut client.stream, &mut [0; 4096]).is_ok();
    let mut filling = vec![0; bytes];
    reader.read_exact(&mut filling).unwrap();
    let mut text = String::new();
    while !text.ends_with('\n') {
        let mut buffer = [0; 4096];
        let count = reader.read(&mut buffer).unwrap();
        assert!(count > 0, "it ends with {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["type"], json!("Sys.BootComplete"));
    signal_process(child.id(), "TERM");
    assert!(ends(child));
    assert!(answered, "it waits for who reads the summary");
}

#[test]
fn the_answers_of_a_batch_come_behind_the_summary_though_both_wait() {
    let (mut reader, writer, bytes) = full_pipe();
    let mut command = mainspring();
    command.args(["up", "--no-config", "--json", "--batch"]);
    let mut child = command.stdin(Stdio::piped()).stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut input = child.stdin.take().unwrap();
    for n in 0..100 {
        input.write_all(line("query", "Syscall.Ping", &format!("q-{n}"), &json!(n)).as_bytes()).unwrap();
    }
    drop(input);
    let mut filling = vec![0; bytes];
    reader.read_exact(&mut filling).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(ends(child));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["type"]), (101, &json!("Sys.BootComplete")));
    assert_eq!(lines[100]["data"], json!(99));
}

#[test]
fn a_boot_that_fails_ends_though_nobody_reads_why() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("s")).unwrap();
    let ((_out, out, _), (_error, error, _)) = (full_pipe(), full_pipe());
    let mut command = mainspring();
    command.args(["up", "--no-config", "--json", "--socket", "s"]).current_dir(folder.path());
    let mut child = command.stdout(out).stderr(error).spawn().unwrap();
    drop(command);
    let deadline = Instant::now() + SHORT;
    while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = child.try_wait().unwrap();
    if status.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(status.and_then(|status| status.code()), Some(1));
}
