//! How a command finds its daemon.

use crate::fake::{Fake, command, stderr, stdout};
use std::fs;
use std::os::unix::fs::symlink;

fn pong() -> Fake {
    Fake::serve(|connection| {
        let ping = connection.read().unwrap();
        connection.reply(&ping, "\"here\"");
    })
}

#[test]
fn without_a_daemon_a_command_says_so_and_exits_with_3() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["query", "Syscall.Ping"][..], &["emit", "App.Done"], &["watch"], &["actors"]] {
        let output = command(arguments, folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let text = stderr(&output);
        assert!(text.contains("mainspring/mainspring.sock") && text.contains("mainspring up"), "{text}");
    }
}

#[test]
fn the_variable_names_the_socket_and_the_flag_comes_before_it() {
    let fake = pong();
    let output = command(&["query", "Syscall.Ping"], &std::env::temp_dir())
        .env("MAINSPRING_SOCKET", fake.socket())
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "\"here\"\n", "{}", stderr(&output));
    let fake = pong();
    let output =
        fake.command(&["query", "Syscall.Ping"]).env("MAINSPRING_SOCKET", "/nowhere").output().unwrap();
    assert_eq!(stdout(&output), "\"here\"\n", "{}", stderr(&output));
}

#[test]
fn the_configuration_in_this_folder_names_the_socket() {
    let fake = pong();
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("mainspring.toml"),
        "[[listen]]\nunix = 'here.sock'\n[log]\nlevel = 'wrong'\n",
    )
    .unwrap();
    symlink(fake.socket(), folder.path().join("here.sock")).unwrap();
    let output = command(&["query", "Syscall.Ping"], folder.path()).output().unwrap();
    assert_eq!(stdout(&output), "\"here\"\n", "{}", stderr(&output));
}

#[test]
fn the_users_runtime_folder_is_the_last_resort() {
    let fake = pong();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("mainspring")).unwrap();
    symlink(fake.socket(), folder.path().join("mainspring/mainspring.sock")).unwrap();
    let output = command(&["query", "Syscall.Ping"], folder.path()).output().unwrap();
    assert_eq!(stdout(&output), "\"here\"\n", "{}", stderr(&output));
}
