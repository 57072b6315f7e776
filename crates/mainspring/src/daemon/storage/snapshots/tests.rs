//! Snapshots of damaged journals: none is made, and nothing goes.

use super::{Plan, Retention, make};
use mainspring_journal::simulation::SimFolder;
use mainspring_journal::{Batch, Journal, Options};
use mainspring_kernel::{DurableBounds, Fact};
use std::time::Duration;

const OPTIONS: Options = Options { segment_bytes: 64 << 10 };
const FIRST: &str = "0000000000000001.segment";

/// A journal with several full segments, of which nothing is kept that a snapshot stands for.
fn journal() -> (SimFolder, Journal<SimFolder>, Plan<SimFolder>) {
    let folder = SimFolder::default();
    let (mut journal, opened) = Journal::open(folder.clone(), OPTIONS, &mut |_| ()).unwrap();
    let mut batch = Batch::new(opened.next);
    let value = format!("\"{}\"", "x".repeat(3000));
    for key in 0..60 {
        let key = key.to_string();
        let fact = Fact::Put { store: "memory", key: &*key, value: &*value };
        let mut bytes = Vec::new();
        fact.write(&mut bytes);
        batch.push(fact.kind(), fact.version(), &[&bytes]).unwrap();
        journal.write(&mut batch, 1).unwrap();
    }
    let plan = Plan {
        folder: folder.clone(),
        bounds: DurableBounds::default(),
        retention: Retention { age: Duration::ZERO, bytes: 0 },
        last: 0,
        sealed: 0,
        sealed_bytes: 0,
        segment_bytes: OPTIONS.segment_bytes,
        snapshot_bytes: 0,
    };
    (folder, journal, plan)
}

#[test]
fn a_rotten_bit_made_the_next_snapshot_drop_the_facts_behind_it() {
    let (folder, journal, plan) = journal();
    let mut bytes = folder.take(FIRST).unwrap();
    bytes[3 * 4096 + 100] ^= 1;
    folder.put(FIRST, bytes);
    let before = folder.files();
    let job = plan.job(journal.sealed_up_to().unwrap(), journal.old_segments());
    let reason = make(job).err().expect("no snapshot can be made");
    assert!(reason.contains(FIRST) && reason.contains("offset 12288"), "{reason}");
    assert!(before == folder.files(), "something was made or deleted");
}

#[test]
fn a_snapshot_that_does_not_reach_its_record_is_not_made() {
    let (folder, journal, plan) = journal();
    let before = folder.files();
    let reason = make(plan.job(journal.durable() + 1, journal.old_segments())).err();
    assert_eq!(reason.as_deref(), Some("fact 61 had been durable, and fact 60 is the last"));
    assert!(before == folder.files(), "something was made or deleted");
}

#[test]
fn a_snapshot_that_failed_was_tried_again_after_every_batch() {
    let (_, journal, mut plan) = journal();
    let sealed = journal.sealed_up_to();
    assert_eq!(plan.due(sealed), sealed);
    assert_eq!(plan.due(sealed), None);
    let next = sealed.map(|number| number + 1);
    assert_eq!(plan.due(next), next);
}
