//! The cases: what is done, by whom, how often per round.

use std::hint::black_box;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::echo::{Echo, Speech};
use crate::payload::{Line, data_of_nodes, schema_of_nodes, usual_data, usual_schema};
use crate::peers::{Actix, Asked, Kameo, Ractor};

/// One figure in the making.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) subject: String,
    /// Messages per round.
    pub(crate) messages: usize,
    pub(crate) counts_allocations: bool,
    /// Handles so many messages.
    pub(crate) work: Box<dyn FnMut(usize)>,
}

/// The sizes for the cost of a JSON node.
pub(crate) const NODES: [usize; 5] = [0, 30, 300, 3_000, 30_000];
/// Messages that are on their way together in the pipelined cases.
const DEPTH: usize = 64;
/// Requests that nobody answers.
const PENDING: usize = 100_000;
/// Messages before the first round: the window of remembered answers is full then, as in a loop
/// that runs.
const WARM_UP: usize = 20_000;

pub(crate) fn all(quick: bool) -> Vec<Case> {
    let messages = if quick { 6_400 } else { 12_800 };
    let mut cases = vec![
        echo("echo", "mainspring", Speech::Values, 1, 0, messages),
        echo("echo-lines", "mainspring", Speech::Lines, 1, 0, messages),
        echo("echo-pipelined", "mainspring", Speech::Values, DEPTH, 0, messages),
        echo("echo-lines-pipelined", "mainspring", Speech::Lines, DEPTH, 0, messages),
        echo("pending-100000", "nothing-pending", Speech::Values, 1, 0, messages),
        echo("pending-100000", "mainspring", Speech::Values, 1, PENDING, messages),
    ];
    cases.extend(NODES.map(|nodes| echo_of_nodes(nodes, quick)));
    cases.extend(for_scale(messages));
    cases
}

fn case(name: &str, subject: &str, messages: usize, work: impl FnMut(usize) + 'static) -> Case {
    let (name, subject) = (name.to_owned(), subject.to_owned());
    Case { name, subject, messages, counts_allocations: false, work: Box::new(work) }
}

fn echo(name: &str, subject: &str, speech: Speech, depth: usize, pending: usize, messages: usize) -> Case {
    let mut echo = Echo::new(speech, &usual_data(), &usual_schema(), pending);
    if name == "echo" {
        println!("the line in has {} bytes\n", echo.line_bytes());
    }
    echo.exchange(WARM_UP, depth);
    let counts_allocations = name.starts_with("echo");
    Case {
        counts_allocations,
        ..case(name, subject, messages, move |messages| echo.exchange(messages, depth))
    }
}

fn echo_of_nodes(nodes: usize, quick: bool) -> Case {
    let mut echo = Echo::new(Speech::Values, &data_of_nodes(nodes), &schema_of_nodes(), 0);
    let messages = if quick { 100_000 } else { 300_000 } / (nodes + 100);
    echo.exchange(WARM_UP / (1 + nodes / 10), 1);
    case(&format!("nodes-{nodes}"), "mainspring", messages, move |messages| echo.exchange(messages, 1))
}

/// The least that any line needs: a struct with the data left as text.
#[derive(serde::Deserialize)]
struct Borrowed<'a> {
    kind: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

fn for_scale(messages: usize) -> Vec<Case> {
    let name = "for-scale";
    let usual_line = || Line::new("Echo.Say", &usual_data());
    let text = || String::from_utf8(usual_line().next().to_vec()).expect("it is text");
    let library = jsonschema::validator_for(&usual_schema()).expect("the schema is valid");
    let data = usual_data();
    let (mut values, mut borrowed) = (usual_line(), usual_line());
    let mut cases = vec![
        case(name, "serde_json, as values", messages, move |messages| {
            for _ in 0..messages {
                black_box(serde_json::from_slice::<Value>(black_box(values.next())).expect("it is JSON"));
            }
        }),
        case(name, "serde_json, data raw", messages, move |messages| {
            for _ in 0..messages {
                let read: Borrowed<'_> =
                    serde_json::from_slice(black_box(borrowed.next())).expect("it is JSON");
                black_box((read.kind.len(), read.data.get().len()));
            }
        }),
        case(name, "jsonschema, on values", messages, move |messages| {
            for _ in 0..messages {
                assert!(library.is_valid(black_box(&data)));
            }
        }),
    ];
    let mut ask = |subject: &str, mut asked: Box<dyn Asked>| {
        let line = text();
        asked.ask(WARM_UP, &line);
        cases.push(case(name, subject, messages, move |messages| asked.ask(messages, &line)));
    };
    ask("ractor, ask", Box::new(Ractor::new()));
    ask("kameo, ask", Box::new(Kameo::new()));
    ask("actix, ask", Box::new(Actix::new()));
    cases
}
