//! The catalogue as a TypeScript module for `@mainspring/sdk`.

use super::schema::{Member, Type, of};
use super::{Catalogue, Event, Request};
use serde_json::json;
use std::fmt::Write as _;

pub(super) fn module(catalogue: &Catalogue) -> String {
    let mut text = String::from(
        "// Written by `mainspring codegen --lang ts`: write it again when capabilities change.\n\
         //\n\
         //   import { connect } from \"@mainspring/sdk\";\n\
         //   import type { Catalogue } from \"./catalogue.ts\";\n\
         //   const ms = await connect<Catalogue>();\n\n\
         /** What may be sent to the daemon, and what it tells. */\n\
         export interface Catalogue {\n",
    );
    for request in &catalogue.requests {
        text += &of_request(request);
    }
    for event in &catalogue.events {
        text += &of_event(event);
    }
    text += "}\n";
    text
}

fn of_request(request: &Request) -> String {
    let words = request.description.as_deref().unwrap_or_default();
    let mut comment = words.to_owned();
    if request.deprecated {
        comment += "\n@deprecated";
    }
    let (data, reply) = (show(&of(&request.input), 4), show(&of(&request.output), 4));
    let name = json!(request.name);
    format!(
        "{}  {name}: {{\n    kind: \"{}\";\n    data: {data};\n    reply: {reply};\n  }};\n",
        comment_of(&comment, 2),
        request.kind
    )
}

fn of_event(event: &Event) -> String {
    let comment = comment_of(event.description.as_deref().unwrap_or_default(), 2);
    let (name, data) = (json!(event.name), show(&of(&event.data), 4));
    format!("{comment}  {name}: {{\n    kind: \"event\";\n    data: {data};\n  }};\n")
}

/// A comment that nothing in the words can end.
fn comment_of(words: &str, indent: usize) -> String {
    let words = words.trim().replace("*/", "* /");
    if words.is_empty() {
        return String::new();
    }
    let pad = " ".repeat(indent);
    let lines: Vec<&str> = words.lines().collect();
    match lines[..] {
        [line] => format!("{pad}/** {line} */\n"),
        _ => {
            let inner: String = lines.iter().fold(String::new(), |mut text, line| {
                let _ = writeln!(text, "{pad} * {line}");
                text
            });
            format!("{pad}/**\n{inner}{pad} */\n")
        }
    }
}

fn show(shown: &Type, indent: usize) -> String {
    match shown {
        Type::Unknown => "unknown".to_owned(),
        Type::Null => "null".to_owned(),
        Type::Boolean => "boolean".to_owned(),
        // An integer beyond 2^53 is a bigint in the SDK.
        Type::Integer => "number | bigint".to_owned(),
        Type::Number => "number".to_owned(),
        Type::Text => "string".to_owned(),
        Type::Constant(value) => value.to_string(),
        Type::List(items) => format!("Array<{}>", show(items, indent)),
        Type::Map(values) => format!("Record<string, {}>", show(values, indent)),
        Type::Object(members) => object(members, indent),
        Type::Union(branches) => {
            branches.iter().map(|branch| show(branch, indent)).collect::<Vec<_>>().join(" | ")
        }
    }
}

fn object(members: &[Member], indent: usize) -> String {
    let mut text = String::from("{\n");
    for member in members {
        text += &comment_of(member.description.as_deref().unwrap_or_default(), indent + 2);
        let (name, mark) = (json!(member.name), if member.is_required { "" } else { "?" });
        let _ =
            writeln!(text, "{}{name}{mark}: {};", " ".repeat(indent + 2), show(&member.value, indent + 2));
    }
    text + &" ".repeat(indent) + "}"
}
