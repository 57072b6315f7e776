//! What every subject that serves connections does: start the client, take the time of its batches,
//! print the figures.

use bench_support::process_cpu_ns;
use mainspring_reactor::Remote;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

/// How much the client does.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: u64,
    pub(crate) active: u64,
    pub(crate) round_trips: u64,
    pub(crate) batches: u64,
}

impl Load {
    pub(crate) fn new(numbers: [u64; 4]) -> Load {
        let [connections, active, round_trips, batches] = numbers;
        Load { connections, active, round_trips, batches }
    }
}

/// Starts the client, on this core if only one of the two ends ever has work, and, on a thread of
/// its own, reads what it says; when it is done, prints the figures and stops the loop.
pub(crate) fn measure_client(port: u16, load: Load, remote: Remote) {
    if load.active == 1 {
        bench_support::stay_on_one_core();
    }
    let this = std::env::current_exe().expect("a running program has a path");
    let numbers = [u64::from(port), load.connections, load.active, load.round_trips, load.batches];
    let mut client = Command::new(this)
        .arg("client")
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started again");
    let output = client.stdout.take().expect("it is piped");
    let mut go_on = client.stdin.take().expect("it is piped");
    std::thread::spawn(move || {
        let mut batches = Batches { cpu_before: 0, figures: Vec::new() };
        for line in BufReader::new(output).lines() {
            batches.line(&line.expect("the client's output is text"), load);
            // The client may be gone after its last line.
            let _ = go_on.write_all(b"\n");
        }
        let ended = client.wait().expect("the client ends");
        assert!(ended.success(), "the client failed");
        batches.print();
        remote.stop();
    });
}

struct Batches {
    cpu_before: u64,
    /// Round trip in microseconds, requests per second, and the server's CPU per request in
    /// microseconds.
    figures: Vec<[f64; 3]>,
}

impl Batches {
    fn line(&mut self, line: &str, load: Load) {
        let cpu = process_cpu_ns();
        if let Some(elapsed_ns) = line.strip_prefix("batch ").and_then(|text| text.parse::<f64>().ok()) {
            let trips = load.round_trips as f64;
            let requests = trips * load.active as f64;
            self.figures.push([
                elapsed_ns / trips / 1e3,
                requests / elapsed_ns * 1e9,
                (cpu - self.cpu_before) as f64 / requests / 1e3,
            ]);
        }
        self.cpu_before = cpu;
    }

    fn print(&self) {
        let column = |index: usize| self.figures.iter().map(move |figures| figures[index]);
        println!("round_trip us {:.3}", column(0).fold(f64::INFINITY, f64::min));
        println!("requests_per_s 1/s {:.0}", column(1).fold(0.0, f64::max));
        println!("cpu_per_wake us {:.3}", column(2).fold(f64::INFINITY, f64::min));
    }
}
