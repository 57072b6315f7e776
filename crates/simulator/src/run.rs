//! Whole simulations.

use crate::random::Random;
use crate::tape::MemoryTape;
use crate::world::action::Action;
use crate::world::scenario::Scenario;
use crate::world::{Counts, Violation, World};

/// A simulation that kept every promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What happened.
    pub counts: Counts,
    /// A digest of every effect, byte for byte.
    pub digest: u64,
}

/// A simulation in which the kernel broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which promise, and how.
    pub violation: Violation,
    /// After how many steps.
    pub step: u64,
    /// What happened, line by line, if a trace was asked for.
    pub trace: Vec<String>,
}

/// Simulates one seed for so many steps.
///
/// # Errors
///
/// When the kernel breaks a promise.
pub fn simulate(seed: u64, steps: u64, with_trace: bool) -> Result<Report, Box<Failure>> {
    let mut random = Random::new(seed);
    let scenario = Scenario::random(&mut random);
    let weather = scenario.weather;
    // Half of the worlds come to rest before the end; the others are interrupted.
    let comes_to_rest = random.percent(50);
    let actions = (0..steps).map(|_| Action::random(&mut random, weather));
    run(scenario, actions, comes_to_rest, with_trace)
}

/// Plays a list of actions in a scenario, then ends it.
///
/// # Errors
///
/// When the kernel breaks a promise.
pub fn run(
    scenario: Scenario,
    actions: impl Iterator<Item = Action>,
    comes_to_rest: bool,
    with_trace: bool,
) -> Result<Report, Box<Failure>> {
    let mut world = World::new(scenario, with_trace);
    let mut step = 0;
    let play = || {
        world.boot()?;
        for action in actions {
            world.step(action)?;
            step += 1;
        }
        if comes_to_rest && !world.has_ended() {
            world.calm_down()?;
        }
        if !world.has_ended() {
            world.end()?;
        }
        world.tape.as_ref().map_or(Ok(()), MemoryTape::check)
    };
    match play() {
        Ok(()) => Ok(Report { counts: world.counts(), digest: world.digest() }),
        Err(violation) => Err(Box::new(Failure { violation, step, trace: world.take_trace() })),
    }
}
