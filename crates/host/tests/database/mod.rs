//! What the tests with a real database share: finding it, and running a client against it in a
//! guest of either kind.
#![allow(dead_code, reason = "not every test file uses all of it")]

use crate::guest_modules::{Player, configuration, module};
use mainspring_host::{Component, Exit, GuestConfig, Host, HostConfig, Program};
use mainspring_reactor::Reactor;
use std::sync::OnceLock;
use std::time::Duration;

/// No scenario takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// The address of the server that `cargo xtask test` starts; `None`, with a line that says so,
/// where there is none.
pub(crate) fn server() -> Option<String> {
    let address = std::env::var("MAINSPRING_POSTGRES").ok();
    if address.is_none() {
        eprintln!("skipped: no database; run `cargo xtask postgres cargo test --workspace --test postgres`");
    }
    address
}

/// How a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A module on sys/loop.
    New,
    /// A component whose stream wakes itself.
    Old,
    /// The same component, waiting by `poll-socket`.
    Parked,
}

/// Both clients, compiled once for all tests.
struct Clients {
    host: Host,
    new: Program,
    old: Component,
}

fn clients() -> Option<&'static Clients> {
    static CLIENTS: OnceLock<Option<Clients>> = OnceLock::new();
    let compile = || {
        let (new, old) = (module("wasi-postgres")?, module("wasi-socket-postgres.component")?);
        let mut config = HostConfig::new();
        config.guests_max = 64;
        let host = config.build().unwrap();
        Some(Clients { new: host.compile(&new).unwrap(), old: host.compile_component(&old).unwrap(), host })
    };
    CLIENTS.get_or_init(compile).as_ref()
}

/// A loop with a client on it.
pub(crate) struct Scene {
    pub(crate) reactor: Reactor,
    pub(crate) player: Player,
}

impl Scene {
    /// Starts a client; `None` where there is no database or no guest.
    pub(crate) fn start(kind: Kind, scenario: &str) -> Option<Scene> {
        let server = server()?;
        Scene::start_with(kind, &server, scenario, |config| {
            config.network.allow_connect("loopback").unwrap();
        })
    }

    pub(crate) fn start_with(
        kind: Kind,
        server: &str,
        scenario: &str,
        adjust: impl FnOnce(&mut GuestConfig),
    ) -> Option<Scene> {
        let clients = clients()?;
        let reactor = Reactor::new().unwrap();
        let mut words = if kind == Kind::Parked { vec!["park"] } else { vec![] };
        words.push(server);
        words.extend(scenario.split(' '));
        let (config, ends) = configuration("client", &words, adjust);
        let guest = match kind {
            Kind::New => clients.host.spawn(&reactor, &clients.new, config),
            Kind::Old | Kind::Parked => clients.host.spawn_component(&reactor, &clients.old, config),
        };
        let player = ends.player(guest.unwrap(), reactor.handle());
        Some(Scene { reactor, player })
    }

    /// Runs the client to its end: how it ended, and what it said.
    pub(crate) fn finish(&mut self) -> (Exit, String, String) {
        let Scene { reactor, player } = self;
        let handle = reactor.handle();
        reactor.block_on(handle.timeout(PATIENCE, player.finish())).unwrap().expect("it hangs")
    }

    /// Runs the loop until the client says something.
    pub(crate) fn line(&mut self) -> String {
        let Scene { reactor, player } = self;
        let handle = reactor.handle();
        reactor.block_on(handle.timeout(PATIENCE, player.line())).unwrap().expect("it hangs")
    }

    /// Runs the loop for a while.
    pub(crate) fn pass(&mut self, time: Duration) {
        let sleep = self.reactor.handle().sleep(time);
        self.reactor.block_on(sleep).unwrap().unwrap();
    }
}

/// Runs a scenario to its end, and expects it to say this and nothing else. The scene it left is
/// for questions about it.
#[track_caller]
pub(crate) fn expect(kind: Kind, scenario: &str, said: &str) -> Option<Scene> {
    let mut scene = Scene::start(kind, scenario)?;
    assert_eq!(
        scene.finish(),
        (Exit::Returned(0), format!("{said}\n"), String::new()),
        "{kind:?} {scenario}"
    );
    Some(scene)
}
