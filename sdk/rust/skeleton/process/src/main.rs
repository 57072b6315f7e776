//! {{name}}: a capability of Mainspring.
//!
//! When types or descriptions change, write the manifest again: target/release/{{name}} --manifest
//! > capability.json

use mainspring_capability::schemars::{self, JsonSchema};
use mainspring_capability::{Capability, Context, Failure};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
struct Greeted(Arc<Mutex<HashMap<String, u32>>>);

impl Greeted {
    fn times(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn greet(&self, person: Person, context: &Context<'_>) -> Result<Greeting, Failure> {
        let name = person.name;
        let times = {
            let mut all = self.times();
            let times = all.entry(name.clone()).or_default();
            *times += 1;
            *times
        };
        let text = format!("Hello, {name}!");
        context.emit("{{Type}}.Greeted", &Count { name, times })?;
        Ok(Greeting { text })
    }

    fn count(&self, person: Person) -> Result<Count, Failure> {
        let times = self.times().get(&person.name).copied();
        let never = || Failure::new(404, format!("{} was never greeted", person.name));
        let times = times.ok_or_else(never)?;
        Ok(Count { name: person.name, times })
    }
}

fn main() -> ExitCode {
    let greeting = Greeted::default();
    let counting = greeting.clone();
    Capability::new("{{name}}", "Greets people by name, and remembers them.")
        .emits::<Count>("{{Type}}.Greeted", "Somebody was greeted.")
        .command("{{Type}}.Greet", "Greets somebody.", move |person, context| greeting.greet(person, context))
        .query("{{Type}}.Times", "Tells how often somebody was greeted.", move |person, _| counting.count(person))
        .run()
}
