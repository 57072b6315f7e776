//! The contracts and the tests say the same.
//!
//! A contract is a document of `docs/contracts` and a row in the table of its `README.md`, which
//! says of which files or folders each test proves a clause. A clause is an entry of a list:
//!
//! ```text
//! - **K-3.2** What holds.
//!   Tests: `k3_2_name_of_a_test`, `another_name`, `k3_2_*`.
//! ```
//!
//! Checked is: each clause has another number and names tests, or says why there is none
//! (`No test: ...`); each test that is named exists; each test of the files in the table is named;
//! and a test whose name begins with the number of a clause is named under that one. The number of
//! K-3.2 in a name is `k3_2_`.

use super::markdown::quoted;
use super::test_names::{TestNames, matches};
use super::{Fault, files, read};
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const FOLDER: &str = "docs/contracts";
const TABLE: &str = "docs/contracts/README.md";

/// A row of the table.
struct Row {
    line: usize,
    /// The document, from the root of the repository.
    document: PathBuf,
    /// Files and folders each of whose tests proves a clause.
    places: Vec<String>,
}

/// A clause of a document.
struct Clause {
    id: String,
    line: usize,
    /// Names, and beginnings of names with a `*`.
    tests: Vec<String>,
    /// It says why no test proves it.
    excused: bool,
}

/// Checks every contract of the repository at `root`.
pub(super) fn check(root: &Path) -> Result<Vec<Fault>> {
    let rows = rows(&read(root, Path::new(TABLE))?);
    if rows.is_empty() {
        bail!("{TABLE} lists no contract");
    }
    let mut faults = missing_rows(root, &rows)?;
    let names = TestNames::read(root)?;
    for row in &rows {
        let Ok(text) = read(root, &row.document) else {
            faults.push(fault(TABLE, row.line, format!("there is no {}", row.document.display())));
            continue;
        };
        let clauses = clauses(&text);
        faults.extend(of_clauses(&row.document, &clauses, &names));
        faults.extend(of_tests(row, &clauses, &names));
    }
    Ok(faults)
}

fn fault(file: impl AsRef<Path>, line: usize, what: String) -> Fault {
    Fault { file: file.as_ref().to_owned(), line, what }
}

/// The rows of the table that begin with a link to a document.
fn rows(table: &str) -> Vec<Row> {
    let lines = table.lines().enumerate();
    let row = lines.filter_map(|(index, line)| {
        let mut cells = line.strip_prefix("| [")?.split('|');
        let document = cells.next()?.split("](").nth(1)?.split(')').next()?;
        let places = cells.next_back().and_then(|_| cells.next_back()).unwrap_or_default();
        Some(Row {
            line: index + 1,
            document: Path::new(FOLDER).join(document),
            places: quoted(places).map(str::to_owned).collect(),
        })
    });
    row.collect()
}

/// Documents of the folder that are not in the table.
fn missing_rows(root: &Path, rows: &[Row]) -> Result<Vec<Fault>> {
    let documents = files(&root.join(FOLDER), "md")?.into_iter().map(|file| Path::new(FOLDER).join(file));
    let missing = documents
        .filter(|document| document != Path::new(TABLE))
        .filter(|document| rows.iter().all(|row| row.document != *document));
    Ok(missing.map(|document| fault(document, 0, format!("this contract is not in {TABLE}"))).collect())
}

fn clauses(text: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = Vec::new();
    let (mut within, mut in_tests) = (false, false);
    for (index, line) in text.lines().enumerate() {
        if let Some(id) = line.strip_prefix("- **").and_then(|rest| rest.split("**").next()) {
            clauses.push(Clause { id: id.to_owned(), line: index + 1, tests: Vec::new(), excused: false });
            (within, in_tests) = (true, false);
        } else {
            within &= line.starts_with("  ");
        }
        let Some(clause) = clauses.last_mut().filter(|_| within) else { continue };
        let text = line.trim_start();
        clause.excused |= text.starts_with("No test:");
        in_tests = (in_tests || text.starts_with("Tests:")) && !text.starts_with("No test:");
        if in_tests {
            clause.tests.extend(quoted(line).map(str::to_owned));
        }
    }
    clauses
}

/// What is wrong with the clauses of a document.
fn of_clauses(document: &Path, clauses: &[Clause], names: &TestNames) -> Vec<Fault> {
    let (mut faults, mut seen) = (Vec::new(), BTreeSet::new());
    for clause in clauses {
        let mut tell = |what: String| faults.push(fault(document, clause.line, what));
        if !seen.insert(&clause.id) {
            tell(format!("clause {} is there twice", clause.id));
        }
        if clause.tests.is_empty() && !clause.excused {
            tell(format!("clause {} names no test, nor says why there is none", clause.id));
        }
        for test in clause.tests.iter().filter(|test| !names.has(test)) {
            tell(format!("clause {} names {test}, which does not exist", clause.id));
        }
    }
    if clauses.is_empty() {
        faults.push(fault(document, 0, "this contract has no clause".into()));
    }
    faults
}

/// What is wrong with the tests of the places that a row names.
fn of_tests(row: &Row, clauses: &[Clause], names: &TestNames) -> Vec<Fault> {
    let by_number: BTreeMap<String, &Clause> =
        clauses.iter().map(|clause| (number_in_names(&clause.id), clause)).collect();
    let series: BTreeSet<&str> = by_number.keys().filter_map(|number| series_of(number)).collect();
    let document = row.document.display();
    let mut faults = Vec::new();
    for place in &row.places {
        let mut tests = names.within(place).peekable();
        if tests.peek().is_none() {
            faults.push(fault(TABLE, row.line, format!("there is no test in {place}")));
        }
        for (name, file) in tests {
            let named = |clause: &Clause| clause.tests.iter().any(|pattern| matches(pattern, name));
            let own = by_number.iter().rev().find(|(number, _)| name.starts_with(number.as_str()));
            match own {
                Some((_, clause)) if !named(clause) => {
                    faults.push(fault(
                        file,
                        0,
                        format!("{name} is not named under {} of {document}", clause.id),
                    ));
                }
                None if series_of(name).is_some_and(|letters| series.contains(letters)) => {
                    faults.push(fault(
                        file,
                        0,
                        format!("{name} begins with a number that no clause of {document} has"),
                    ));
                }
                None if !clauses.iter().any(named) => {
                    faults.push(fault(file, 0, format!("{name} proves no clause of {document}")));
                }
                _ => {}
            }
        }
    }
    faults
}

/// How names of tests begin that carry the number of a clause: `k3_2_` for K-3.2.
fn number_in_names(id: &str) -> String {
    let mut number: String = id
        .chars()
        .filter(|letter| *letter != '-')
        .map(|letter| if letter == '.' { '_' } else { letter })
        .collect();
    number.push('_');
    number.to_lowercase()
}

/// The letters before a number at the beginning of a name: `k` of `k3_2_name`, and nothing of
/// `a_name` or `utf8_name`.
fn series_of(name: &str) -> Option<&str> {
    let letters = name.find(|letter: char| !letter.is_ascii_lowercase())?;
    let digits = name[letters..].find(|letter: char| !letter.is_ascii_digit())?;
    (letters == 1 && digits > 0 && name[letters + digits..].starts_with('_')).then(|| &name[..letters])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small repository of its own, in a folder that goes with the value.
    struct Repository(PathBuf);

    impl Repository {
        fn new(name: &str, contract: &str, tests: &str) -> Repository {
            let root = std::env::temp_dir().join(format!("xtask-contracts-{}-{name}", std::process::id()));
            let write = |file: &str, text: &str| {
                let path = root.join(file);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                std::fs::write(path, text).expect("a file");
            };
            write("crates/a/tests/some.rs", tests);
            write("examples/some.rs", "");
            write("xtask/some.rs", "");
            write(
                TABLE,
                "| contract | of | each test of |\n| --- | --- | --- |\n| [a.md](a.md) | a | `crates/a/tests` |\n",
            );
            write("docs/contracts/a.md", contract);
            Repository(root)
        }

        fn faults(&self) -> Vec<String> {
            check(&self.0).expect("a check").iter().map(ToString::to_string).collect()
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("the folder is this test's own");
        }
    }

    fn tests(names: &[&str]) -> String {
        names.iter().map(|name| format!("#[test]\nfn {name}() {{}}\n")).collect()
    }

    #[test]
    fn a_contract_that_agrees_with_its_tests_has_no_fault() {
        let contract = "# A\n\n- **A-1.1** It holds.\n  Tests: `a1_1_it_holds`,\n  `it_holds_twice`.\n- **A-1.2** So does this.\n  Tests: `a1_2_*`.\n- **A-2** And this.\n  No test: by construction.\n";
        let sources = tests(&["a1_1_it_holds", "it_holds_twice", "a1_2_one", "a1_2_two"]);
        assert_eq!(Repository::new("right", contract, &sources).faults(), [] as [&str; 0]);
    }

    #[test]
    fn a_clause_without_a_test_twice_or_with_a_test_that_is_not_there_is_a_fault() {
        let contract = "- **A-1** Bare.\n- **A-2** Gone.\n  Tests: `gone`, `gone_*`.\n- **A-2** Again.\n  No test: for this test.\n";
        let expected = [
            "docs/contracts/a.md:1: clause A-1 names no test, nor says why there is none",
            "docs/contracts/a.md:2: clause A-2 names gone, which does not exist",
            "docs/contracts/a.md:2: clause A-2 names gone_*, which does not exist",
            "docs/contracts/a.md:4: clause A-2 is there twice",
            "docs/contracts/README.md:3: there is no test in crates/a/tests",
        ];
        assert_eq!(Repository::new("clauses", contract, "").faults(), expected);
    }

    #[test]
    fn a_test_that_is_named_nowhere_or_under_another_clause_is_a_fault() {
        let contract = "- **A-1** One.\n  Tests: `a1_one`, `a2_two`.\n- **A-2** Two.\n  Tests: `a1_one`.\n\nIn passing: `nowhere`.\n";
        let sources = tests(&["a1_one", "a2_two", "a3_three", "nowhere", "b1_of_another_contract"]);
        let expected = [
            "crates/a/tests/some.rs:0: a2_two is not named under A-2 of docs/contracts/a.md",
            "crates/a/tests/some.rs:0: a3_three begins with a number that no clause of docs/contracts/a.md has",
            "crates/a/tests/some.rs:0: b1_of_another_contract proves no clause of docs/contracts/a.md",
            "crates/a/tests/some.rs:0: nowhere proves no clause of docs/contracts/a.md",
        ];
        assert_eq!(Repository::new("tests", contract, &sources).faults(), expected);
    }

    #[test]
    fn a_contract_that_the_table_does_not_list_is_a_fault() {
        let repository = Repository::new("table", "- **A-1** One.\n  Tests: `one`.\n", &tests(&["one"]));
        std::fs::write(repository.0.join("docs/contracts/b.md"), "").expect("a file");
        assert_eq!(
            repository.faults(),
            ["docs/contracts/b.md:0: this contract is not in docs/contracts/README.md"]
        );
    }

    #[test]
    fn the_number_of_a_clause_is_read_from_a_name() {
        assert_eq!(number_in_names("K-13.1"), "k13_1_");
        assert_eq!(number_in_names("S.timer_adicere"), "s_timer_adicere_");
        assert_eq!(series_of("k13_1_some"), Some("k"));
        assert_eq!(series_of("utf8_text"), None);
        assert_eq!(series_of("a_name"), None);
    }
}
