//! Every clause of the contract has its test, and every such test its clause.

use std::collections::BTreeSet;
use std::path::Path;

/// Whether a word is the name of a clause's test, such as `l1_1_it_works`.
fn is_clause_test(word: &str) -> bool {
    let mut parts = word.splitn(3, '_');
    let (Some(section), Some(number), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    section.starts_with(['c', 'h', 'l', 'n', 'p', 's', 'w']) && is_number(&section[1..]) && is_number(number)
}

#[test]
fn every_clause_has_its_test_and_every_test_its_clause() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let contract = std::fs::read_to_string(here.join("../../docs/guests-semantics.md")).unwrap();
    let mut named = BTreeSet::new();
    for line in contract.lines().filter(|line| line.starts_with("- **")) {
        let clause = line.split("**").nth(1).unwrap().to_lowercase().replace('.', "_");
        let tests: Vec<&str> = line.split('`').filter(|word| is_clause_test(word)).collect();
        assert!(!tests.is_empty(), "clause {clause} has no test");
        for test in tests {
            assert!(test.starts_with(&format!("{clause}_")), "{test} is not a test of {clause}");
            assert!(named.insert(test.to_owned()), "{test} is named twice");
        }
    }
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(here.join("tests")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(path).unwrap();
            let functions = text.lines().filter_map(|line| line.strip_prefix("fn ")?.split('(').next());
            found.extend(functions.filter(|name| is_clause_test(name)).map(str::to_owned));
        }
    }
    assert_eq!(named, found);
}
