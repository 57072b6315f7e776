//! Standard input and output as one client, for batches.

use crate::daemon::clients::{Clients, Identity};
use crate::daemon::transport::outlet::Outlet;
use crate::daemon::transport::wire::Wire;
use std::os::fd::AsFd;
use std::rc::Rc;

/// The peer at the other end of the standard streams.
const PEER: &str = "stdio";

pub(in crate::daemon::transport) fn open(clients: &Rc<Clients>, adapter: u32) -> Result<(), String> {
    let input = rustix::io::fcntl_dupfd_cloexec(std::io::stdin().as_fd(), 3)
        .map_err(|error| format!("standard input: {error}"))?;
    let output =
        Outlet::to(std::io::stdout().as_fd()).map_err(|error| format!("standard output: {error}"))?;
    match clients.open(Wire::streams(input, output.behind_report()), adapter, Identity::Known(PEER)) {
        Some(_) => Ok(()),
        None => Err("standard input cannot be watched".into()),
    }
}
