//! The documentation of the protocol: prose, and what is made from the code itself (the registry of
//! errors, the built-ins and their schemas).
//!
//! `check --reference=protocol` prints it, and a test compares `docs/reference/protocol.md` with
//! it. The prose is in `protocol.md` beside this file. Nothing else uses it.

mod builtins;

use mainspring_message::Failure;
use serde_json::Value;

const PROSE: &str = include_str!("protocol.md");
const MESSAGE_SCHEMA: &str = include_str!("message.schema.json");
const ERROR_SCHEMA: &str = include_str!("error.schema.json");

/// JSON Schema of a message.
#[must_use]
pub fn message_schema() -> Value {
    serde_json::from_str(MESSAGE_SCHEMA).unwrap_or_default()
}

/// JSON Schema of the data of an error that the daemon itself writes.
#[must_use]
pub fn error_schema() -> Value {
    serde_json::from_str(ERROR_SCHEMA).unwrap_or_default()
}

/// The text of `docs/reference/protocol.md`.
#[must_use]
pub fn reference() -> String {
    PROSE
        .replace("{codes}\n", &codes())
        .replace("{builtins}\n", &builtins::tables())
        .replace("{message schema}\n", MESSAGE_SCHEMA)
        .replace("{error schema}\n", ERROR_SCHEMA)
}

fn codes() -> String {
    let mut table = String::from("| code | type | |\n| --- | --- | --- |\n");
    for failure in Failure::ALL {
        table.push_str(&format!(
            "| {} | `{}` | {} |\n",
            failure.code(),
            failure.type_name(),
            failure.meaning()
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_kernel::schema::Validator;
    use mainspring_message::{Envelope, ErrorData, Started};

    #[test]
    fn the_schema_of_messages_says_what_the_parser_does() {
        let schema = Validator::of_data(&message_schema()).unwrap();
        let metadata = r#""metadata":{"id":"a","timestamp":1}"#;
        let outcome = r#""metadata":{"id":"a","timestamp":1,"causation":"b"}"#;
        let id = "x".repeat(257);
        let lines = [
            format!(r#"{{"kind":"command","type":"A.B","data":{{}},{metadata}}}"#),
            format!(r#"{{"kind":"query","type":"A.B.C1","data":null,{metadata},"more":1}}"#),
            format!(r#"{{"kind":"reply","type":"A.B","data":1,{outcome}}}"#),
            format!(r#"{{"kind":"reply","type":"A.B","data":1,{metadata}}}"#),
            format!(r#"{{"kind":"error","type":"A.B","data":{{"code":400,"message":"x"}},{outcome}}}"#),
            format!(r#"{{"kind":"noise","type":"A.B","data":1,{metadata}}}"#),
            format!(r#"{{"kind":"event","type":"A","data":1,{metadata}}}"#),
            format!(r#"{{"kind":"event","type":"a.b","data":1,{metadata}}}"#),
            r#"{"kind":"event","type":"A.B","data":1}"#.into(),
            format!(r#"{{"kind":"event","type":"A.B",{metadata}}}"#),
            r#"{"kind":"event","type":"A.B","data":1,"metadata":{"id":"","timestamp":1}}"#.into(),
            r#"{"kind":"event","type":"A.B","data":1,"metadata":{"id":"a","timestamp":-1}}"#.into(),
            r#"{"kind":"event","type":"A.B","data":1,"metadata":{"id":"a","timestamp":1.5}}"#.into(),
            r#"{"kind":"event","type":"A.B","data":1,"metadata":{"id":"a","timestamp":1,"timeout":0}}"#.into(),
            r#"{"kind":"query","type":"A.B","data":1,"metadata":{"id":"a","timestamp":1,"timeout":5,"x":[]}}"#.into(),
            format!(r#"{{"kind":"event","type":"A.B","data":1,"metadata":{{"id":"{id}","timestamp":1}}}}"#),
            "[]".into(),
        ];
        for line in lines {
            let parsed = Envelope::parse(line.as_bytes()).is_ok();
            assert_eq!(schema.check(&line, "{}").is_ok(), parsed, "{line}");
        }
    }

    #[test]
    fn the_schema_of_errors_holds_for_every_error_of_the_loop() {
        let schema = Validator::of_data(&error_schema()).unwrap();
        for failure in Failure::ALL {
            let mut data = String::new();
            let error = ErrorData {
                failure,
                message: "x",
                original_id: None,
                original_type: Some("A.B"),
                started: Started::No,
            };
            error.write(&mut data);
            assert!(schema.check(&data, "{}").is_ok(), "{data}");
        }
        assert!(schema.check("{\"code\":1}", "{}").is_err());
    }
}
