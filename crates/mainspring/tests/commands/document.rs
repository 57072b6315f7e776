//! `README.md`, `docs/tutorial/first-application.md` and `docs/how-to/writing-a-capability.md`:
//! their files are written, their commands typed, and what they show is what comes.

use crate::fake::command;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn the_release_program_carries_no_debug_information_and_the_readme_tells_of_the_first_build() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let profile = manifest.split("[profile.release]\n").nth(1).unwrap().split("\n[").next().unwrap();
    assert!(profile.contains("strip = \"debuginfo\""), "170 MB instead of some 30: {profile}");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.contains("| first build, from an empty folder | on two cores |"));
}

/// The files of a page: after a line "File `NAME`:" a block of code.
fn files(page: &str) -> Vec<(&str, String)> {
    let mut lines = page.lines();
    let mut files = Vec::new();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("File `").and_then(|rest| rest.strip_suffix("`:")) else {
            continue;
        };
        let code = lines.by_ref().skip_while(|line| !line.starts_with("```")).skip(1);
        let code: Vec<&str> = code.take_while(|line| *line != "```").collect();
        files.push((name, code.join("\n") + "\n"));
    }
    files
}

/// The commands of a page, each with what it shows.
fn commands(page: &str) -> Vec<(&str, String)> {
    let shown = page.split("```console\n").skip(1).filter_map(|block| block.split("```").next());
    let mut commands: Vec<(&str, String)> = Vec::new();
    for line in shown.flat_map(str::lines) {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("the block begins without a command: {line}"),
        }
    }
    commands
}

/// A daemon that ends with the test, however that ends.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path) -> Daemon {
    let mut daemon = command(&["up", "--json"], folder);
    daemon.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = daemon.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let daemon = Daemon(child);
    assert!(line.contains("Sys.BootComplete"), "{line}");
    daemon
}

fn type_in(folder: &Path, line: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_mainspring"));
    let paths = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &format!("{line} 2>&1")])
        .current_dir(folder)
        .env("PATH", format!("{}:{paths}", program.parent().unwrap().display()))
        .env_remove("MAINSPRING_SOCKET")
        .env("XDG_RUNTIME_DIR", folder)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Whether times and numbers in what a command shows are others each time.
fn varies(line: &str) -> bool {
    let own = ["status", "timers", "restart", "down"].map(|name| format!("mainspring {name}"));
    line.ends_with(" --trace") || own.iter().any(|name| line.starts_with(name.as_str()))
}

/// A page with `#` for each word that has a digit, and one space where there are many.
fn shape(page: &str) -> String {
    let word =
        |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.into() };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    page.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Does what a page says, in an empty folder.
fn follow(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let page = fs::read_to_string(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files(&page) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut daemon = None;
    let commands = commands(&page);
    assert!(commands.len() > 5);
    let mut is_ended = false;
    for (line, expected) in commands {
        is_ended |= line == "mainspring down";
        if line == "mainspring up &" {
            daemon = Some(start(folder.path()));
        } else {
            let shown = type_in(folder.path(), line);
            match varies(line) {
                true => assert_eq!(shape(&shown), shape(&expected), "$ {line}\n{shown}"),
                false => assert_eq!(shown, expected, "$ {line}"),
            }
        }
    }
    let mut daemon = daemon.unwrap();
    // One that is in the last moments of its end takes no signal any more.
    if !is_ended {
        let pid = rustix::process::Pid::from_child(&daemon.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    assert!(daemon.0.wait().unwrap().success());
}

#[test]
fn the_page_about_writing_a_capability_is_true() {
    follow("docs/how-to/writing-a-capability.md");
}

#[test]
fn the_tour_of_the_readme_is_true() {
    follow("README.md");
}

#[test]
fn the_tutorial_is_true() {
    follow("docs/tutorial/first-application.md");
}

#[test]
fn each_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let said = type_in(folder.path(), &format!("mainspring manual {}", pages.display()));
    assert_eq!(said, "");
    let of = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    assert!(of("mainspring.1").contains(".TH mainspring"));
    assert!(of("mainspring-send.1").contains("Examples:"));
}
