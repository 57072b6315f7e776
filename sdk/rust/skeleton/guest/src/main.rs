//! {{name}}: a capability of Mainspring, in a sandbox.
//!
//! When types or descriptions change, put what this prints into capability.json, beside `program`:
//!
//!     mainspring run target/wasm32-unknown-unknown/release/{{name}}.wasm -- --manifest

use mainspring_guest::capability::schemars::{self, JsonSchema};
use mainspring_guest::capability::{Capability, Context, Failure};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::rc::Rc;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Person {
    /// Whom it is about.
    #[schemars(length(min = 1))]
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct Greeting {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Count {
    name: String,
    times: u32,
}

/// How often each was greeted.
#[derive(Clone, Default)]
struct Greeted(Rc<RefCell<HashMap<String, u32>>>);

impl Greeted {
    /// A greeting, and how many that makes.
    fn greet(&self, name: String) -> (Greeting, Count) {
        let mut all = self.0.borrow_mut();
        let times = all.entry(name.clone()).or_default();
        *times += 1;
        (Greeting { text: format!("Hello, {name}!") }, Count { name, times: *times })
    }

    fn count(&self, name: String) -> Result<Count, Failure> {
        let times = self.0.borrow().get(&name).copied();
        let times = times.ok_or_else(|| Failure::new(404, format!("{name} was never greeted")))?;
        Ok(Count { name, times })
    }
}

fn main() -> ExitCode {
    let greeting = Greeted::default();
    let counting = greeting.clone();
    Capability::new("{{name}}", "Greets people by name, and remembers them.")
        .emits::<Count>("{{Type}}.Greeted", "Somebody was greeted.")
        .command("{{Type}}.Greet", "Greets somebody.", move |person: Person, context: Context| {
            let (greeted, count) = greeting.greet(person.name);
            async move {
                context.emit("{{Type}}.Greeted", &count).await?;
                Ok(greeted)
            }
        })
        .query("{{Type}}.Times", "Tells how often somebody was greeted.", move |person: Person, _: Context| {
            let count = counting.count(person.name);
            async move { count }
        })
        .run()
}

#[cfg(test)]
mod tests;
