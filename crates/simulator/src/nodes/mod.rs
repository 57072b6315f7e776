//! Several nodes: kernels with their uplinks on a network that loses, doubles, reorders and
//! partitions, whose nodes are killed, stopped and started again.
//!
//! One ledger goes over all of them: each request has one outcome at its origin while that lives,
//! `started: no` is never wrong, no command is done twice, and no reply comes without its deed.

mod ledger;
mod network;
mod node;
mod story;

use crate::random::Random;
use crate::world::Violation;
use story::NodesStory;

/// What a simulation of several nodes consisted of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodesReport {
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that ended in a reply.
    pub replied: u64,
    /// Requests that ended in an error that says `started: no`.
    pub not_started: u64,
    /// Requests that ended in another error.
    pub unknown: u64,
    /// Requests whose origin was killed before they ended.
    pub orphaned: u64,
    /// Messages between nodes, those of them that were several as one, and those that were lost.
    pub messages: u64,
    /// See above.
    pub bundles: u64,
    /// See above.
    pub lost: u64,
    /// Kills, stops and cuts.
    pub faults: u64,
    /// A digest of all outcomes.
    pub digest: u64,
}

/// Simulates one seed for so many steps.
///
/// # Errors
///
/// When a promise is broken.
pub fn simulate_nodes(seed: u64, steps: u64) -> Result<NodesReport, Violation> {
    let mut story = NodesStory::new(Random::new(seed ^ 0x4e4f_4445_5321_2121))?;
    for step in 0..steps {
        story.step().map_err(|violation| Violation(format!("step {step}: {}", violation.0)))?;
    }
    story.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n3_4_many_nodes_on_a_bad_network_keep_every_promise() {
        let mut total = NodesReport::default();
        for seed in 0..40 {
            let report =
                simulate_nodes(seed, 150).unwrap_or_else(|violation| panic!("seed {seed}: {}", violation.0));
            total.sent += report.sent;
            total.replied += report.replied;
            total.not_started += report.not_started;
            total.unknown += report.unknown;
            total.bundles += report.bundles;
            total.lost += report.lost;
            total.faults += report.faults;
        }
        assert!(total.replied > total.sent / 4, "{total:?}");
        assert!(
            total.not_started > 0 && total.unknown > 0 && total.lost > 0 && total.faults > 0,
            "{total:?}"
        );
        assert!(total.bundles > 50, "{total:?}");
    }

    #[test]
    fn a_seed_says_the_same_every_time() {
        assert_eq!(simulate_nodes(3, 100).unwrap(), simulate_nodes(3, 100).unwrap());
    }
}
