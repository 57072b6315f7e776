//! HTTP at the real daemon. What the listener itself promises is tested in `crates/http`.

use crate::support::{Daemon, PATIENCE, eventually};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

const TOKEN: &str = "0123456789abcdef";
const CONFIG: &str = r#"
[[listen]]
http = "127.0.0.1:0"
tokens = [{ name = "ann", token = "0123456789abcdef" }]
"#;

/// Where it listens, without the scheme.
fn place(daemon: &Daemon) -> String {
    let mut adapters = daemon.boot["data"]["adapters"].as_array().unwrap().iter();
    adapters.find_map(|adapter| adapter.as_str()?.strip_prefix("http:http://")).unwrap().to_owned()
}

fn connect(daemon: &Daemon) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(place(daemon)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(stream)
}

/// One request on a connection; its status and body.
fn ask<S: Read + Write>(
    stream: &mut BufReader<S>,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> (u16, Vec<u8>) {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (status, body)
}

fn send(daemon: &Daemon, type_name: &str, data: &Value) -> (u16, Value) {
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let path = format!("/v1/commands/{type_name}");
    let (status, body) = ask(&mut connect(daemon), "POST", &path, &token, &data.to_string());
    (status, serde_json::from_slice(&body).unwrap())
}

#[test]
fn http_and_the_socket_are_the_same_bus() {
    let daemon = Daemon::with_config(CONFIG);
    assert_eq!(send(&daemon, "Memory.Set", &json!({ "key": "a", "value": [1, 2] })).0, 200);
    let read = daemon.connect().query("Memory.Get", json!({ "key": "a" }));
    assert_eq!(read["value"], json!([1, 2]));
    let (status, problem) = send(&daemon, "Memory.Set", &json!({ "value": 1 }));
    assert_eq!((status, &problem["type"]), (422, &json!("Sys.SchemaError")), "{problem}");
    let (status, _) = ask(&mut connect(&daemon), "POST", "/v1/commands/Memory.Set", "", "{}");
    assert_eq!(status, 401);
    daemon.end();
}

#[test]
fn a_connection_by_http_ends_with_its_client() {
    let daemon = Daemon::with_config(CONFIG);
    let before = daemon.stats()["gauges"]["connections"].clone();
    for n in 0..50 {
        assert_eq!(send(&daemon, "Memory.Set", &json!({ "key": "a", "value": n })).0, 200);
    }
    eventually("all of them are gone", || daemon.stats()["gauges"]["connections"] == before);
    daemon.end();
}

#[test]
fn http_on_a_unix_socket_needs_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let daemon = Daemon::with_config(&format!("[[listen]]\nhttp_unix = {:?}\n", path.to_str().unwrap()));
    let stream = UnixStream::connect(&path).unwrap();
    let (status, body) = ask(&mut BufReader::new(stream), "POST", "/v1/queries/Syscall.Ping", "", "7");
    assert_eq!((status, body.as_slice()), (200, &b"7"[..]));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    daemon.end();
    assert!(!path.exists(), "the socket is still there");
}

#[test]
fn up_with_http_makes_a_token_for_the_run_that_only_its_owner_can_read() {
    let daemon = Daemon::prepared("", &[], |command: &mut Command| {
        command.args(["--http", "127.0.0.1:0"]);
    });
    let file = daemon.path("socket.http");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let told: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(told["url"], format!("http://{}", place(&daemon)));
    let token = format!("Authorization: Bearer {}\r\n", told["token"].as_str().unwrap());
    let (status, _) = ask(&mut connect(&daemon), "POST", "/v1/queries/Syscall.Ping", &token, "7");
    assert_eq!(status, 200);
    assert!(!daemon.log().contains(told["token"].as_str().unwrap()), "the token is in the log");
    daemon.end();
    assert!(!file.exists(), "the token is still there");
}

#[test]
fn a_request_by_http_is_answered_before_the_daemon_ends() {
    let script = r#"read -r line; sleep 1; id=${line#*'"id":"'}; id=${id%%'"'*}
printf '{"kind":"reply","type":"Slow.Work","data":1,"metadata":{"id":"r","timestamp":1,"causation":"%s"}}\n' "$id"; cat >/dev/null"#;
    let config = format!(
        "{CONFIG}\n[[capability]]\nid = \"slow\"\ndescription = \"Takes a second.\"\nprogram = {{ process = [\"sh\", \"slow.sh\"] }}\n\
         inbound = {{ properties = {{ kind = {{ const = \"command\" }}, type = {{ const = \"Slow.Work\" }} }} }}\n"
    );
    let mut daemon = Daemon::with_files(&config, &[("slow.sh", script)]);
    let mut stream = connect(&daemon);
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let asked = std::thread::spawn(move || ask(&mut stream, "POST", "/v1/commands/Slow.Work", &token, "1"));
    eventually("it is being worked on", || daemon.stats()["gauges"]["inFlight"] == 1);
    daemon.signal("TERM");
    assert_eq!(asked.join().unwrap(), (200, b"1".to_vec()));
    assert!(daemon.wait().success());
}

#[test]
fn an_http_listener_beyond_loopback_needs_tls() {
    let mut check = crate::support::mainspring();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mainspring.toml");
    std::fs::write(&file, CONFIG.replace("127.0.0.1", "0.0.0.0")).unwrap();
    let output = check.arg("check").arg(&file).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("`tls`"), "{text}");
}

#[test]
fn an_idle_daemon_with_http_makes_no_system_call() {
    let daemon = Daemon::with_config(CONFIG);
    assert_eq!(send(&daemon, "Memory.Set", &json!({ "key": "a", "value": 1 })).0, 200);
    eventually("the client is gone", || daemon.stats()["gauges"]["connections"] == 1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let cpu = || {
        let text = std::fs::read_to_string(format!("/proc/{}/task/{0}/schedstat", daemon.pid())).unwrap();
        text.split(' ').nth(2).unwrap().trim().to_owned()
    };
    let before = cpu();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(cpu(), before, "its thread was scheduled though nobody asked anything");
    daemon.end();
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_numbers_that_there_are() {
    let daemon = Daemon::with_config(CONFIG);
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let (status, body) = ask(&mut connect(&daemon), "GET", "/metrics", &token, "");
    assert_eq!(status, 200);
    let told = String::from_utf8(body).unwrap();
    let names = |text: &str| -> Vec<String> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words = text.split(|letter| !is_name(letter)).filter(|word| word.starts_with("mainspring_"));
        // The package of Debian is called `mainspring_0.1.0_amd64.deb`.
        words.filter(|word| !word.starts_with("mainspring_0")).map(str::to_owned).collect()
    };
    let there: std::collections::HashSet<String> = names(&told).into_iter().collect();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to");
    for file in ["grafana.json", "operations.md"] {
        let asked = names(&std::fs::read_to_string(folder.join(file)).unwrap());
        assert!(asked.len() > 5, "{file}");
        let missing: Vec<&String> = asked.iter().filter(|name| !there.contains(*name)).collect();
        assert!(missing.is_empty(), "{file} asks for {missing:?}");
    }
    daemon.end();
}

#[test]
fn a_client_by_http_is_turned_away_in_http_when_there_are_no_descriptors() {
    let daemon = Daemon::prepared(CONFIG, &[], |command| crate::clients::limit_descriptors(command, 40));
    let mut crowd: Vec<_> = (0..60).map(|_| connect(&daemon)).collect();
    let last = crowd.last_mut().unwrap();
    let mut said = String::new();
    last.read_line(&mut said).unwrap();
    assert_eq!(said, "HTTP/1.1 503 Service Unavailable\r\n");
    drop(crowd);
    eventually("there is room again", || {
        let mut stream = connect(&daemon);
        stream.get_mut().write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").is_ok()
            && stream.read_line(&mut String::new()).is_ok_and(|count| count > 0)
    });
    daemon.end();
}

#[test]
fn what_a_token_may_not_see_is_in_no_document_and_is_not_sent() {
    let capability = |id: &str, name: &str| {
        format!(
            "[[capability]]\nid = \"{id}\"\ndescription = \"Answers.\"\nprogram = {{ process = [\"cat\"] }}\n\
             inbound = {{ properties = {{ kind = {{ const = \"command\" }}, type = {{ const = \"{name}\" }} }} }}\n\
             outbound = {{ properties = {{ kind = {{ const = \"event\" }}, type = {{ const = \"{name}d\" }} }} }}\n"
        )
    };
    let config = CONFIG.replace(
        "tokens = [",
        "tokens = [{ name = \"ci\", token = \"fedcba9876543210\", allow = [\"Order.*\"] }, ",
    ) + &capability("shop", "Order.Place")
        + &capability("bank", "Bank.Transfer");
    let daemon = Daemon::with_config(&config);
    let get = |token: &str, path: &str| {
        let token = format!("Authorization: Bearer {token}\r\n");
        let (status, body) = ask(&mut connect(&daemon), "GET", path, &token, "");
        (status, String::from_utf8(body).unwrap())
    };
    for path in ["/openapi.json", "/asyncapi.json"] {
        let (status, whole) = get(TOKEN, path);
        assert_eq!(status, 200);
        assert!(whole.contains("Order.Place") && whole.contains("Bank.Transfer"), "{path}: {whole}");
        let (status, part) = get("fedcba9876543210", path);
        assert_eq!(status, 200);
        assert!(part.contains("Order.Place") && !part.contains("Bank."), "{path}: {part}");
    }
    assert_eq!(get(TOKEN, "/schemas/Bank.Transfer.json").0, 200);
    assert_eq!(get("fedcba9876543210", "/schemas/Bank.Transfer.json").0, 404);
    let token = "Authorization: Bearer fedcba9876543210\r\n";
    for (path, body) in [
        ("/v1/commands/Bank.Transfer", "{}"),
        ("/v1/commands/Sys.Tap", "{}"),
        ("/v1/queries/Sys.DeadLetters", "{}"),
    ] {
        let (status, body) = ask(&mut connect(&daemon), "POST", path, token, body);
        assert_eq!(status, 403, "{path}: {}", String::from_utf8_lossy(&body));
    }
    for path in ["/v1/events?types=*", "/v1/events?types=Bank.*", "/v1/events?tap={}"] {
        let (status, body) = ask(&mut connect(&daemon), "GET", path, token, "");
        assert_eq!(status, 403, "{path}: {}", String::from_utf8_lossy(&body));
    }
    daemon.end();
}
