//! Daemons of other users: nothing is said to them.

use crate::fake::{command, stderr, stdout};
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A user that is not this one.
const NOBODY: u32 = 65534;

/// Answers whatever it is asked, and writes down what that was.
const IMPOSTOR: &str = "
import json, os, socket, sys
os.setuid(int(sys.argv[2]))
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
os.chmod(sys.argv[1], 0o777)
while True:
    c, _ = s.accept()
    heard = c.recv(100000)
    open(sys.argv[1] + '.heard', 'ab').write(heard)
    if heard:
        m = json.loads(heard.splitlines()[0])
        metadata = {'id': 'a', 'timestamp': 1, 'causation': m['metadata']['id']}
        c.sendall((json.dumps({'kind': 'reply', 'type': m['type'], 'data': 'forged', 'metadata': metadata}) + '\\n').encode())
    c.close()
";

struct Impostor {
    folder: tempfile::TempDir,
    socket: PathBuf,
    child: Child,
}

impl Impostor {
    /// Listens at `name` below a folder, which is `user`'s.
    fn start(name: &str, user: u32) -> Option<Impostor> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can be somebody else");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join(name);
        let parent = socket.parent().unwrap();
        fs::create_dir_all(parent).unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        chown(parent, Some(NOBODY), None).unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", IMPOSTOR]).arg(&socket).arg(user.to_string());
        let child = python.stdin(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Impostor { folder, socket, child })
    }

    fn heard(&self) -> String {
        let mut path = self.socket.clone().into_os_string();
        path.push(".heard");
        fs::read_to_string(path).unwrap_or_default()
    }

    /// A command that looks for its daemon by itself.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments, Path::new("/"));
        command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", self.folder.path()).stdin(Stdio::null());
        command
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const COMMANDS: &[&[&str]] = &[
    &["query", "Syscall.Ping", "\"private\""],
    &["emit", "App.Done", "\"private\""],
    &["watch"],
    &["actors"],
];

#[test]
fn another_user_who_was_first_at_the_usual_place_hears_nothing_and_is_not_believed() {
    let Some(impostor) = Impostor::start("mainspring-0/mainspring.sock", NOBODY) else { return };
    for arguments in COMMANDS {
        let output = impostor.command(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}: {}", stdout(&output));
        assert!(stderr(&output).contains("user 65534"), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
    assert_eq!(impostor.heard(), "");
}

#[test]
fn a_socket_that_was_named_is_another_users_all_the_same() {
    let Some(impostor) = Impostor::start("its/it.sock", NOBODY) else { return };
    for arguments in COMMANDS {
        let named = impostor.command(arguments).env("MAINSPRING_SOCKET", &impostor.socket).output().unwrap();
        let flagged = impostor.command(arguments).arg("--socket").arg(&impostor.socket).output().unwrap();
        for output in [named, flagged] {
            assert!(!output.status.success(), "{arguments:?}: {}", stdout(&output));
            let words = "belongs to user 65534 and serves nobody else; you are user 0";
            assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
        }
    }
    // `pipe` has something to say before it is asked.
    let mut pipe = impostor.command(&["pipe"]).env("MAINSPRING_SOCKET", &impostor.socket).output().unwrap();
    assert!(!pipe.status.success());
    pipe.stdout.clear();
    assert_eq!(impostor.heard(), "");
}

#[test]
fn a_folder_of_another_user_does_not_lead_to_another_socket_of_ones_own() {
    // What listens is this user's own, and something else than a daemon: somebody else's link leads
    // there.
    let Some(own) = Impostor::start("own/service.sock", 0) else { return };
    let folder = own.folder.path().join("mainspring-0");
    fs::create_dir(&folder).unwrap();
    symlink(&own.socket, folder.join("mainspring.sock")).unwrap();
    chown(&folder, Some(NOBODY), None).unwrap();
    let output = own.command(COMMANDS[0]).output().unwrap();
    assert!(!output.status.success(), "{}", stdout(&output));
    let words = format!("{} belongs to user 65534", folder.display());
    assert!(stderr(&output).contains(&words), "{}", stderr(&output));
    assert_eq!(own.heard(), "");
}
