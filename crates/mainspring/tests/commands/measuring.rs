//! `bench`.

use crate::fake::{command, stderr, stdout};
use crate::real::Real;
use serde_json::Value;

#[test]
fn bench_measures_a_daemon_of_its_own_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let bench = |arguments: &[&str]| {
        let all =
            [&["bench", "--duration", "50ms", "--connections", "2", "--depth", "16"][..], arguments].concat();
        let output = command(&all, folder.path()).env("TMPDIR", folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        stdout(&output).to_owned()
    };
    let page = bench(&[]);
    assert!(page.contains("shipped defaults: ") && page.contains("REQUESTS/S"), "{page}");
    let row: Vec<&str> = page.lines().last().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row.len()), ("2", "16", 9), "{page}");
    let figures: Value = serde_json::from_str(&bench(&["--json"])).unwrap();
    let case = &figures["cases"][0];
    assert!(case["replies"].as_u64() > Some(0) && case["errors"] == 0, "{figures}");
    let latency = &case["latencyNs"];
    assert!(
        latency["p50"].as_u64() > Some(0) && latency["p50"].as_u64() <= latency["max"].as_u64(),
        "{figures}"
    );
}

#[test]
fn bench_measures_a_daemon_that_runs_already() {
    let daemon = Real::start("");
    let socket = daemon.folder().join("it.sock");
    let page = daemon.ok(&[
        "bench",
        "--duration",
        "50ms",
        "--connections",
        "1",
        "--depth",
        "1",
        "--socket",
        socket.to_str().unwrap(),
    ]);
    assert!(page.contains("as it is set"), "{page}");
    assert!(daemon.ok(&["query", "Memory.List"]).contains("bench-0"));
}
