//! A real database client in a guest: unmodified tokio-postgres, on sys/loop and in components.
#![cfg(feature = "wasi")]

mod database;
mod guest_modules;

use database::{Kind, Scene, expect, server};
use mainspring_host::{Exit, GuestPhase, Limit};
use std::time::Duration;

const KINDS: [Kind; 3] = [Kind::New, Kind::Old, Kind::Parked];

/// Those that do not wake themselves.
const WAITING: [Kind; 2] = [Kind::New, Kind::Parked];

#[test]
fn a_guest_logs_in_by_scram_and_asks_with_parameters() {
    for kind in KINDS {
        let Some(scene) = expect(kind, "basics", "basics ok") else { return };
        let stats = scene.player.guest.stats();
        assert_eq!(stats.zero_timeout_polls, 0, "{kind:?}: {stats:?}");
        if kind == Kind::New {
            assert_eq!(stats.empty_polls, 0, "{stats:?}");
        }
    }
}

#[test]
fn rows_are_copied_in_both_directions() {
    for kind in KINDS {
        expect(kind, "copy 20000", "copied 20000");
    }
}

#[test]
fn notifications_arrive_while_queries_run() {
    for kind in KINDS {
        expect(kind, "notify 200", "heard 200 notifications");
    }
}

#[test]
fn a_slow_statement_on_one_connection_does_not_hold_up_the_other() {
    for kind in KINDS {
        expect(kind, "two", "both at once");
    }
}

#[test]
fn a_statement_is_cancelled_and_its_connection_stays_usable() {
    for kind in KINDS {
        expect(kind, "cancel", "cancelled");
    }
}

#[test]
fn a_guest_sleeps_through_a_statement_that_takes_seconds() {
    for kind in WAITING {
        let Some(mut scene) = Scene::start(kind, "slow 2") else { return };
        assert_eq!(scene.line(), "asking");
        scene.pass(Duration::from_millis(500));
        let before = scene.player.guest.stats();
        assert_eq!(before.phase, GuestPhase::Waiting);
        scene.pass(Duration::from_millis(500));
        assert_eq!(scene.player.guest.stats(), before, "{kind:?}: nothing happened, and so it did nothing");
        assert_eq!(scene.finish(), (Exit::Returned(0), "answered\n".into(), String::new()));
    }
}

#[test]
fn ten_seconds_idle_in_a_transaction_cost_no_cpu_time_and_no_wake_up() {
    for kind in WAITING {
        let Some(mut scene) = Scene::start(kind, "idle") else { return };
        assert_eq!(scene.line(), "idle");
        // What it still had to do after saying so.
        scene.pass(Duration::from_millis(100));
        let before = scene.player.guest.stats();
        let turns = scene.reactor.stats().turns;
        scene.pass(Duration::from_secs(10));
        let after = scene.player.guest.stats();
        assert_eq!((after.cpu_time, after.wakeups), (before.cpu_time, before.wakeups));
        assert_eq!(after, before);
        // One to wait, one to be told that the time is up.
        assert!(scene.reactor.stats().turns - turns <= 3, "the loop rested");
        scene.player.guest.kill();
        assert_eq!(scene.finish().0, Exit::Killed);
    }
}

#[test]
fn a_wrong_password_is_refused_in_words() {
    let Some(server) = server() else { return };
    let (before, _) = server.split_once("password=").unwrap();
    let wrong = format!("{before}password=wrong dbname=postgres");
    for kind in KINDS {
        let started = Scene::start_with(kind, &wrong, "basics", |config| {
            config.network.allow_connect("loopback").unwrap();
        });
        let Some(mut scene) = started else { return };
        let (exit, _, stderr) = scene.finish();
        assert_eq!(exit, Exit::Returned(1), "{kind:?}");
        assert!(stderr.contains("password authentication failed"), "{kind:?}: {stderr}");
    }
}

#[test]
fn a_server_that_is_not_on_the_allow_list_is_denied_and_counted() {
    let Some(server) = server() else { return };
    for (kind, said) in [(Kind::New, "ZI_E_DENIED"), (Kind::Old, "NETWORK_DENIED")] {
        let Some(mut scene) = Scene::start_with(kind, &server, "basics", |_| {}) else { return };
        let (exit, _, stderr) = scene.finish();
        assert_eq!(exit, Exit::Returned(1), "{kind:?}");
        assert!(stderr.contains(said), "{kind:?}: {stderr}");
        assert_eq!(scene.player.guest.stats().refused(Limit::Network), 1);
    }
}

#[test]
fn a_client_is_killed_in_the_middle_of_a_statement() {
    for kind in KINDS {
        let Some(mut scene) = Scene::start(kind, "slow 60") else { return };
        assert_eq!(scene.line(), "asking");
        scene.pass(Duration::from_millis(20));
        scene.player.guest.kill();
        assert_eq!(scene.finish().0, Exit::Killed, "{kind:?}");
        assert_eq!(scene.player.guest.stats().handles, 0, "{kind:?}: its connections are closed");
    }
}
