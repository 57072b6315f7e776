//! The server goes away under its clients. In a file of its own: no other test may use the server
//! meanwhile.
#![cfg(feature = "wasi")]

mod database;
mod guest_modules;

use database::{Kind, Scene};
use mainspring_host::Exit;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_server_that_restarts_is_a_clean_error_and_can_be_connected_to_again() {
    let Some(restart) = std::env::var_os("MAINSPRING_POSTGRES_RESTART") else {
        eprintln!("skipped: no database that may be restarted; run `cargo xtask test`");
        return;
    };
    for kind in [Kind::New, Kind::Old, Kind::Parked] {
        let Some(mut scene) = Scene::start(kind, "restart") else { return };
        assert_eq!(scene.line(), "connected");
        // Long enough for its statement to be under way; if it is not, the outcome is the same.
        scene.pass(Duration::from_millis(50));
        let program = restart.clone();
        let restarted = scene.player.elsewhere(move || Command::new(program).status());
        assert_eq!(scene.line(), "cut off", "{kind:?}");
        let (exit, said, complaint) = scene.finish();
        assert_eq!((exit, complaint.as_str()), (Exit::Returned(0), ""), "{kind:?}");
        assert!(said.starts_with("connected again after: "), "{kind:?}: {said}");
        let status = scene.reactor.block_on(restarted).unwrap().unwrap();
        assert!(status.success(), "{kind:?}: {status}");
    }
}
