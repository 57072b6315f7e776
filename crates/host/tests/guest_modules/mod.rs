//! What the tests with real guests share: finding the modules, running one, talking to it.
#![allow(dead_code, reason = "not every test file uses all of it")]

use mainspring_host::{
    Exit, GuestConfig, GuestHandle, Host, HostConfig, PipeReader, PipeWriter, Stdin, Stdout, pipe,
};
use mainspring_reactor::{Blocking, Handle, Reactor};
use std::path::PathBuf;
use std::time::Duration;

/// No test takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The module of a guest that `cargo xtask guests` built; `None`, with a line that says so, where
/// it was not run. Under `cargo xtask test` a missing one is a failure.
pub(crate) fn module(name: &str) -> Option<Vec<u8>> {
    let told = std::env::var_os("MAINSPRING_GUESTS").map(PathBuf::from);
    let folder = told.clone().unwrap_or_else(beside_this_program);
    match std::fs::read(folder.join(format!("{name}.wasm"))) {
        Ok(module) => Some(module),
        Err(error) => {
            assert!(told.is_none(), "{name}.wasm is not in {}: {error}", folder.display());
            eprintln!("skipped: run `cargo xtask guests` first");
            None
        }
    }
}

/// The same for a module that not every toolchain can build.
#[allow(dead_code, reason = "not every test file has such a module")]
pub(crate) fn optional_module(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("MAINSPRING_GUESTS").map_or_else(beside_this_program, PathBuf::from);
    let module = std::fs::read(folder.join(format!("{name}.wasm"))).ok();
    if module.is_none() {
        eprintln!("skipped: {name}.wasm is not there; `cargo xtask guests` builds it where it can");
    }
    module
}

/// `target/guests`, seen from `target/debug/deps/this-test`.
fn beside_this_program() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    this.ancestors().nth(3).map(|target| target.join("guests")).unwrap_or_default()
}

/// A loop, a host and the ends of a guest's standard streams.
pub(crate) struct Stage {
    pub(crate) reactor: Reactor,
    pub(crate) host: Host,
}

/// A guest on the stage.
pub(crate) struct Player {
    pub(crate) guest: GuestHandle,
    pub(crate) stdin: Option<PipeWriter>,
    pub(crate) stdout: PipeReader,
    pub(crate) stderr: PipeReader,
    pub(crate) handle: Handle,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        let mut config = HostConfig::new();
        config.guests_max = 8;
        Stage { reactor: Reactor::new().unwrap(), host: config.build().unwrap() }
    }

    /// Starts a guest whose configuration `adjust` completes; its name is its first argument.
    pub(crate) fn start(
        &self,
        name: &str,
        module: &[u8],
        arguments: &[&str],
        adjust: impl FnOnce(&mut GuestConfig),
    ) -> Player {
        let program = self.host.compile(module).unwrap();
        let (config, ends) = configuration(name, arguments, adjust);
        let guest = self.host.spawn(&self.reactor, &program, config).unwrap();
        ends.player(guest, self.reactor.handle())
    }

    /// Runs the loop until a future is done.
    pub(crate) fn run<F: Future>(&mut self, future: F) -> F::Output {
        let handle = self.reactor.handle();
        self.reactor.block_on(handle.timeout(PATIENCE, future)).unwrap().expect("it hangs")
    }
}

/// The host's ends of a guest's streams.
pub(crate) struct Ends {
    stdin: PipeWriter,
    stdout: PipeReader,
    stderr: PipeReader,
}

pub(crate) fn configuration(
    name: &str,
    arguments: &[&str],
    adjust: impl FnOnce(&mut GuestConfig),
) -> (GuestConfig, Ends) {
    let ((stdin, guest_stdin), (guest_stdout, stdout), (guest_stderr, stderr)) =
        (pipe(1 << 16), pipe(1 << 16), pipe(1 << 16));
    let mut config = GuestConfig::new();
    config.arguments = [name].iter().chain(arguments).map(|&argument| argument.to_string()).collect();
    config.stdin = Stdin::Pipe(guest_stdin);
    config.stdout = Stdout::Pipe(guest_stdout);
    config.stderr = Stdout::Pipe(guest_stderr);
    adjust(&mut config);
    (config, Ends { stdin, stdout, stderr })
}

impl Ends {
    pub(crate) fn player(self, guest: GuestHandle, handle: Handle) -> Player {
        Player { guest, stdin: Some(self.stdin), stdout: self.stdout, stderr: self.stderr, handle }
    }
}

impl Player {
    /// The next line of its standard output.
    pub(crate) async fn line(&self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.stdout.read(&mut byte).await == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// The port that it says it listens on.
    pub(crate) async fn port(&self) -> u16 {
        let line = self.line().await;
        line.rsplit(' ')
            .next()
            .and_then(|port| port.parse().ok())
            .unwrap_or_else(|| panic!("no port: {line}"))
    }

    /// Waits for its end: how it ended, and all that it wrote.
    pub(crate) async fn finish(&mut self) -> (Exit, String, String) {
        drop(self.stdin.take());
        let exit = self.guest.exit().await;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (exit, text(self.stdout.read_to_end().await), text(self.stderr.read_to_end().await))
    }

    /// Does something that blocks on another thread; awaiting it does not block the loop.
    pub(crate) fn elsewhere<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Blocking<T> {
        self.handle.blocking(work).unwrap()
    }
}
