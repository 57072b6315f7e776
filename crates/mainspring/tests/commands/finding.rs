//! How a command finds its daemon.

use crate::fake::{Fake, command, stderr, stdout};
use crate::real::Real;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

fn pong() -> Fake {
    Fake::serve(|connection| {
        let ping = connection.read().unwrap();
        connection.reply(&ping, "\"here\"");
    })
}

#[test]
fn without_a_daemon_a_command_says_so_and_exits_with_3() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["query", "Syscall.Ping"][..],
        &["emit", "App.Done", "--wait", "0s"],
        &["watch", "--wait", "0s"],
        &["actors", "--wait", "0s"],
    ] {
        let output = command(arguments, folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let text = stderr(&output);
        assert!(text.contains("mainspring/mainspring.sock") && text.contains("mainspring up"), "{text}");
    }
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_told_with_the_longest_there_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s".repeat(107));
    let mut up = command(&["up", "--no-config", "--socket", path.to_str().unwrap()], folder.path());
    let output = up.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("has at most 107 bytes"), "{}", stderr(&output));
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
fn commands_below_a_project_reach_its_daemon() {
    let daemon = Real::start("native = ['Memory']\n[journal]\nfolder = 'kept'\n");
    let below = daemon.folder().join("capabilities/greeter");
    fs::create_dir_all(&below).unwrap();
    let run = |arguments: &[&str]| {
        let output = command(arguments, &below).env_remove("XDG_RUNTIME_DIR").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    };
    run(&["send", "Memory.Set", "key=a", "value=b"]);
    assert_eq!(run(&["query", "Memory.Get", "key=a"]), "{\"value\":\"b\"}\n");
    assert!(run(&["check"]).starts_with("../../mainspring.toml: all is well\n"));
    assert!(run(&["journal", "export"]).contains("Memory.Set"));
    // A relative path in the file begins at the file.
    assert!(run(&["check"]).contains("unix ../../it.sock\n"));
    // `new` begins a project of its own, and its file is the nearest from then on.
    assert!(run(&["new", "capability", "own", "--lang", "shell"]).contains("wrote mainspring.toml\n"));
    assert!(below.join("mainspring.toml").is_file() && below.join("capabilities/own").is_dir());
    assert!(run(&["check"]).starts_with("mainspring.toml: all is well\n"));
}

#[test]
fn up_below_a_project_runs_it_and_no_config_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    fs::create_dir(&below).unwrap();
    fs::write(folder.path().join("mainspring.toml"), "native = []\n[[listen]]\nunix = 'it.sock'\n").unwrap();
    let mut child = command(&["up"], &below).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let output = command(&["query", "Sys.Stats", "--wait", "30s"], folder.path()).output().unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = folder.path().canonicalize().unwrap().join("mainspring.toml");
    assert_eq!(stats["floors"]["daemon"]["configuration"], file.to_str().unwrap());
    // It is this project's, so it may be ended from here.
    assert!(command(&["down"], &below).output().unwrap().status.success());
    assert!(child.wait().unwrap().success());
    let mut told = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut told).unwrap();
    assert!(told.starts_with("mainspring runs ../mainspring.toml\n"), "{told}");
    let mut up = command(&["up", "--batch", "--no-config"], &below);
    assert!(up.stdin(Stdio::null()).output().unwrap().status.success());
    fs::write(folder.path().join("mainspring.toml"), "wrong = 1\n").unwrap();
    let mut up = command(&["up", "--batch"], &below);
    let output = up.stdin(Stdio::null()).output().unwrap();
    assert!(stderr(&output).contains("--> ../mainspring.toml:1:1"), "{}", stderr(&output));
}

#[test]
fn the_file_of_another_user_above_this_folder_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (above, below) = (folder.path().join("a"), folder.path().join("a/b"));
    fs::create_dir_all(&below).unwrap();
    let file = above.join("mainspring.toml");
    let (stranger, root) = (Some(12_345), Some(0));
    fs::write(&file, "[[listen]]\nunix = 'it.sock'\n").unwrap();
    // The file, its folder, or a link in its place.
    let linked = || {
        fs::rename(&file, above.join("real.toml")).unwrap();
        symlink("real.toml", &file).unwrap();
        std::os::unix::fs::lchown(&file, stranger, None).unwrap();
    };
    let steps: [(&dyn Fn(), &str); 3] = [
        (
            &|| std::os::unix::fs::chown(&file, stranger, None).unwrap(),
            "../mainspring.toml belongs to user 12345",
        ),
        (
            &|| {
                std::os::unix::fs::chown(&file, root, None).unwrap();
                std::os::unix::fs::chown(&above, stranger, None).unwrap();
            },
            ".. belongs to user 12345",
        ),
        (
            &|| {
                std::os::unix::fs::chown(&above, root, None).unwrap();
                linked();
            },
            "../mainspring.toml belongs to user 12345",
        ),
    ];
    for (step, words) in steps {
        step();
        for (arguments, code) in [
            (&["query", "Syscall.Ping"][..], 2),
            (&["check"], 2),
            (&["up", "--batch"], 1),
            (&["journal", "check"], 2),
            (&["down"], 2),
        ] {
            let output = command(arguments, &below).stdin(Stdio::null()).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
            assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
        }
        // Whoever goes there has chosen it.
        assert!(command(&["check"], &above).output().unwrap().status.success());
        let output =
            command(&["up", "--batch", "--no-config"], &below).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
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

#[test]
fn a_configuration_with_a_fault_does_not_lead_to_the_daemon_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mainspring.toml");
    for (text, words) in [
        ("[[listen]]\nunix = \n", "mainspring.toml:2:"),
        ("[[listne]]\nunix = 'it.sock'\n", "did you mean `listen`?\n --> mainspring.toml:1:"),
        ("[[listen]]\nunxi = 'it.sock'\n", "did you mean `unix`?\n --> mainspring.toml:2:"),
        ("[[listen]]\ntcp = '127.0.0.1:7700'\n", "name in `tokens` who may connect"),
        (
            "[[listen]]\ntcp = '127.0.0.1:0'\ntokens = [{ name = 'a', token = '0123456789abcdef' }]\n",
            "chooses its TCP port itself",
        ),
    ] {
        fs::write(&file, text).unwrap();
        for arguments in [&["query", "Syscall.Ping"][..], &["watch"], &["actors"]] {
            let output = command(arguments, folder.path()).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{text}: {}", stderr(&output));
            assert!(stderr(&output).contains(words), "{text}: {}", stderr(&output));
        }
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let output = command(&["query", "Syscall.Ping"], folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("it is a folder, not a file\n--> mainspring.toml"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_fault_in_a_capability_says_nothing_about_where_the_daemon_is() {
    let fake = pong();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("mainspring")).unwrap();
    symlink(fake.socket(), folder.path().join("mainspring/mainspring.sock")).unwrap();
    fs::write(folder.path().join("mainspring.toml"), "manifests = ['broken.toml']\n").unwrap();
    fs::write(folder.path().join("broken.toml"), "id = 7\n").unwrap();
    let output = command(&["query", "Syscall.Ping"], folder.path()).output().unwrap();
    assert_eq!(stdout(&output), "\"here\"\n", "{}", stderr(&output));
}

#[test]
fn a_daemon_that_is_still_starting_is_waited_for() {
    let mut early = Vec::new();
    let _daemon = Real::start_with("", |folder| {
        for arguments in [&["query", "Syscall.Ping", "7", "--wait", "60s"][..], &["actors", "--wait", "60s"]]
        {
            let mut command = command(arguments, folder);
            early.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        }
    });
    for child in early {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

#[test]
fn a_project_does_not_end_or_reload_the_daemon_of_another() {
    let runtime = tempfile::tempdir().unwrap();
    let project = |name: &str| {
        let folder = runtime.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("mainspring.toml"), "").unwrap();
        folder
    };
    let (first, second, third) = (project("first"), project("second"), runtime.path().join("third"));
    fs::create_dir(&third).unwrap();
    let run = |arguments: &[&str], folder: &std::path::Path| {
        let mut command = command(arguments, folder);
        command.env("XDG_RUNTIME_DIR", runtime.path()).stdin(Stdio::null());
        command
    };
    let mut up = run(&["up", "--log-level", "warn"], &first);
    let mut daemon = Running(up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    for arguments in [&["down", "--wait", "60s"][..], &["reload"], &["restart", "Memory"]] {
        let output = run(arguments, &second).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stdout(&output));
        let text = stderr(&output);
        assert!(text.contains("first/mainspring.toml") && text.contains("--socket"), "{text}");
    }
    // Elsewhere there is nothing that could be meant instead.
    let output = run(&["reload"], &third).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = run(&["down"], &first).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(daemon.0.wait().unwrap().success());
}

/// A daemon that ends with its test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A user that is not this one.
const NOBODY: u32 = 65534;

#[test]
fn somebody_elses_daemon_is_told_apart_from_none() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be somebody else");
        return;
    }
    let daemon = Real::start("");
    let (folder, socket) = (daemon.folder(), daemon.folder().join("it.sock"));
    let ask = |arguments: &[&str]| {
        let mut command = command(arguments, std::path::Path::new("/"));
        command.env("MAINSPRING_SOCKET", &socket).uid(NOBODY).stdin(Stdio::null()).output()
    };
    let commands = [&["query", "Syscall.Ping"][..], &["watch"], &["pipe"], &["emit", "App.Done"]];
    if ask(&["--version"]).is_err() {
        println!("skipped: nobody may run the program where it is");
        return;
    }
    let chmod =
        |path: &std::path::Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    // The folder is closed, then the socket, then neither.
    chmod(folder, 0o700);
    let output = ask(commands[0]).unwrap();
    let words = format!("{} belongs to user 0, and you are user {NOBODY}", folder.display());
    assert!(output.status.code() == Some(3) && stderr(&output).contains(&words), "{}", stderr(&output));
    assert!(stderr(&output).contains("permission denied") && !stderr(&output).contains("mainspring up"));
    chmod(folder, 0o755);
    let output = ask(commands[0]).unwrap();
    let words = format!("{} belongs to user 0, and you are user {NOBODY}", socket.display());
    assert!(output.status.code() == Some(3) && stderr(&output).contains(&words), "{}", stderr(&output));
    chmod(&socket, 0o666);
    for arguments in commands {
        let output = ask(arguments).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let text = stderr(&output);
        let words = format!("belongs to user 0 and serves nobody else; you are user {NOBODY}");
        assert!(text.contains(&words) || text.contains("(403)"), "{arguments:?}: {text}");
    }
}
