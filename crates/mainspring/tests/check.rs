//! `mainspring check` and what it says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const GREETER: &str = r#"
id = "greeter"
description = "Greets people by name."
inbound = { properties = { kind = { const = "query" }, type = { const = "App.Greet" } } }
program = { process = ["sh", "-c", "cat"] }
outbound = { properties = { kind = { const = "reply" }, type = { const = "App.Greet" } } }
"#;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainspring"));
    command.args(arguments).current_dir(folder);
    command.env_remove("MAINSPRING_SOCKET").env("XDG_RUNTIME_DIR", "/run/user/test");
    // Compiled code is not kept for anybody else.
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command
}

fn check(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, &[&["check"], arguments].concat()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The problems of a configuration: message and place of each.
fn problems(folder: &Path) -> Vec<String> {
    let output = check(folder, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_eq!(stdout(&output), "");
    let text = String::from_utf8(output.stderr).unwrap();
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(message) = line.strip_prefix("error: ") else { continue };
        let place = lines.next().unwrap().trim_start().strip_prefix("--> ").unwrap();
        found.push(format!("{place}: {message}"));
    }
    found
}

/// The problems of one `mainspring.toml`.
fn problems_of(text: &str) -> Vec<String> {
    let folder = folder();
    write(folder.path(), "mainspring.toml", text);
    problems(folder.path())
}

/// The warnings of a configuration that can be used: message and place of each.
fn warnings(folder: &Path) -> Vec<String> {
    let output = check(folder, &["--quiet"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(message) = line.strip_prefix("warning: ") else { continue };
        let place = lines.next().unwrap().trim_start().strip_prefix("--> ").unwrap();
        found.push(format!("{place}: {message}"));
    }
    found
}

#[test]
fn a_misspelt_keyword_of_a_schema_is_a_warning_with_a_suggestion() {
    let folder = folder();
    write(folder.path(), "mainspring.toml", "manifests = ['a.toml']\n");
    write(
        folder.path(),
        "a.toml",
        "id = 'a'
description = 'A.'
outbound = 'out.json'
[inbound.properties]
kind = { const = 'query' }
type = { const = 'App.Greet' }
[inbound.properties.data]
propertys = { name = { type = 'string', minLenght = 1 } }
x-note = 'mine'
properties = { propertys = { type = 'string' } }
[program]
process = ['cat']
",
    );
    write(folder.path(), "out.json", "{ \"anyOf\": [true, { \"not\": { \"zzz\": 1 } }] }");
    assert_eq!(
        warnings(folder.path()),
        [
            "a.toml:8:1: `propertys` is not a keyword of JSON Schema and checks nothing; did you mean `properties`?",
            "out.json:1:30: `zzz` is not a keyword of JSON Schema and checks nothing; if it is a note of yours, write \
             `x-zzz`",
        ]
    );
    let output = check(folder.path(), &[]);
    assert!(stdout(&output).starts_with("mainspring.toml: it can be used, with 2 warnings\n"), "{output:?}");
}

#[test]
fn a_type_that_nothing_describes_and_a_reply_without_a_schema_are_warnings() {
    let folder = folder();
    write(folder.path(), "mainspring.toml", "manifests = ['a.json']\n");
    let manifest = |types: &str, outbound: &str| {
        format!(
            r#"{{ "id": "a", "description": "Keeps notes.", "types": {types},
"outbound": {outbound},
"inbound": {{ "oneOf": [
    {{ "description": "Keeps one.", "properties": {{ "kind": {{ "const": "command" }}, "type": {{ "const": "Notes.Add" }} }} }},
    {{ "properties": {{ "kind": {{ "const": "query" }}, "type": {{ "const": "Notes.List" }} }} }},
    {{ "properties": {{ "kind": {{ "const": "command" }}, "type": {{ "const": "Notes.Drop" }} }} }}
] }}, "program": {{ "process": ["cat"] }} }}"#
        )
    };
    let adds = r#"{ "properties": { "kind": { "const": "reply" }, "type": { "const": "Notes.Add" } } }"#;
    write(folder.path(), "a.json", &manifest("{}", adds));
    assert_eq!(
        warnings(folder.path()),
        [
            "a.json:2:13: nothing says what Notes.Drop, Notes.List replies with; add a branch with kind `reply` and \
             that type to `outbound`",
            "a.json:3:12: nothing says what Notes.Drop, Notes.List is for; write a `description` into its branch of \
             `inbound` or into `types`",
        ]
    );
    let told =
        r#"{ "Notes.List": { "description": "All." }, "Notes.Drop": { "description": "Drops one." } }"#;
    write(folder.path(), "a.json", &manifest(told, "true"));
    assert_eq!(warnings(folder.path()), Vec::<String>::new());
}

#[test]
fn a_folder_that_waits_for_its_first_capability_is_a_warning() {
    let folder = folder();
    write(folder.path(), "mainspring.toml", "manifests = ['capabilities/*/capability.*']\n");
    std::fs::create_dir(folder.path().join("capabilities")).unwrap();
    let found = warnings(folder.path());
    assert!(
        matches!(&found[..], [only] if only.contains("no file matches capabilities/*/capability.*")),
        "{found:?}"
    );
}

#[test]
fn a_script_that_is_not_there_is_a_warning() {
    let folder = folder();
    write(folder.path(), "mainspring.toml", "manifests = ['a/a.toml']\n");
    let manifest = GREETER.replace("[\"sh\", \"-c\", \"cat\"]", "[\"sh\", \"mian.sh\"]");
    write(folder.path(), "a/a.toml", &manifest);
    write(folder.path(), "a/main.sh", "cat");
    let found = warnings(folder.path());
    assert_eq!(found, ["a/a.toml:5:30: sh will find no file a/mian.sh; did you mean `main.sh`?"]);
    write(folder.path(), "a/a.toml", &manifest.replace("mian", "main"));
    assert_eq!(warnings(folder.path()), Vec::<String>::new());
}

#[test]
fn a_token_in_a_file_that_others_may_read_is_a_warning() {
    let folder = folder();
    let text = "[[listen]]\ntcp = '127.0.0.1:0'\ntokens = [{ name = 'x', token = '0123456789abcdef' }]\n";
    write(folder.path(), "mainspring.toml", text);
    let allow = |mode: u32| {
        let file = folder.path().join("mainspring.toml");
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        warnings(folder.path())
    };
    for mode in [0o644, 0o640, 0o604] {
        let found = allow(mode);
        assert_eq!(found.len(), 1, "{mode:o}: {found:?}");
        assert!(found[0].starts_with("mainspring.toml:3:25: other users may read this file"), "{found:?}");
        assert!(found[0].contains("chmod 600 mainspring.toml"), "{found:?}");
        let shown = String::from_utf8(check(folder.path(), &[]).stderr).unwrap();
        assert!(!shown.contains("0123456789abcdef"), "a log may be read by even more: {shown}");
    }
    assert_eq!(allow(0o600), Vec::<String>::new());
}

#[test]
fn a_warning_beside_an_error_is_shown_and_not_counted() {
    let folder = folder();
    let manifest = GREETER.replace("[\"sh\", \"-c\", \"cat\"]", "[\"sh\", \"gone.sh\"]");
    write(folder.path(), "mainspring.toml", "manifests = ['a.toml']\nnatve = []\n");
    write(folder.path(), "a.toml", &manifest);
    let output = check(folder.path(), &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("warning: sh will find no file"), "{text}");
    assert!(text.ends_with("the configuration has an error\n"), "{text}");
}

#[test]
fn a_second_capability_of_the_same_id_is_told_where_the_first_one_is() {
    let capability = format!("[[capability]]{GREETER}");
    let found = problems_of(&format!("{capability}\n{}", capability.replace("Greet\"", "Other\"")));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].ends_with("has the id \"greeter\" too: greeter in mainspring.toml, line 1"),
        "{found:?}"
    );
}

#[test]
fn without_a_file_the_defaults_are_checked() {
    let folder = folder();
    let output = check(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stdout(&output),
        "the built-in defaults: all is well

  listens       unix /run/user/test/mainspring/mainspring.sock
  capabilities  Memory  native Memory
                        command  Memory.Set, Memory.Delete
                        query    Memory.Get, Memory.List
"
    );
}

#[test]
fn a_whole_configuration_is_summed_up() {
    let folder = folder();
    write(
        folder.path(),
        "mainspring.toml",
        r#"
native = []
manifests = ["capabilities/*/capability.*"]

[[listen]]
unix = "run/it.sock"

[[listen]]
tcp = "127.0.0.1:0"
tokens = [{ name = "alice", token_file = "alice.token" }, { name = "bob", token = "0123456789abcdef" }]

[timeouts]
default = "10s"
drain = "0s"

[restart]
window_ms = "2m"

[limits]
line_bytes_max = "64KiB"
window_bytes_max = 1000000

[log]
level = "debug"
format = "json"
"#,
    );
    fs::set_permissions(folder.path().join("mainspring.toml"), fs::Permissions::from_mode(0o600)).unwrap();
    write(folder.path(), "alice.token", "fedcba9876543210\n");
    fs::set_permissions(folder.path().join("alice.token"), fs::Permissions::from_mode(0o600)).unwrap();
    write(folder.path(), "capabilities/greeter/capability.toml", GREETER);
    write(
        folder.path(),
        "capabilities/guest/capability.json",
        r#"{
            "id": "guest", "description": "A guest.", "inbound": "inbound.json", "outbound": true, "subscribes": ["App.Greeted"],
            "restart": { "backoff_ms": "250ms" },
            "program": { "wasm": "guest.wasm", "allow_connect": ["db.example.com:5432"], "limits": { "memory": "16MiB" } }
        }"#,
    );
    write(
        folder.path(),
        "capabilities/guest/inbound.json",
        r#"{ "properties": { "kind": { "const": "command" }, "type": { "enum": ["App.Run", "App.Stop"] } }, "description": "Runs." }"#,
    );
    fs::write(folder.path().join("capabilities/guest/guest.wasm"), trap()).unwrap();
    let output = check(folder.path(), &[]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(
        stdout(&output),
        "mainspring.toml: all is well

  listens       unix run/it.sock
                tcp 127.0.0.1:0 for alice, bob
  capabilities  greeter  process sh -c cat
                         query    App.Greet
                guest    wasm capabilities/guest/guest.wasm
                         command  App.Run, App.Stop
                         event    App.Greeted
"
    );
    let quiet = check(folder.path(), &["--quiet", "mainspring.toml"]);
    assert_eq!((quiet.status.code(), stdout(&quiet).as_str()), (Some(0), ""));
}

#[test]
fn a_problem_is_shown_with_its_line_and_a_caret() {
    let folder = folder();
    write(folder.path(), "x.toml", "[log]\nlevel = \"loud\"\n");
    let output = check(folder.path(), &["x.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: `loud` is not one of them; known are `error`, `warn`, `info`, `debug`, `trace`
 --> x.toml:2:9
  |
2 | level = \"loud\"
  |         ^^^^^^

the configuration has an error
"
    );
}

#[test]
fn a_file_that_is_not_there_is_exit_code_2() {
    let output = check(folder().path(), &["nowhere.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("there is no such file") && text.contains("nowhere.toml"), "{text}");
}

#[test]
fn unknown_keys_wrong_values_and_wrong_units_are_found_all_at_once() {
    assert_eq!(
        problems_of(
            "lisen = []\n[timeouts]\ndefault = 10\nboot = 'soon'\ndrian = '1s'\n[limits]\nline_bytes_max = '1 apple'\nchain_max = -1\n[log]\nlevel = 3\n"
        ),
        [
            "mainspring.toml:1:1: there is no key `lisen` here; did you mean `listen`?",
            "mainspring.toml:3:11: expected a duration in quotes, such as \"10s\", found the number 10, which has no unit",
            "mainspring.toml:4:8: `soon` does not begin with a number",
            "mainspring.toml:5:1: there is no key `drian` here; did you mean `drain`?",
            "mainspring.toml:7:18: `apple` is not a unit of size; use KiB, MiB or GiB",
            "mainspring.toml:8:13: expected a whole number, not negative, found the number -1",
            "mainspring.toml:10:9: expected one of the words error, warn, info, debug, trace, found the number 3",
        ]
    );
}

#[test]
fn every_fault_of_the_text_itself_is_found() {
    let found = problems_of("a = \nb = [1,\n[log\nlevel = 'info'\n");
    assert!(found.len() >= 2, "{found:?}");
    assert!(found[0].starts_with("mainspring.toml:1:5: "), "{found:?}");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    assert_eq!(
        problems_of(
            "[limits]\nrequests_max = 0\nline_bytes_max = '100G'\n[timeouts]\nmax = '1s'\nhang = '0s'\n"
        ),
        [
            "mainspring.toml:2:16: requests_max must be at least 1",
            "mainspring.toml:3:18: line_bytes_max must be at most 2147483647",
            "mainspring.toml:5:7: the default must not be longer than the maximum",
            "mainspring.toml:6:8: hang must be at least 1ms",
        ]
    );
}

#[test]
fn listeners_are_checked() {
    let long = "x".repeat(120);
    assert_eq!(
        problems_of(&format!(
            "[[listen]]\nunix = '/{long}'\n[[listen]]\ntcp = '0.0.0.0:80'\n[[listen]]\ntcp = '127.0.0.1'\n[[listen]]\ntcp = '127.0.0.1:80'\n[[listen]]\n[[listen]]\nunix = 'a'\ntcp = 'b'\n[[listen]]\nunix = 'a'\ntokens = []\n"
        )),
        [
            &format!("mainspring.toml:2:8: the path of a socket has at most 107 bytes: /{long}"),
            "mainspring.toml:4:7: beyond loopback (127.0.0.1, [::1]) TCP is served with `tls` only: what is said could be read on its way",
            "mainspring.toml:6:7: expected an address and a port, such as 127.0.0.1:7700 or [::1]:7700",
            "mainspring.toml:8:7: everybody on this machine can reach a TCP socket: name in `tokens` who may connect",
            "mainspring.toml:9:1: write `unix` or `http_unix` with a path, or `tcp` or `http` with an address",
            "mainspring.toml:10:1: these are several places: write a table for each",
            "mainspring.toml:15:1: a Unix socket knows its clients by their user; `tokens` are for `tcp` and `http`",
        ]
    );
    assert_eq!(
        problems_of(
            "[[listen]]\nunix = 'a.sock'\n[[listen]]\nunix = './a.sock'\n[[listen]]\nunix = ''\n[[listen]]\nunix = 'b/..'\n"
        ),
        [
            "mainspring.toml:3:1: this socket is listed twice",
            "mainspring.toml:6:8: the path of a socket ends with its name",
            "mainspring.toml:8:8: the path of a socket ends with its name",
        ]
    );
    assert_eq!(
        problems_of("listen = []"),
        ["mainspring.toml:1:10: no client could connect; leave `listen` out for the usual socket"]
    );
}

#[test]
fn tokens_are_long_secret_and_told_apart() {
    let folder = folder();
    write(folder.path(), "open.token", "0123456789abcdef");
    fs::set_permissions(folder.path().join("open.token"), fs::Permissions::from_mode(0o644)).unwrap();
    write(
        folder.path(),
        "mainspring.toml",
        "[[listen]]\ntcp = '[::1]:7700'\ntokens = [\n{ name = 'a', token = 'short' },\n{ name = 'b', token_file = 'open.token' },\n{ name = 'c', token_file = 'none' },\n{ name = 'd' },\n{ name = 'e', token = '0123456789abcdef' },\n{ name = 'f', token = '0123456789abcdef' },\n{ name = 'e', token = 'another-long-secret' },\n]\n",
    );
    assert_eq!(
        problems(folder.path()),
        [
            "mainspring.toml:4:23: a token has at least 16 characters and no spaces; `openssl rand -hex 16` makes one",
            "mainspring.toml:5:28: open.token may be read by others; `chmod 600 open.token`",
            "mainspring.toml:6:28: none: there is no such file",
            "mainspring.toml:7:1: write either `token` or `token_file`",
            "mainspring.toml:9:10: this token has two names; every client needs a token of its own",
            "mainspring.toml:10:10: the name \"e\" is listed twice",
        ]
    );
}

#[test]
fn manifests_that_are_missing_or_broken_are_named() {
    let folder = folder();
    write(
        folder.path(),
        "mainspring.toml",
        "manifests = ['no/*.toml', 'none.toml', 'a.toml', 'b.json', 'a.*']\n",
    );
    write(folder.path(), "a.toml", "id = 'a'\nprogram = { process = ['sh'] }\n");
    write(folder.path(), "b.json", "{ \"id\": \"b\", }");
    assert_eq!(
        problems(folder.path()),
        [
            "mainspring.toml:1:14: no file matches no/*.toml",
            "mainspring.toml:1:27: none.toml: there is no such file",
            "a.toml:1:1: the key `description` is missing",
            "b.json:1:14: key must be a string",
        ]
    );
}

#[test]
fn programs_that_cannot_run_are_found() {
    let folder = folder();
    let manifest = |id: &str, program: &str| {
        format!(
            "[[capability]]\nid = '{id}'\ndescription = 'x'\ninbound = {{ properties = {{ kind = {{ const = 'query' }}, type = {{ const = 'App.{id}' }} }} }}\nprogram = {program}\n"
        )
    };
    let programs = [
        ("A", "{ process = ['./missing.sh'] }"),
        ("B", "{ process = ['./plain.sh'] }"),
        ("C", "{ process = ['no-such-program-anywhere'] }"),
        ("D", "{ process = ['plain.sh'] }"),
        ("E", "{ process = [] }"),
        ("F", "{ process = ['sh'], folder = 'nowhere' }"),
        ("G", "{ process = ['sh'], allow_connect = [] }"),
        ("H", "{ wasm = 'plain.sh' }"),
        ("I", "{ wasm = 'ok.wasm', allow_connect = ['db:5432', 'db'], allow_listen = ['127.0.0.1:x'] }"),
        ("J", "{ wasm = 'ok.wasm', folders = ['nowhere::/data:ro', '::'] }"),
        ("K", "{ native = 'Memroy' }"),
        ("L", "{ }"),
        ("M", "{ process = ['sh'], wasm = 'ok.wasm' }"),
        ("N", "{ process = 'sh -c cat' }"),
        ("O", "{ process = ['./windows.sh'] }"),
    ];
    let text: String = programs.iter().map(|(id, program)| manifest(id, program)).collect();
    write(folder.path(), "mainspring.toml", &text);
    write(folder.path(), "plain.sh", "echo\n");
    write(folder.path(), "windows.sh", "#!/bin/sh\r\ncat\r\n");
    fs::set_permissions(folder.path().join("windows.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    write(folder.path(), "ok.wasm", "\0asm\x01\0\0\0");
    let found = problems(folder.path());
    let expected = [
        (5, "missing.sh: there is no such file"),
        (10, "plain.sh may not be run; `chmod +x"),
        (15, "no program \"no-such-program-anywhere\" is in PATH"),
        (20, "write \"./plain.sh\""),
        (25, "say which program to run"),
        (30, "there is no folder nowhere"),
        (35, "there is no key `allow_connect` here"),
        (40, "is not WebAssembly"),
        (45, "`db` is not a network rule: it has no port"),
        (45, "`127.0.0.1:x` is not a network rule"),
        (50, "there is no folder nowhere"),
        (50, "a folder is HOST, HOST::GUEST"),
        (55, "did you mean `Memory`?"),
        (60, "one of `process`, `wasm`, `mcp` or `native`"),
        (65, "one of `process`, `wasm`, `mcp` or `native`"),
        (70, "expected a list, found the text \"sh -c cat\""),
        (75, "windows.sh: its first line names \"/bin/sh\\r\", which is not there"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (problem, (line, words)) in found.iter().zip(expected) {
        assert!(
            problem.starts_with(&format!("mainspring.toml:{line}:")) && problem.contains(words),
            "{problem}"
        );
    }
}

/// A module: a section a byte sequence, each with its number.
fn module(sections: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    for (number, section) in sections {
        bytes.extend([*number, u8::try_from(section.len()).unwrap()]);
        bytes.extend_from_slice(section);
    }
    bytes
}

/// A module that can be started; whoever runs it finds out, since its first instruction is
/// `unreachable`.
fn trap() -> Vec<u8> {
    module(&[(1, b"\x01\x60\0\0"), (3, b"\x01\0"), (7, b"\x01\x06_start\0\0"), (10, b"\x01\x03\0\0\x0b")])
}

#[test]
fn guests_that_cannot_start_are_found_and_up_refuses_them_in_the_same_words() {
    const FUNCTION: &[u8] = b"\x01\x60\0\0";
    const BODY: &[u8] = b"\x01\x02\0\x0b";
    let start: &[u8] = b"\x01\x06_start\0\0";
    let guests = [
        ("broken", b"\0asm\x01\0\0\0\x01\xff\xff".to_vec(), "cannot compile the guest"),
        ("empty", module(&[]), "exports neither `_start` nor `main`"),
        (
            "typed",
            module(&[(1, b"\x01\x60\x01\x7f\0"), (3, b"\x01\0"), (7, start), (10, BODY)]),
            "`_start` has an unexpected type",
        ),
        (
            "foreign",
            module(&[
                (1, FUNCTION),
                (2, b"\x01\x03env\x03foo\0\0"),
                (3, b"\x01\0"),
                (7, b"\x01\x06_start\0\x01"),
                (10, BODY),
            ]),
            "unknown import: `env::foo`",
        ),
        (
            "hungry",
            module(&[(1, FUNCTION), (3, b"\x01\0"), (5, b"\x01\0\xd0\x0f"), (7, start), (10, BODY)]),
            "the guest needs 125MiB of memory to begin with, and its limit (`limits.memory`) is 64MiB",
        ),
    ];
    for (name, bytes, words) in guests {
        let folder = folder();
        fs::write(folder.path().join("it.wasm"), bytes).unwrap();
        let manifest = GREETER.replace("{ process = [\"sh\", \"-c\", \"cat\"] }", "{ wasm = 'it.wasm' }");
        write(folder.path(), "greeter.toml", &manifest);
        write(
            folder.path(),
            "mainspring.toml",
            "manifests = ['greeter.toml']\n[[listen]]\nunix = 'it.sock'\n",
        );
        let found = problems(folder.path());
        let [problem] = &found[..] else { panic!("{name}: {found:#?}") };
        assert!(
            problem.starts_with("greeter.toml:5:20: it.wasm: ") && problem.contains(words),
            "{name}: {problem}"
        );
        let complaint = problem.split_once(": ").unwrap().1;
        let output = command(folder.path(), &["up"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(complaint), "{name}: {complaint}: {text}");
    }
}

#[test]
fn a_guest_that_can_start_is_compiled_and_not_run() {
    let folder = folder();
    fs::write(folder.path().join("it.wasm"), trap()).unwrap();
    let manifest = GREETER.replace("{ process = [\"sh\", \"-c\", \"cat\"] }", "{ wasm = 'it.wasm' }");
    write(folder.path(), "mainspring.toml", &format!("[[capability]]\n{manifest}"));
    let output = check(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout(&output).contains("wasm it.wasm"));
}

#[test]
fn schemas_that_cannot_be_used_are_shown_at_the_offending_node() {
    let folder = folder();
    write(folder.path(), "mainspring.toml", "manifests = ['m.toml', 'n.toml']\n");
    write(
        folder.path(),
        "m.toml",
        "id = 'm'\ndescription = 'x'\nprogram = { process = ['sh'] }\n[inbound.properties.kind]\nconst = 'query'\n[inbound.properties.type]\ntype = 'string'\n",
    );
    write(
        folder.path(),
        "n.toml",
        "id = 'n'\ndescription = 'x'\ninbound = 'in.json'\noutbound = 'out.json'\nprogram = { process = ['sh'] }\n",
    );
    let kinds = "\"kind\": { \"const\": \"query\" }";
    write(
        folder.path(),
        "in.json",
        &format!(
            "{{\n\"oneOf\": [\n{{ \"properties\": {{ {kinds}, \"type\": {{ \"enum\": [\"bad name\"] }} }} }}\n] }}"
        ),
    );
    write(folder.path(), "out.json", "{ \"type\": 1 }");
    let found = problems(folder.path());
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[0].starts_with("m.toml:6:1: inbound, #/properties/type: admits any string"),
        "{}",
        found[0]
    );
    assert!(found[1].starts_with("in.json:3:"), "{}", found[1]);
}

#[test]
fn what_two_capabilities_cannot_share_is_found() {
    let folder = folder();
    write(folder.path(), "mainspring.toml", "manifests = ['*/c.toml']\n");
    write(folder.path(), "a/c.toml", GREETER);
    write(folder.path(), "b/c.toml", GREETER);
    write(folder.path(), "c/c.toml", &GREETER.replace("greeter", "other").replace("App.Greet", "Memory.Get"));
    write(folder.path(), "d/c.toml", &GREETER.replace("greeter", "system").replace("App.Greet", "Sys.Mine"));
    write(
        folder.path(),
        "e/c.toml",
        &format!(
            "{}\nlimits = {{ concurrency = 0 }}\n",
            GREETER.replace("greeter", "zero").replace("App.Greet", "App.Zero")
        ),
    );
    assert_eq!(
        problems(folder.path()),
        [
            "b/c.toml:2:6: another capability has the id \"greeter\" too: greeter in a/c.toml",
            "b/c.toml:4:11: greeter handles the query App.Greet, but so does greeter in a/c.toml; a query has one handler",
            "c/c.toml:4:11: other handles the query Memory.Get, but so does the native Memory; a query has one handler",
            "d/c.toml:4:11: system claims query:Sys.Mine, which the kernel keeps for itself",
            "e/c.toml:8:26: limits.concurrency must be at least 1",
        ]
    );
}

#[test]
fn pages_that_are_made_from_the_code_are_up_to_date() {
    for name in ["configuration", "protocol"] {
        let page = stdout(&check(folder().path(), &[&format!("--reference={name}")]));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/reference/{name}.md"));
        let kept = fs::read_to_string(path).unwrap_or_default();
        let command = format!("mainspring check --reference={name} > docs/reference/{name}.md");
        assert!(kept == page, "docs/reference/{name}.md is stale; run `{command}`");
    }
}

#[test]
fn the_configuration_is_the_page_that_is_shown_first() {
    let output = check(folder().path(), &["--reference"]);
    assert!(stdout(&output).starts_with("# Configuration\n"));
}

#[test]
fn the_example_of_the_documentation_is_valid() {
    let page = stdout(&check(folder().path(), &["--reference"]));
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = folder();
    write(folder.path(), "mainspring.toml", example);
    write(
        folder.path(),
        "capabilities/one/capability.toml",
        &GREETER.replace("greeter", "one").replace("App.Greet", "App.One"),
    );
    let output = check(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_token_cannot_have_the_name_of_a_peer_without_one() {
    let tokens = ["user:0", "user:", "stdio"]
        .map(|name| format!("{{ name = '{name}', token = '0123456789abcdef-{name}' }}"));
    let text = format!(
        "[[listen]]\ntcp = '127.0.0.1:7700'\ntokens = [\n{},\n{{ name = 'users:0', token = 'fedcba9876543210' }},\n]\n",
        tokens.join(",\n")
    );
    let found = problems_of(&text);
    assert_eq!(found.len(), 3, "{found:?}");
    for (line, problem) in (4..).zip(&found) {
        let place = format!("mainspring.toml:{line}:10: that is the name of a user of the Unix socket");
        assert!(problem.starts_with(&place), "{problem}");
    }
}

#[test]
fn what_is_wrong_beside_a_token_is_shown_without_it() {
    let folder = folder();
    for (line, words) in [
        ("tokens = [{ name = 'ann', token = 'very-secret-token', nmae = 1 }]", "did you mean `name`?"),
        ("tokens = [{ name = 'ann', tokn = 'very-secret-token' }]", "did you mean `token`?"),
        ("tokens = ['very-secret-token']", "expected a table"),
        ("tokens = [{ name = 'ann', token = 'very-secret-token }]", "error"),
        ("tokens = [{ name = 'ann', token = very-secret-token }]", "error"),
        ("tokens = [{ name = 'ann', token = ['very-secret-token'] }]", "expected text"),
        ("tokens = [{ name = 'ann', token = 'very secret token' }]", "no spaces"),
        (
            "tokens = [{ name = 'ann', token = \"\"\"\nvery-secret-token \"\"\", x = 1 }]",
            "there is no key `x`",
        ),
        ("[[listen.tokens]]\nname = 'ann'\ntokn = 'very-secret-token'", "did you mean `token`?"),
    ] {
        write(folder.path(), "mainspring.toml", &format!("[[listen]]\ntcp = '127.0.0.1:7700'\n{line}\n"));
        let output = check(folder.path(), &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(words), "{line}: {text}");
        assert!(!text.contains("secret"), "{line}: {text}");
        assert!(text.contains("mainspring.toml:"), "{line}: {text}");
    }
}
