//! The model test: random worlds and random actions, shortened to the fewest that break a promise.
//!
//! The world keeps the model (what every client and actor is owed) beside the kernel and compares
//! the two after each action. Each action comes from a number of its own, so a failing list can be
//! shortened by leaving actions out.

use mainspring_simulator::{Action, Random, Scenario, run};
use proptest::prelude::*;

fn play(scenario_seed: u64, words: &[u64], comes_to_rest: bool) -> Result<u64, TestCaseError> {
    let scenario = Scenario::random(&mut Random::new(scenario_seed));
    let weather = scenario.weather;
    let actions = words.iter().map(|word| Action::random(&mut Random::new(*word), weather));
    match run(scenario, actions, comes_to_rest, true) {
        Ok(report) => Ok(report.digest),
        Err(failure) => {
            let trace = failure.trace.join("\n");
            Err(TestCaseError::fail(format!("{trace}\nstep {}: {}", failure.step, failure.violation.0)))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_promise_is_kept_after_every_step(
        scenario_seed in any::<u64>(),
        words in prop::collection::vec(any::<u64>(), 1..400),
        comes_to_rest in any::<bool>(),
    ) {
        play(scenario_seed, &words, comes_to_rest)?;
    }
}

/// Requests that all time out at once fill their client's share of the way out, and what is left
/// of them waits until it reads: that is no rest yet.
#[test]
fn a_client_with_answers_to_read_is_not_at_rest() {
    let words = [6_045_068_037_249_963_038, 1_828_237_983_196_572_921, 17_528_890_560_907_212_425];
    play(6_421_429_751_815_744_125, &words, true).unwrap();
}

#[test]
fn the_same_inputs_give_the_same_effects_byte_for_byte() {
    for seed in 0..40 {
        let words: Vec<u64> = (0..300).map(|at| seed * 1_000 + at).collect();
        assert_eq!(play(seed, &words, true).unwrap(), play(seed, &words, true).unwrap(), "seed {seed}");
    }
}
