//! The options that every suite takes.

use std::path::PathBuf;

/// How a suite was asked to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Fewer rounds and smaller batches: the whole suite within a minute.
    pub quick: bool,
    /// Where the rows go as a JSON array.
    pub json: Option<PathBuf>,
    /// Only cases whose name contains one of these.
    pub filters: Vec<String>,
    /// Only these subjects.
    pub subjects: Vec<String>,
    /// How many interleaved rounds to run, instead of the suite's own choice.
    pub rounds: Option<u32>,
}

/// Why the command line was refused; the text says what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

const HELP: &str = "\
options:
  --quick             fewer rounds, within a minute
  --json FILE         write the rows to FILE as a JSON array
  --filter TEXT       only cases whose name contains TEXT (may be repeated)
  --subject NAME      only this subject (may be repeated; targets need their references)
  --rounds N          run N interleaved rounds
  --help              this text";

impl Options {
    /// Reads the options of this process; prints help (exit 0) or a usage error (exit 2) and ends
    /// where that is due.
    #[must_use]
    pub fn from_env(program: &str) -> Options {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
            println!("usage: {program} [options]\n{HELP}");
            std::process::exit(0);
        }
        Options::parse(arguments).unwrap_or_else(|error| {
            eprintln!("{program}: {error}\n{HELP}");
            std::process::exit(2);
        })
    }

    /// Reads options from the words of a command line, without the program's name.
    ///
    /// # Errors
    ///
    /// An unknown option, a missing value, or a number of rounds that is not a positive number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use bench_support::Options;
    /// let options = Options::parse(["--quick", "--rounds", "3"].map(String::from)).unwrap();
    /// assert!(options.quick && options.rounds == Some(3));
    /// assert!(Options::parse(["--rounds".to_string()]).is_err());
    /// ```
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Options, UsageError> {
        let mut options = Options::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| UsageError(format!("{word} needs a value")));
            match word.as_str() {
                "--quick" => options.quick = true,
                "--json" => options.json = Some(PathBuf::from(value()?)),
                "--filter" => options.filters.push(value()?),
                "--subject" => options.subjects.push(value()?),
                "--rounds" => options.rounds = Some(rounds(&value()?)?),
                _ => return Err(UsageError(format!("unknown option {word}"))),
            }
        }
        Ok(options)
    }

    /// Whether a case of this name was asked for.
    #[must_use]
    pub fn wants_case(&self, case: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| case.contains(filter.as_str()))
    }

    /// Whether this subject was asked for.
    #[must_use]
    pub fn wants_subject(&self, subject: &str) -> bool {
        self.subjects.is_empty() || self.subjects.iter().any(|name| name == subject)
    }
}

fn rounds(text: &str) -> Result<u32, UsageError> {
    text.parse()
        .ok()
        .filter(|&rounds| rounds > 0)
        .ok_or_else(|| UsageError(format!("--rounds needs a number from 1, not {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, UsageError> {
        Options::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn filters_add_up_and_match_parts_of_names() {
        let options = parse("--filter dispatch --filter lateness").unwrap();
        assert!(options.wants_case("dispatch-16") && options.wants_case("lateness-5ms"));
        assert!(!options.wants_case("timers-100000"));
    }

    #[test]
    fn without_filters_everything_is_wanted() {
        let options = parse("--json out.json").unwrap();
        assert!(options.wants_case("anything") && options.wants_subject("anyone"));
        assert_eq!(options.json, Some(PathBuf::from("out.json")));
    }

    #[test]
    fn zero_rounds_and_unknown_words_are_refused() {
        assert!(parse("--rounds 0").is_err());
        assert!(parse("--quik").is_err());
    }
}
