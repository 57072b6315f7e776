//! `mainspring test-capability`: runs a capability under the kernel with inputs made from its
//! schema, and checks that it keeps the rules.
//!
//! The kernel itself finds most of what can be wrong (a second outcome, an unknown cause, an id
//! twice, data that its own schema does not admit): it ends the request with a fault that names the
//! rule. What is left is checked here.

mod generate;
mod subject;

use crate::cli::support::target::{Failure, time_above_zero};
use crate::cli::support::{output, text};
use crate::client::{Client, Deadline};
use crate::settings::Program;
use generate::{Generator, Random};
use mainspring_kernel::schema::{Pair, TypeSchema, discover};
use mainspring_message::{Draft, Envelope, Failure as Broken, Json, Kind, Text};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use subject::TestSubject;

/// Attempts to make data that fits before a type is given up.
const ATTEMPTS_MAX: usize = 50;
/// Requests that are under way at once in the second half.
const BURST: usize = 8;
/// Ids over which programs stumble that take messages apart by hand.
const ODD_ID: &str = "an \"id\" \\ of {odd} kind, é";

const EXAMPLES: &str = "\
Examples:
  mainspring test-capability capabilities/greeter
  mainspring test-capability capabilities/greeter --cases 1000
  mainspring test-capability capabilities/greeter --seed 42     # the same inputs again

The program really runs and does what it is asked, with inputs made from its inbound schema (its `examples` among them): do not let it loose on anything that \
matters. Checked are: every request ends in one reply or error in time; whatever it says names its cause, has a fresh id and fits the outbound schema; it answers \
several requests at once; and it ends by itself when its input ends.

Exit code: 0 it keeps the rules, 1 it does not, or does not start, 2 the command line is wrong.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct TestCapabilityArguments {
    /// The folder of the capability, or its manifest.
    #[arg(value_name = "FOLDER")]
    place: PathBuf,
    /// Messages to send.
    #[arg(long, value_name = "NUMBER", default_value = "200", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    cases: u64,
    /// What the inputs are made from: the same number, the same inputs [default: a fresh one].
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How long a request may take.
    #[arg(long, value_name = "TIME", value_parser = time_above_zero, default_value = "10s")]
    timeout: Duration,
}

pub(in crate::cli) fn run(arguments: &TestCapabilityArguments) -> ExitCode {
    test(arguments).unwrap_or_else(|failure| failure.report())
}

fn test(arguments: &TestCapabilityArguments) -> Result<ExitCode, Failure> {
    let seed = arguments.seed.unwrap_or_else(|| crate::client::now_ms() % 1_000_000);
    let mut subject = TestSubject::start(&arguments.place)?;
    let id = subject.capability.manifest.id.clone();
    let mut test_run = TestRun::new(&subject, arguments, seed)?;
    let outcome = test_run.run().and_then(|()| test_run.end(&mut subject));
    let told = test_run.told();
    match outcome {
        Ok(()) => {
            let doubt = test_run.doubt();
            Ok(output::print(&format!("{id}: {told}, seed {seed}: it keeps the rules{doubt}\n")))
        }
        Err(Flaw::Failed(failure)) => Err(failure),
        Err(Flaw::Broke { what, line }) => {
            let sent = line.map_or(String::new(), |line| format!("  sent      {}\n", text::visible(&line)));
            let place = arguments.place.display();
            eprint!(
                "{id}: broke a rule after {told}\n{sent}  {what}\n  its last lines and the daemon's:\n{}repeat it with: mainspring test-capability {place} --seed {seed} --cases {}\n",
                subject.log(),
                arguments.cases
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

/// What ends a test early.
enum Flaw {
    /// The capability broke a rule, over a message.
    Broke { what: String, line: Option<String> },
    /// The test itself could not go on.
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Flaw {
    fn from(error: E) -> Flaw {
        Flaw::Failed(error.into())
    }
}

/// A type that it takes.
struct Taken {
    pair: Pair,
    data: Value,
    sent: u64,
}

struct TestRun {
    client: Client,
    random: Random,
    timeout: Duration,
    cases: u64,
    capability: String,
    taken: Vec<Taken>,
    requests: u64,
    events: u64,
    errors: u64,
    grace: Duration,
}

impl TestRun {
    fn new(
        subject: &TestSubject,
        arguments: &TestCapabilityArguments,
        seed: u64,
    ) -> Result<TestRun, Failure> {
        let manifest = &subject.capability.manifest;
        let pairs = discover(&manifest.inbound).map_err(|error| Failure::Refused(error.to_string()))?;
        let taken = pairs.into_iter().map(|pair| {
            let found = TypeSchema::find(&manifest.inbound, pair.kind, &pair.type_name);
            Taken { data: found.map_or(json!({}), |found| found.data), pair, sent: 0 }
        });
        let grace = match &subject.capability.program {
            Program::Process(process) => process.grace,
            Program::Guest(guest) => guest.grace,
            Program::Native(_) | Program::Uplink(_) => Duration::ZERO,
        };
        Ok(TestRun {
            client: subject.connect(arguments.timeout)?,
            random: Random::new(seed),
            timeout: arguments.timeout,
            cases: arguments.cases,
            capability: manifest.id.clone(),
            taken: taken.collect(),
            requests: 0,
            events: 0,
            errors: 0,
            grace,
        })
    }

    fn told(&self) -> String {
        let types = self.taken.iter().filter(|taken| taken.sent > 0).count();
        let requests = text::count(self.requests, "request", "requests");
        let events = text::count(self.events, "event", "events");
        format!(
            "{requests} and {events} of {} ({} refused by it)",
            text::count(types as u64, "type", "types"),
            self.errors
        )
    }

    /// What the test cannot say though all went well.
    fn doubt(&self) -> &'static str {
        match self.requests {
            0 => "",
            requests if requests == self.errors => {
                "\n  but it refused every request, so nothing that it does was tried; are the `examples` of its \
                 inbound schema what it takes?"
            }
            _ => "",
        }
    }

    /// Sends everything: one after the other first, then several at once.
    fn run(&mut self) -> Result<(), Flaw> {
        let alone = self.cases / 2;
        for case in 0..alone {
            let draft = self.draft(case)?;
            self.one(&draft)?;
        }
        let mut case = alone;
        while case < self.cases {
            let count = (self.cases - case).min(BURST as u64);
            let drafts = (case..case + count).map(|case| self.draft(case)).collect::<Result<Vec<_>, _>>()?;
            self.several(&drafts)?;
            case += count;
        }
        self.still_well(None)
    }

    /// The next message: the types take turns, so that each comes.
    fn draft(&mut self, case: u64) -> Result<Draft, Flaw> {
        let count = self.taken.len().max(1);
        for offset in 0..count {
            let Some(taken) = self.taken.get_mut((case as usize + offset) % count) else { break };
            let data = (0..ATTEMPTS_MAX).find_map(|_| {
                let data = Generator::new(&taken.data, &mut self.random).value().to_string();
                taken.pair.validator.check(&data, "{}").is_ok().then_some(data)
            });
            let Some(data) = data else { continue };
            taken.sent += 1;
            // Every other message has spaces, as most languages write them.
            let data = if case.is_multiple_of(2) { data } else { spaced(&data) };
            let data = Json::parse(&data).unwrap_or_else(|_| Json::null());
            let mut draft = Draft::new(taken.pair.kind, taken.pair.type_name.as_str(), data);
            draft.id = (case % 5 == 3).then(|| Text::from(format!("{ODD_ID} {case}").as_str()));
            return Ok(draft);
        }
        Err(Flaw::Failed(Failure::Refused(
            "no data can be made that fits its inbound schema; add `examples` to the schema of `data`".into(),
        )))
    }

    fn one(&mut self, draft: &Draft) -> Result<(), Flaw> {
        self.several(std::slice::from_ref(draft))
    }

    /// Sends messages and waits for the outcome of each.
    fn several(&mut self, drafts: &[Draft]) -> Result<(), Flaw> {
        let mut waiting: HashMap<String, String> = HashMap::new();
        for draft in drafts {
            let mut draft = draft.clone();
            draft.timeout_ms = draft
                .kind
                .is_request()
                .then(|| u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX).max(1));
            let sent = self.client.send(&draft)?;
            if sent.kind().is_request() {
                self.requests += 1;
                waiting.insert(sent.id().to_owned(), sent.line().to_owned());
            } else {
                self.events += 1;
            }
        }
        if waiting.is_empty() {
            return self.still_well(drafts.first());
        }
        let deadline = Deadline::after(self.timeout + Duration::from_secs(5));
        while !waiting.is_empty() {
            let Some(message) = self.client.receive(Some(deadline))? else {
                return Err(Flaw::Failed(Failure::Refused("the daemon ended".into())));
            };
            let Some(line) = message.causation().and_then(|id| waiting.remove(id)) else { continue };
            self.check_outcome(&message, line)?;
        }
        Ok(())
    }

    fn check_outcome(&mut self, outcome: &Envelope, line: String) -> Result<(), Flaw> {
        if outcome.kind() == Kind::Reply {
            return Ok(());
        }
        match Broken::from_type_name(outcome.type_name()) {
            // An error of its own: it may refuse what it likes.
            None => self.errors += 1,
            Some(_) => {
                let what = format!("got       {}", text::error_line(outcome));
                return Err(Flaw::Broke { what, line: Some(line) });
            }
        }
        Ok(())
    }

    /// Whether the program still is the one that was started, and up.
    fn still_well(&mut self, after: Option<&Draft>) -> Result<(), Flaw> {
        let answer = self.client.request(&Draft::new(Kind::Query, "Sys.Actors", Json::from(json!({}))))?;
        let data: Value = serde_json::from_str(answer.data()).unwrap_or_default();
        let actors = data["actors"].as_array().into_iter().flatten();
        let Some(actor) = actors.into_iter().find(|actor| actor["capabilityId"] == self.capability.as_str())
        else {
            return Ok(());
        };
        if actor["state"] == "up" && actor["incarnation"] == 1 && actor["faults"] == 0 {
            return Ok(());
        }
        let what = format!("found     it is {}, after {} faults", actor["state"], actor["faults"]);
        let line = after.map(|draft| format!("{} {}", draft.type_name.as_str(), draft.data.as_str()));
        Err(Flaw::Broke { what, line })
    }

    /// Ends its input, and waits for it to end by itself.
    fn end(&mut self, subject: &mut TestSubject) -> Result<(), Flaw> {
        self.client.request(&Draft::new(Kind::Command, "Syscall.Shutdown", Json::from(json!({}))))?;
        let took = subject.ended(self.grace);
        match took {
            Some(took) if self.grace.is_zero() || took < self.grace => Ok(()),
            _ => Err(Flaw::Broke {
                what: format!(
                    "found     it did not end within {} after its input had ended",
                    crate::text::units::show_duration(self.grace)
                ),
                line: None,
            }),
        }
    }
}

/// JSON with a space behind each colon and comma, as Python and many others write it.
fn spaced(json: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(json.len() + 16), false, false);
    for character in json.chars() {
        out.push(character);
        match character {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            ':' | ',' if !in_string => out.push(' '),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_put_between_the_parts_and_nowhere_else() {
        assert_eq!(spaced(r#"{"a:b":"c,\"d:","e":[1,2]}"#), r#"{"a:b": "c,\"d:", "e": [1, 2]}"#);
    }
}
