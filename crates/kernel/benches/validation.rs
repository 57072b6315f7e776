//! What it costs to validate a hundred bytes of data:
//! `cargo bench -p mainspring-kernel --bench validation`.

use mainspring_kernel::schema::discover;
use serde_json::{Value, json};

fn main() {
    let data = json!({ "type": "object", "required": ["key", "value"], "additionalProperties": false, "properties": {
        "key": { "type": "string", "minLength": 1 }, "value": { "type": "string" },
        "count": { "type": "integer", "minimum": 0 }, "tags": { "type": "array", "items": { "type": "string" } } } });
    let schema = json!({ "properties": { "kind": { "const": "command" }, "type": { "const": "Memory.Set" },
        "data": data }, "required": ["kind", "type", "data", "metadata"] });
    let text = r#"{"key":"user/4711/name","value":"Ada Lovelace, Countess","count":12,"tags":["engine","analytical"]}"#;
    let line = format!(
        r#"{{"kind":"command","type":"Memory.Set","data":{text},"metadata":{{"id":"c-1","timestamp":1767910000000}}}}"#
    );
    let validator = &discover(&schema).unwrap()[0].validator;
    assert!(validator.has_shape());
    let (whole, part) =
        (jsonschema::validator_for(&schema).unwrap(), jsonschema::validator_for(&data).unwrap());
    let measure = |name: &str, run: &dyn Fn() -> bool| {
        let mut best = f64::MAX;
        for _ in 0..50 {
            let start = std::time::Instant::now();
            for _ in 0..10_000 {
                assert!(std::hint::black_box(run()));
            }
            best = best.min(start.elapsed().as_secs_f64() / 10_000.0 * 1e9);
        }
        println!("{name}: {best:.0} ns");
    };
    println!("data is {} bytes", text.len());
    measure("whole envelope, parse and library", &|| whole.is_valid(&serde_json::from_str(&line).unwrap()));
    measure("data, parse and library", &|| part.is_valid(&serde_json::from_str(text).unwrap()));
    let value: Value = serde_json::from_str(text).unwrap();
    measure("data, library alone", &|| part.is_valid(&value));
    measure("data, shape", &|| validator.check(std::hint::black_box(text), "{}").is_ok());
}
