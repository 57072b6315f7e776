//! Power cuts over many runs of the daemon, on a disk that tears and loses.

use mainspring_simulator::{PowerReport, simulate_power};

#[test]
fn j1_2_power_cuts_on_a_disk_that_tears_leave_one_outcome_and_no_missing_event() {
    let mut total = PowerReport::default();
    for seed in 0..60 {
        let report =
            simulate_power(seed, 300).unwrap_or_else(|violation| panic!("seed {seed}: {}", violation.0));
        total.cuts += report.cuts;
        total.told += report.told;
        total.events += report.events;
        total.snapshots += report.snapshots;
    }
    assert!(total.cuts > 200 && total.told > 400, "{total:?}");
    assert!(total.events > 200 && total.snapshots > 20, "{total:?}");
}

#[test]
fn one_seed_is_one_story() {
    assert_eq!(simulate_power(3, 300).unwrap(), simulate_power(3, 300).unwrap());
}
