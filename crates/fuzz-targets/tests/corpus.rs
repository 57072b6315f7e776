//! Every target over its corpus and some mutations of it, from a fixed seed.

use mainspring_fuzz_targets::{Mutator, TARGETS, Target, target};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)
}

/// What a target begins with: the files of its folder in order, and what it computes.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = folder(target.name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = files.iter().map(|file| fs::read(file).unwrap());
    read.chain((target.seeds)()).collect()
}

fn try_one(target: &Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        eprintln!("target {} with {} bytes: {:?}", target.name, input.len(), String::from_utf8_lossy(input));
        std::panic::resume_unwind(panic);
    }
}

/// Runs a target briefly.
fn run(name: &str) {
    let target = target(name).unwrap();
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "there is nothing to begin with");
    corpus.iter().for_each(|input| try_one(target, input));
    let mut mutator = Mutator::new(0x6d61_696e);
    for _ in 0..target.mutations {
        try_one(target, &mutator.mutate(&corpus));
    }
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn every_target_is_run_here_and_has_a_program() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
            for name in names {
                let program = folder(name).join("../../fuzz_targets").join(format!("{name}.rs"));
                let text = fs::read_to_string(&program).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
                assert!(text.contains(&format!("\"{name}\"")), "{} is another target", program.display());
            }
        }
    };
}

targets!(envelope, facts, http, journal, kernel, lines, manifest, uplink, zcl);
