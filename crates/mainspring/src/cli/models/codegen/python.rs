//! The catalogue as a Python module for the package `mainspring`.

use super::schema::{Member, Type, of};
use super::{Catalogue, Request};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Names that no member of a class can have.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

pub(super) fn module(catalogue: &Catalogue) -> String {
    let mut made = Module::default();
    let requests: Vec<(&Request, String, String)> = catalogue
        .requests
        .iter()
        .map(|request| {
            let name = request.name.replace('.', "");
            let data = made.name_of(&of(&request.input), &format!("{name}Data"));
            let reply = made.name_of(&of(&request.output), &format!("{name}Reply"));
            (request, data, reply)
        })
        .collect();
    for event in &catalogue.events {
        let name = event.name.replace('.', "");
        let data = made.name_of(&of(&event.data), &format!("{name}Event"));
        if data != format!("{name}Event") {
            let _ = writeln!(made.classes, "{name}Event = {data}\n\n");
        }
    }
    let mut text = String::from(
        "\"\"\"Written by `mainspring codegen --lang python`: write it again when capabilities change.\n\n    \
         import mainspring\n    from catalogue import typed\n\n    \
         async with mainspring.connect() as client:\n        ms = typed(client)\n\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from typing import Any, Literal, Protocol, TypedDict, cast, overload\n\n\n",
    );
    text += &made.classes;
    text += &protocol(&requests);
    text
}

/// A client whose calls are known, by overloads.
fn protocol(requests: &[(&Request, String, String)]) -> String {
    let mut text = String::from(
        "class TypedClient(Protocol):\n    \"\"\"A client that knows the types of the daemon.\"\"\"\n\n",
    );
    for (method, kind) in [("send", "command"), ("query", "query")] {
        let chosen: Vec<_> = requests.iter().filter(|(request, _, _)| request.kind == kind).collect();
        for (request, data, reply) in &chosen {
            // One overload is none.
            if chosen.len() > 1 {
                text += "    @overload\n";
            }
            let name = json!(request.name);
            let _ = writeln!(
                text,
                "    async def {method}(self, type: Literal[{name}], data: {data}, **options: Any) -> {reply}: ..."
            );
        }
        if !chosen.is_empty() {
            text.push('\n');
        }
    }
    text + "\ndef typed(client: Any) -> TypedClient:\n    \"\"\"The same client, with types.\"\"\"\n    return cast(TypedClient, client)\n"
}

/// A member of a class.
struct Field {
    name: String,
    value: String,
    description: Option<String>,
}

#[derive(Default)]
struct Module {
    classes: String,
    taken: BTreeSet<String>,
}

impl Module {
    /// How a type is said; an object becomes a class of this name.
    fn name_of(&mut self, shown: &Type, name: &str) -> String {
        match shown {
            Type::Unknown => "Any".to_owned(),
            Type::Null => "None".to_owned(),
            Type::Boolean => "bool".to_owned(),
            Type::Integer => "int".to_owned(),
            Type::Number => "float".to_owned(),
            Type::Text => "str".to_owned(),
            Type::Constant(Value::Bool(value)) => {
                format!("Literal[{}]", if *value { "True" } else { "False" })
            }
            // There are no literals of numbers with a fraction.
            Type::Constant(Value::Number(number)) if number.is_f64() => "float".to_owned(),
            Type::Constant(value) => format!("Literal[{value}]"),
            Type::List(items) => format!("list[{}]", self.name_of(items, &format!("{name}Item"))),
            Type::Map(values) => format!("dict[str, {}]", self.name_of(values, &format!("{name}Value"))),
            Type::Object(members) => self.class(members, name),
            Type::Union(branches) => {
                let named = branches.iter().enumerate();
                let shown = named.map(|(at, branch)| self.name_of(branch, &format!("{name}{}", at + 1)));
                shown.collect::<Vec<_>>().join(" | ")
            }
        }
    }

    /// Members that may be missing are in a class of their own: Python 3.10 has no other way to say
    /// it.
    fn class(&mut self, members: &[Member], name: &str) -> String {
        let name = self.free(name);
        let (required, optional): (Vec<&Member>, Vec<&Member>) =
            members.iter().partition(|member| member.is_required);
        let [required, optional] = [required, optional].map(|part| self.fields(&part, &name));
        if members.iter().any(|member| !is_name(&member.name)) {
            let all: Vec<String> = required
                .iter()
                .chain(&optional)
                .map(|field| format!("{}: {}", json!(field.name), json!(field.value)))
                .collect();
            let total = if optional.is_empty() { "" } else { ", total=False" };
            let _ =
                writeln!(self.classes, "{name} = TypedDict(\"{name}\", {{{}}}{total})\n\n", all.join(", "));
            return name;
        }
        match (required.is_empty(), optional.is_empty()) {
            (_, true) => self.body(&format!("{name}(TypedDict)"), &required),
            (true, false) => self.body(&format!("{name}(TypedDict, total=False)"), &optional),
            (false, false) => {
                self.body(&format!("_{name}(TypedDict)"), &required);
                self.body(&format!("{name}(_{name}, total=False)"), &optional);
            }
        }
        name
    }

    fn fields(&mut self, members: &[&Member], class: &str) -> Vec<Field> {
        let field = |member: &&Member| Field {
            name: member.name.clone(),
            value: self.name_of(&member.value, &format!("{class}{}", capitalised(&member.name))),
            description: member.description.clone(),
        };
        members.iter().map(field).collect()
    }

    fn body(&mut self, head: &str, fields: &[Field]) {
        let _ = writeln!(self.classes, "class {head}:");
        for field in fields {
            if let Some(words) = &field.description {
                let _ = writeln!(self.classes, "    #: {}", words.replace(['\n', '\r'], " "));
            }
            let _ = writeln!(self.classes, "    {}: {}", field.name, field.value);
        }
        if fields.is_empty() {
            self.classes += "    pass\n";
        }
        self.classes += "\n\n";
    }

    fn free(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        let mut number = 2;
        while !self.taken.insert(free.clone()) {
            free = format!("{name}{number}");
            number += 1;
        }
        free
    }
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    let begins = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    begins && characters.all(|one| one.is_ascii_alphanumeric() || one == '_') && !KEYWORDS.contains(&text)
}

fn capitalised(text: &str) -> String {
    text.split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect()
}
