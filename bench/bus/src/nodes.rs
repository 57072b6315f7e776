//! `bus-bench --nodes`: requests to another node over NATS, beside bare requests by the same
//! nats-server with its own client library on both ends; one to three nodes that share what waits;
//! and local requests of a daemon that is on a bus.

use crate::cases::Case;
use crate::daemon;
use crate::harness::{Folder, print_defaults, put_under_load};
use crate::process::{Address, Server};
use crate::subjects::{self, Subject};
use bench_support::{Options, Results, Target, publish, run_rounds};
use mainspring_message::{Draft, Envelope};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const LOAD_MS: u64 = 2000;
const LOAD_MS_QUICK: u64 = 500;
const ROUNDS: u32 = 5;
/// One request at a time has few samples, and is mostly the time that idle cores take to wake.
const ROUNDS_ONE_AT_A_TIME: u32 = 15;
const ROUNDS_QUICK: u32 = 1;
/// How long nodes may take to find each other.
const MEETING_LIMIT: Duration = Duration::from_secs(30);
/// How long the capability that waits takes for each request.
const WAIT: Duration = Duration::from_millis(5);

/// A capability that takes its time, one request after the other: several nodes of it are faster
/// than one, on any machine.
pub(crate) fn run_waiting_program() -> Result<(), String> {
    let (mut line, mut scratch) = (String::new(), String::new());
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for number in 0u64.. {
        line.clear();
        if input.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
        let message = Envelope::parse(line.trim_end().as_bytes()).map_err(|error| error.to_string())?;
        std::thread::sleep(WAIT);
        let reply = Draft::reply(&message, message.data_json());
        let answer = reply.compose(&format!("w-{number}"), message.timestamp_ms(), &mut scratch);
        writeln!(output, "{}", answer.line())
            .and_then(|()| output.flush())
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

const SCHEMA: &str = r#"
[capability.inbound.properties.data]
type = "object"
properties = { key = { type = "string", minLength = 1, maxLength = 512 }, value = {} }
required = ["key", "value"]
additionalProperties = false
"#;

/// A daemon on the bus with this configuration.
fn node(
    folder: &Path,
    bus: &str,
    name: &str,
    url: &str,
    import: &str,
    rest: &str,
) -> Result<(Server, String), String> {
    let config = folder.join(format!("{bus}-{name}.toml"));
    let text = format!(
        "{rest_head}[uplink]\nnats = [{url:?}]\nbus = {bus:?}\nnode = {name:?}\nimport = [{import}]\n{rest}",
        rest_head = if rest.contains("native-memory") { "" } else { "native = []\n" },
    );
    std::fs::write(&config, text).map_err(|error| format!("cannot write {}: {error}", config.display()))?;
    let config = config.display().to_string();
    let (server, address) = daemon::start(folder, &format!("{bus}-{name}"), &["--config", &config])?;
    let (Address::Unix(address) | Address::Tcp(address)) = address;
    Ok((server, address))
}

fn shared_memory() -> String {
    format!(
        "[[capability]]\nid = \"memory\"\ndescription = \"Keeps values.\"\nshare = true\n\
         limits = {{ concurrency = 256, mailbox_messages = 32768 }}\nprogram = {{ native = \"Memory\" }}\n\
         [capability.inbound.properties]\nkind = {{ const = \"command\" }}\ntype = {{ const = \"Memory.Set\" }}\n{SCHEMA}"
    )
}

fn waiting() -> Result<String, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?.display().to_string();
    Ok(format!(
        "[[capability]]\nid = \"bench\"\ndescription = \"Takes its time.\"\nshare = true\n\
         program = {{ process = [{this:?}, \"waiting-program\"] }}\n\
         [capability.inbound.properties]\nkind = {{ const = \"command\" }}\ntype = {{ const = \"Bench.Set\" }}\n{SCHEMA}"
    ))
}

/// Waits until so many nodes can be sent to.
fn meet(socket: &str, nodes: usize) -> Result<(), String> {
    let deadline = Instant::now() + MEETING_LIMIT;
    loop {
        let told = ask_for_stats(socket).unwrap_or_default();
        let imports = told.split("\"imports\":[{").nth(1).unwrap_or_default();
        let list =
            imports.split("\"nodes\":[").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
        if list.split(',').filter(|name| !name.is_empty()).count() >= nodes {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("the nodes did not find each other: {told}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ask_for_stats(socket: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let id = bench_support::monotonic_ns();
    writeln!(
        stream,
        r#"{{"kind":"query","type":"Sys.Stats","data":{{}},"metadata":{{"id":"stats-{id}","timestamp":1}}}}"#
    )?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

/// Everybody, and who is needed for that.
struct Cast {
    subjects: Vec<(Subject, &'static [&'static str])>,
    _behind: Vec<Server>,
}

const EXCHANGE: &[&str] = &["one-at-a-time", "64-under-way"];
const WAITING: &[&str] = &["waiting"];
const LOCAL: &[&str] = &["local"];

fn cast(folder: &Path) -> Result<Cast, String> {
    let nats = subjects::nats()?;
    let url = nats.address.clone();
    let (mut subjects, mut behind) = (vec![(nats, EXCHANGE)], Vec::new());
    behind.push(node(folder, "memory", "b", &url, "", &shared_memory())?.0);
    let (server, socket) = node(folder, "memory", "a", &url, "\"Memory.*\"", "")?;
    meet(&socket, 1)?;
    subjects.push((Subject::on_socket("mainspring", "memory", server, socket), EXCHANGE));
    for (count, name) in [(1, "mainspring-1-node"), (2, "mainspring-2-nodes"), (3, "mainspring-3-nodes")] {
        let bus = format!("waiting{count}");
        for number in 0..count {
            behind.push(node(folder, &bus, &format!("b{number}"), &url, "", &waiting()?)?.0);
        }
        let (server, socket) = node(folder, &bus, "a", &url, "\"Bench.*\"", "")?;
        meet(&socket, count)?;
        subjects.push((Subject::on_socket(name, "capability", server, socket), WAITING));
    }
    let (server, socket) = node(folder, "local", "a", &url, "", "# native-memory\n")?;
    subjects.push((Subject::on_socket("mainspring-on-a-bus", "memory", server, socket), LOCAL));
    let (server, address) = daemon::native_with(folder, "alone", &[])?;
    let (Address::Unix(address) | Address::Tcp(address)) = address;
    subjects.push((Subject::on_socket("mainspring-alone", "memory", server, address), LOCAL));
    Ok(Cast { subjects, _behind: behind })
}

/// What has to be reached. (Local requests on a bus and alone, and one node beside two, stand side
/// by side in the report.)
fn targets() -> Vec<Target> {
    vec![
        Target::within("one-at-a-time", "p50", 1.6, &["nats"]),
        Target::within("64-under-way", "requests_per_s", 0.6, &["nats"]).of_rate(),
    ]
}

/// Runs the suite, prints the report and writes the rows.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    print_defaults();
    let folder = Folder::new()?;
    let cast = cast(folder.path())?;
    let case = |name: &str, connections, depth| Case { name: name.to_owned(), connections, depth };
    let mut cases = vec![
        case("one-at-a-time", 1, 1),
        case("64-under-way", 1, 64),
        case("waiting", 1, 64),
        case("local", 1, 64),
    ];
    cases.retain(|case| options.wants_case(&case.name));
    let mut results = Results::new("nodes");
    let rounds_of = |case: &Case| match (options.rounds, options.quick, case.depth) {
        (Some(rounds), ..) => rounds,
        (None, true, _) => ROUNDS_QUICK,
        (None, false, 1) => ROUNDS_ONE_AT_A_TIME,
        (None, false, _) => ROUNDS,
    };
    let load_ms = if options.quick { LOAD_MS_QUICK } else { LOAD_MS };
    run_rounds(&cases, rounds_of, Duration::MAX, |case, round| {
        for position in 0..cast.subjects.len() {
            let (subject, its_cases) = &cast.subjects[(position + round) % cast.subjects.len()];
            if !its_cases.contains(&case.name.as_str()) || !options.wants_subject(subject.name) {
                continue;
            }
            if let Err(problem) = put_under_load(subject, case, load_ms, &mut results) {
                eprintln!("{} {}: {problem}", case.name, subject.name);
            }
        }
    });
    publish(&results, &targets(), options);
    Ok(())
}
