//! `docs/semantics.md` and the tests say the same: each clause has a test, and each test of a clause is named there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn document() -> String {
    std::fs::read_to_string(package().join("../../docs/semantics.md")).expect("docs/semantics.md")
}

/// The names of all tests of this package's `tests` folder.
fn test_names() -> BTreeSet<String> {
    let folder = std::fs::read_dir(package().join("tests")).expect("the tests folder");
    let files = folder.map(|entry| entry.expect("an entry").path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .flat_map(|path| names_in(&path))
        .collect()
}

fn names_in(path: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(path).expect("a source file");
    let (mut names, mut on_each_backend, mut test) = (Vec::new(), false, false);
    for line in source.lines() {
        match line.trim_start() {
            "on_each_backend! {" => on_each_backend = true,
            "#[test]" => test = true,
            _ if line == "}" => on_each_backend = false,
            text => {
                let is_test = test || (on_each_backend && line.starts_with("    fn "));
                if let Some(rest) = text.strip_prefix("fn ").filter(|_| is_test) {
                    names.extend(rest.split('(').next().map(str::to_owned));
                    test = false;
                }
            }
        }
    }
    names
}

/// Each clause of the document, and the tests it names.
fn clauses() -> BTreeMap<String, Vec<String>> {
    let mut clauses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut current, mut in_tests) = (None, false);
    let text = document();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("- **") {
            let id = rest.split("**").next().unwrap_or_default().to_owned();
            assert!(!clauses.contains_key(&id), "clause {id} is there twice");
            clauses.insert(id.clone(), Vec::new());
            (current, in_tests) = (Some(id), false);
        } else if !line.starts_with("  ") {
            current = None;
        }
        in_tests |= line.trim_start().starts_with("Tests:");
        if let (Some(id), true) = (&current, in_tests) {
            let quoted = line.split('`').skip(1).step_by(2).map(str::to_owned);
            clauses.get_mut(id).expect("entered above").extend(quoted);
        }
    }
    clauses
}

/// Every clause that must be there.
fn required() -> Vec<String> {
    let m1 = [(1, 6), (2, 8), (3, 3), (4, 8)];
    let mut ids: Vec<String> = m1
        .iter()
        .flat_map(|&(part, last)| (1..=last).map(move |clause| format!("{part}.{clause}")))
        .collect();
    for (letter, last) in [("R", 15), ("G", 9), ("H", 16), ("X", 12), ("T", 27), ("O", 34)] {
        ids.extend((1..=last).map(|number| format!("{letter}{number}")).filter(|id| id != "O12"));
    }
    let functions = [
        "creare",
        "destruere",
        "adicere",
        "modificare",
        "removere",
        "timer_adicere",
        "timer_cancellare",
        "poll",
        "currere",
        "sistere",
        "est_currens",
        "numerus",
        "limits",
    ];
    ids.extend(functions.iter().map(|function| format!("S.{function}")));
    ids
}

#[test]
fn every_clause_names_a_test() {
    let clauses = clauses();
    for id in required() {
        let tests = clauses.get(&id).unwrap_or_else(|| panic!("clause {id} is missing"));
        assert!(!tests.is_empty(), "clause {id} names no test");
    }
    assert_eq!(clauses.len(), required().len(), "clauses that nobody asked for: {:?}", clauses.keys());
}

#[test]
fn every_test_that_is_named_exists() {
    let names = test_names();
    for (id, tests) in clauses() {
        for test in tests {
            assert!(names.contains(&test), "clause {id} names {test}, which does not exist");
        }
    }
}

#[test]
fn every_test_of_a_clause_is_named_under_it() {
    let clauses = clauses();
    let cited: BTreeSet<&String> = clauses.values().flatten().collect();
    for name in test_names() {
        let Some(id) = clause_of(&name) else { continue };
        let tests =
            clauses.get(&id).unwrap_or_else(|| panic!("{name} carries a clause that does not exist: {id}"));
        assert!(tests.contains(&name), "{name} is not named under {id}");
        assert!(cited.contains(&name));
    }
}

/// The clause whose number a test carries in its name.
fn clause_of(name: &str) -> Option<String> {
    let (letters, rest) = name.split_at(name.find(|letter: char| letter.is_ascii_digit() || letter == '_')?);
    let mut parts = rest.split('_');
    match letters {
        "m" => {
            let (part, clause) = (parts.nth(1)?, parts.next()?);
            Some(format!("{part}.{clause}"))
        }
        "r" | "h" | "t" => Some(format!("{}{}", letters.to_uppercase(), parts.next()?)),
        "outside" => Some(format!("O{}", parts.nth(1)?)),
        "spec" if rest.starts_with("_gotcha_") => Some(format!("G{}", parts.nth(2)?)),
        "spec" => Some(format!("S.{}", parts.nth(1)?)),
        _ => None,
    }
}

#[test]
fn the_clause_of_a_name_is_read_right() {
    let cases = [
        ("m1_2_3_an_error", Some("2.3")),
        ("r13_counters", Some("R13")),
        ("h9_a_signal", Some("H9")),
        ("spec_gotcha_4_an_idle", Some("G4")),
        ("spec_poll_returns", Some("S.poll")),
        ("outside_22_a_loop", Some("O22")),
        ("run_until_idle_ends", None),
    ];
    for (name, clause) in cases {
        assert_eq!(clause_of(name).as_deref(), clause, "{name}");
    }
}

#[test]
fn the_documents_that_are_linked_exist() {
    let text = document();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files: Vec<&str> = targets.filter(|target| !target.starts_with('#')).collect();
    assert!(files.contains(&"semantics-c.md") && files.contains(&"kernel-semantics.md"));
    for file in files {
        assert!(package().join("../../docs").join(file).exists(), "{file}");
    }
}
