//! The file that an interpreter is to run, and whether it is there: `python3 mian.py` starts, and
//! fails at once.

use crate::config::report::nearest;
use std::path::Path;

/// Interpreters that run the file which is their first argument, and those of their flags that take
/// no value.
const INTERPRETERS: &[(&str, &str)] = &[
    ("python", "BEIOSbdqsuvx"),
    ("pypy", "BEIOSbdqsuvx"),
    ("sh", "aefnuvx"),
    ("bash", "aefnuvx"),
    ("dash", "aefnuvx"),
    ("ash", "aefnuvx"),
    ("ksh", "aefnuvx"),
    ("zsh", "aefnuvx"),
    ("perl", "TWtw"),
    ("ruby", "Ww"),
    ("node", ""),
    ("nodejs", ""),
    ("lua", ""),
    ("php", ""),
    ("tclsh", ""),
    ("Rscript", ""),
];

/// Files of a folder that are looked at to find the one that was meant.
const FILES_MAX: usize = 1000;

/// The argument that names a script which is not there, and what to say about it. Where it is not
/// certain which argument is the script, none is.
pub(in crate::config) fn missing(command: &[String], folder: &Path) -> Option<(usize, String)> {
    let (program, arguments) = command.split_first()?;
    let name = program.rsplit('/').next()?.trim_end_matches(|end: char| end.is_ascii_digit() || end == '.');
    let (_, flags) = INTERPRETERS.iter().find(|(known, _)| *known == name)?;
    let is_plain_flag = |argument: &&String| {
        argument.strip_prefix('-').is_some_and(|letters| {
            !letters.is_empty() && letters.chars().all(|letter| flags.contains(letter))
        })
    };
    let at = arguments.iter().take_while(is_plain_flag).count();
    let script = arguments.get(at).filter(|script| !script.starts_with('-') && !script.is_empty())?;
    let path = folder.join(script);
    if path.exists() {
        return None;
    }
    let meant = nearest_file(&path).map_or(String::new(), |name| format!("; did you mean `{name}`?"));
    Some((at + 1, format!("{name} will find no file {}{meant}", path.display())))
}

/// The name of a file in the same folder that is almost the same.
fn nearest_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let entries = std::fs::read_dir(path.parent()?).ok()?.take(FILES_MAX).flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    nearest(name, &names).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certainly_a_script_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("main.py"), "").unwrap();
        let missed = |command: &str| {
            let words: Vec<String> = command.split(' ').map(String::from).collect();
            missing(&words, folder.path()).map(|(at, _)| at)
        };
        for (command, at) in [
            ("python3 mian.py", 1),
            ("/usr/bin/python3.12 -u -B mian.py", 3),
            ("sh -eu go.sh", 2),
            ("node server.js", 1),
            ("ruby x/y.rb", 1),
        ] {
            assert_eq!(missed(command), Some(at), "{command}");
        }
        for command in [
            "python3 main.py",
            "python3 -m http.server",
            "python3 -W ignore main.py",
            "python3 -",
            "sh -c cat",
            "bash -o pipefail go.sh",
            "perl -e 1",
            "node --require x y.js",
            "node",
            "./mine mian.py",
            "env python3 mian.py",
        ] {
            assert_eq!(missed(command), None, "{command}");
        }
    }

    #[test]
    fn the_file_that_was_meant_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("main.py"), "").unwrap();
        let told = |script: &str| missing(&["python3".into(), script.into()], folder.path()).unwrap().1;
        assert!(told("mian.py").ends_with("/mian.py; did you mean `main.py`?"), "{}", told("mian.py"));
        assert!(told("other.py").ends_with("/other.py"), "{}", told("other.py"));
    }
}
