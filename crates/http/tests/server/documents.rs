//! Documents and numbers.

use crate::support::{connect, start};
use mainspring_http::Limits;
use serde_json::json;

#[test]
fn h5_1_openapi_has_every_type_with_its_schemas() {
    let server = start(Limits::default());
    let answer = connect(&server).ask("GET", "/openapi.json", "", "");
    let document = answer.json();
    assert_eq!((answer.status, &document["openapi"]), (200, &json!("3.1.0")));
    assert_eq!(document["info"]["version"], "1.2.3");
    let add = &document["paths"]["/v1/commands/Test.Add"]["post"];
    assert_eq!(add["requestBody"]["content"]["application/json"]["schema"]["required"], json!(["a"]));
    assert!(document["paths"]["/v1/queries/Test.Echo"]["get"].is_object());
    assert!(document["paths"]["/v1/events/Test.Happened"]["post"]["responses"]["202"].is_object());
    assert!(document["paths"]["/v1/queries/Sys.Stats"].is_object(), "what the daemon serves is there too");
}

#[test]
fn h5_2_asyncapi_has_what_is_taken_and_what_is_emitted() {
    let server = start(Limits::default());
    let document = connect(&server).ask("GET", "/asyncapi.json", "", "").json();
    assert_eq!(document["asyncapi"], "3.1.0");
    assert_eq!(document["operations"]["command_Test_Add"]["action"], "receive");
    assert_eq!(document["operations"]["emitted_Test_Added"]["action"], "send");
    assert_eq!(document["channels"]["emitted_Test_Added"]["address"], "Test.Added");
}

#[test]
fn h5_3_the_schema_of_a_type_is_there_and_of_nothing_else() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    let schema = client.ask("GET", "/schemas/Test.Add.json", "", "").json();
    assert_eq!(schema["kinds"][0]["input"]["required"], json!(["a"]));
    assert_eq!(client.ask("GET", "/schemas/Test.Nothing.json", "", "").status, 404);
}

#[test]
fn h5_4_metrics_are_the_numbers_of_the_daemon() {
    let server = start(Limits::default());
    let mut client = connect(&server);
    for _ in 0..3 {
        client.ask("POST", "/v1/commands/Test.Add", "", r#"{"a":1}"#);
    }
    let answer = client.ask("GET", "/metrics", "", "");
    assert!(answer.headers["content-type"].starts_with("application/openmetrics-text"));
    let text = answer.text();
    assert!(text.contains("mainspring_capability_handled_total{capability=\"Test\"} 3"), "{text}");
    assert!(text.contains("mainspring_capability_up{capability=\"Test\"} 1"), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn h5_5_readiness_lists_its_checks() {
    let server = start(Limits::default());
    let answer = connect(&server).ask("GET", "/readyz?verbose", "", "");
    assert_eq!(answer.json(), json!({ "ok": true, "checks": [{ "name": "boot", "ok": true }] }));
}
