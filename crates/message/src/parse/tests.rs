use super::*;
use crate::{Draft, Json};
use proptest::prelude::*;

const LINE: &str = r#"{"kind":"command","type":"Memory.Set","data":{"a":[1,"x"]},"metadata":{"id":"c-1","timestamp":17,"correlation":"w","timeout":500,"trace":{"b":1}}}"#;

fn rejected(line: &str) -> Rejection {
    Envelope::parse(line.as_bytes()).expect_err(line)
}

fn replaced(from: &str, to: &str) -> Rejection {
    assert!(LINE.contains(from), "{from}");
    rejected(&LINE.replacen(from, to, 1))
}

#[test]
fn a_line_is_read_with_every_field_in_place() {
    let envelope = Envelope::parse(LINE.as_bytes()).unwrap();
    assert_eq!(envelope.kind(), Kind::Command);
    assert_eq!(envelope.type_name(), "Memory.Set");
    assert_eq!(envelope.data(), r#"{"a":[1,"x"]}"#);
    assert_eq!(envelope.id(), "c-1");
    assert_eq!(envelope.timestamp_ms(), 17);
    assert_eq!(envelope.correlation(), Some("w"));
    assert_eq!(envelope.causation(), None);
    assert_eq!(envelope.timeout_ms(), Some(500));
    assert!(envelope.metadata().starts_with(r#"{"id":"#) && envelope.metadata().ends_with(r#"{"b":1}}"#));
    assert_eq!(envelope.line(), LINE);
}

#[test]
fn each_rejection_names_its_field_and_carries_its_code() {
    for (from, to, field, code) in [
        (r#""kind":"command","#, "", "kind", 422),
        (r#""kind":"command""#, r#""kind":"order""#, "kind", 422),
        (r#""kind":"command""#, r#""kind":1"#, "kind", 422),
        (r#""type":"Memory.Set","#, "", "type", 422),
        ("Memory.Set", "Memory", "type", 422),
        ("Memory.Set", "memory.set", "type", 422),
        ("Memory.Set", "Memory.", "type", 422),
        ("Memory.Set", "Memory..Set", "type", 422),
        (r#""data":{"a":[1,"x"]},"#, "", "data", 422),
        (r#""id":"c-1","#, "", "metadata.id", 422),
        (r#""id":"c-1""#, r#""id":7"#, "metadata.id", 422),
        (r#""id":"c-1""#, r#""id":"""#, "metadata.id", 422),
        (r#""id":"c-1""#, r#""id":"\ud800""#, "metadata.id", 422),
        (r#""id":"c-1""#, r#""id":"c-1","id":"c-2""#, "metadata.id", 422),
        (r#""timestamp":17,"#, "", "metadata.timestamp", 422),
        (r#""timestamp":17"#, r#""timestamp":-1"#, "metadata.timestamp", 422),
        (r#""timestamp":17"#, r#""timestamp":1.5"#, "metadata.timestamp", 422),
        (r#""timestamp":17"#, r#""timestamp":"17""#, "metadata.timestamp", 422),
        (r#""correlation":"w""#, r#""correlation":null"#, "metadata.correlation", 422),
        (r#""timeout":500"#, r#""timeout":0"#, "metadata.timeout", 422),
        ("command", "reply", "metadata.causation", 422),
        (r#""metadata":{"#, r#""metadata":3,"x":{"#, "metadata", 422),
        ("}}}", "}}", "", 400),
        ("}}}", "}}}}", "", 400),
        ("{\"kind\"", "[\"kind\"", "", 400),
    ] {
        let rejection = replaced(from, to);
        assert_eq!((rejection.field, rejection.failure.code()), (field, code), "{to}: {rejection}");
    }
}

#[test]
fn a_rejection_tells_what_was_read_before_the_fault() {
    let rejection = replaced("}}}", "}}");
    assert_eq!(rejection.id.as_deref(), Some("c-1"));
    assert_eq!(rejection.type_name.as_deref(), Some("Memory.Set"));
    assert_eq!(rejection.kind, Some(Kind::Command));
}

#[test]
fn a_rejection_names_the_id_also_when_the_fault_stands_before_it() {
    let deep = format!(r#""data":{}1{}"#, "[".repeat(200), "]".repeat(200));
    for (from, to) in [
        (r#""kind":"command""#, r#""kind":"order""#),
        (r#""kind":"command""#, r#""kind":1"#),
        (r#""kind":"command""#, r#""kind":"command","kind":"command""#),
        ("Memory.Set", "memory.set"),
        (r#""type":"Memory.Set""#, r#""type":{"a":["b",{"metadata":{"id":"other"}}]}"#),
        (r#""data":{"a":[1,"x"]}"#, r#""data":{"a":[1,"}\"]},{"]},"data":1"#),
        (r#""data":{"a":[1,"x"]}"#, r#""data":01"#),
        (r#""data":{"a":[1,"x"]}"#, r#""data":nonsense"#),
        (r#""data":{"a":[1,"x"]}"#, &deep),
        (r#""id":"c-1","timestamp":17"#, r#""timestamp":-17,"id":"c-1""#),
        (r#""id":"c-1""#, r#""timeout":0,"id":"c-1""#),
        (r#""id":"c-1""#, r#""timestamp":[1,2],"id":"c\u002d1""#),
    ] {
        let rejection = replaced(from, to);
        assert_eq!(rejection.id.as_deref(), Some("c-1"), "{to}: {rejection}");
    }
    // The line as a whole is no text, or ends too early: the id is still there to read.
    let mut bytes = LINE.as_bytes().to_vec();
    let at = bytes.windows(3).position(|three| three == b"\"x\"").unwrap();
    bytes[at + 1] = 0xff;
    assert_eq!(Envelope::parse(&bytes).unwrap_err().id.as_deref(), Some("c-1"));
}

#[test]
fn an_id_that_cannot_be_read_is_not_made_up() {
    for (from, to) in [
        (r#""id":"c-1""#, r#""id":7"#),
        (r#""id":"c-1""#, r#""id":"""#),
        (r#""id":"c-1""#, r#""id":"\ud800""#),
        (r#""metadata":{"#, r#""meta":{"#),
        (r#""metadata":{"#, r#""metadata":[{"#),
    ] {
        assert_eq!(replaced(from, to).id, None, "{to}");
    }
    let long = format!(r#""id":"{}""#, "x".repeat(257));
    assert_eq!(replaced(r#""id":"c-1""#, &long).id, None);
    for line in
        ["", "{", "{\"", "{\"metadata\":{\"id\":\"c", "{\"metadata\":{\"id", "[", "\u{1}", "{\"a\" \"b\"\\"]
    {
        assert_eq!(rejected(line).id, None, "{line}");
    }
    let broken = Envelope::parse(b"{\"kind\":1,\"metadata\":{\"id\":\"c-\xff\"}}").unwrap_err();
    assert_eq!(broken.id, None);
}

#[test]
fn a_bad_error_is_known_as_one_wherever_its_kind_stands() {
    let line = r#"{"type":"bad","data":1,"metadata":{"id":"e-1","timestamp":1},"kind":"error"}"#;
    let rejection = rejected(line);
    assert_eq!((rejection.field, rejection.kind), ("type", Some(Kind::Error)));
}

#[test]
fn bytes_that_are_not_utf8_are_malformed() {
    let rejection = Envelope::parse(b"{\"kind\":\"\xff\"}").unwrap_err();
    assert_eq!(rejection.failure, Failure::Malformed);
}

#[test]
fn types_may_have_more_than_two_segments() {
    let envelope = Envelope::parse(LINE.replace("Memory.Set", "Acme.Memory.Set2").as_bytes()).unwrap();
    assert_eq!(envelope.type_name(), "Acme.Memory.Set2");
}

#[test]
fn escaped_strings_are_decoded_and_line_breaks_between_tokens_vanish() {
    let line = LINE.replace("c-1", "c\\u002d\\\"1").replace("\"data\":", "\n \"data\" :\r\n");
    let envelope = Envelope::parse(line.as_bytes()).unwrap();
    assert_eq!(envelope.id(), "c-\"1");
    assert!(!envelope.line().contains(['\n', '\r']));
    assert_eq!(Envelope::parse(envelope.line().as_bytes()).unwrap().id(), "c-\"1");
}

#[test]
fn a_member_is_added_without_touching_any_other_byte() {
    let envelope = Envelope::parse(LINE.replace(r#""correlation":"w","#, "").as_bytes()).unwrap();
    let with = envelope.with_metadata_member("correlation", "q\"");
    assert_eq!(with.correlation(), Some("q\""));
    assert_eq!(with.line().replace(r#""correlation":"q\"","#, ""), envelope.line());
}

#[test]
fn every_field_is_still_in_place_after_a_member_was_added() {
    let reordered = r#"{"metadata":{"timestamp":17,"causation":"\u0001a","id":"c-1"},"data":[1],"type":"Memory.Set","kind":"reply"}"#;
    for line in [LINE.replace(r#""correlation":"w","#, "").as_str(), reordered] {
        for value in ["w", "q\"\u{1}"] {
            let with = Envelope::parse(line.as_bytes()).unwrap().with_metadata_member("correlation", value);
            let read = Envelope::parse(with.line().as_bytes()).unwrap();
            for envelope in [&with, &read, &with.with_metadata_member("timerId", "t")] {
                assert_eq!(envelope.correlation(), Some(value));
                assert_eq!((envelope.kind(), envelope.type_name()), (read.kind(), "Memory.Set"));
                assert_eq!((envelope.id(), envelope.data()), ("c-1", read.data()));
                assert_eq!((envelope.causation(), envelope.timestamp_ms()), (read.causation(), 17));
                assert_eq!(envelope.timeout_ms(), read.timeout_ms());
                assert!(envelope.metadata().starts_with('{') && envelope.metadata().ends_with('}'));
                assert!(serde_json::from_str::<serde_json::Value>(envelope.metadata()).is_ok());
            }
        }
    }
}

#[test]
fn a_number_is_added_or_takes_the_place_of_another() {
    let plain = r#"{"kind":"command","type":"A.B","data":[1],"metadata":{"timestamp":17,"causation":"\u0001a","id":"c-1"}}"#;
    let first = r#"{"metadata":{"id":"c-1","timestamp":17},"data":[1],"type":"A.B","kind":"query"}"#;
    let lines = [
        plain.to_owned(),
        first.to_owned(),
        plain.replace("\"timestamp\"", "\"timeout\":9,\"timestamp\""),
        plain.replace("\"timestamp\"", "\"time\\u006fut\":9,\"timestamp\""),
        plain.replace("\"timestamp\"", "\"other\":\"timeout\",\"timestamp\""),
    ];
    for line in lines {
        let envelope = Envelope::parse(line.as_bytes()).unwrap();
        let with = envelope.with_metadata_number("timeout", 1_234);
        let read = Envelope::parse(with.line().as_bytes()).unwrap();
        for with in [&with, &read] {
            assert_eq!((with.timeout_ms(), with.timestamp_ms()), (Some(1_234), 17), "{line}");
            assert_eq!((with.kind(), with.type_name()), (envelope.kind(), "A.B"), "{line}");
            assert_eq!((with.id(), with.data()), ("c-1", "[1]"), "{line}");
            assert_eq!(with.causation(), envelope.causation(), "{line}");
        }
        let other = envelope.with_metadata_number("attempt", 2);
        assert_eq!(other.timeout_ms(), envelope.timeout_ms(), "{line}");
        assert!(other.metadata().contains("\"attempt\":2"), "{line}");
    }
}

#[test]
fn an_id_is_as_long_as_its_text_however_it_is_spelt() {
    let with_id = |id: &str| Envelope::parse(LINE.replace("c-1", id).as_bytes());
    // Two bytes each as it comes, six when it is written again.
    let read = with_id(&"\\b".repeat(NAME_BYTES_MAX)).unwrap();
    let reply = Draft::reply(&read, Json::null()).compose("r", 1, &mut String::new());
    assert_eq!(Envelope::parse(reply.line().as_bytes()).unwrap().causation(), Some(read.id()));
    for id in ["\\b".repeat(NAME_BYTES_MAX + 1), "x".repeat(NAME_BYTES_MAX + 1), "\\u0001".repeat(100_000)] {
        assert_eq!(with_id(&id).unwrap_err().field, "metadata.id");
    }
}

proptest! {
    #[test]
    fn what_is_composed_is_read_back_the_same(
        id in "\\PC{1,20}", causation in proptest::option::of("[a-z\"\\\\\n]{1,9}"),
        correlation in proptest::option::of(".{1,9}"), timestamp in 0..=INTEGER_MAX,
        timeout in proptest::option::of(1..=INTEGER_MAX), text in ".*",
    ) {
        let mut draft = Draft::new(Kind::Event, "Memory.Changed", Json::from_value(&text).unwrap());
        draft.causation = causation.as_deref().map(Into::into);
        draft.correlation = correlation.as_deref().map(Into::into);
        draft.timeout_ms = timeout;
        let sent = draft.compose(&id, timestamp, &mut String::new());
        let read = Envelope::parse(sent.line().as_bytes()).unwrap();
        for envelope in [&sent, &read] {
            prop_assert_eq!(envelope.id(), &id);
            prop_assert_eq!(envelope.causation(), causation.as_deref());
            prop_assert_eq!(envelope.correlation(), correlation.as_deref());
            prop_assert_eq!(envelope.timestamp_ms(), timestamp);
            prop_assert_eq!(envelope.timeout_ms(), timeout);
            prop_assert_eq!(envelope.data_as::<String>().unwrap(), text.clone());
            prop_assert_eq!(envelope.type_name(), "Memory.Changed");
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Envelope::parse(&bytes);
    }

    #[test]
    fn no_cut_or_flipped_line_makes_it_panic(at in 0..LINE.len(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = LINE.as_bytes().to_vec();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(envelope) = Envelope::parse(&bytes) {
            prop_assert!(serde_json::from_str::<serde_json::Value>(envelope.line()).is_ok());
        }
    }
}

#[test]
fn what_is_no_text_is_found_wherever_it_stands() {
    for length in 0..=70 {
        let plain = vec![b'a'; length];
        assert_eq!(text_of(&plain).map(str::len), Some(length));
        for place in 0..length {
            for wrong in [0x80, 0xc3, 0xff] {
                let mut line = plain.clone();
                line[place] = wrong;
                assert_eq!(text_of(&line), None, "{wrong:#x} at {place} of {length}");
            }
            // What is text without being ASCII is text.
            let other = format!("{}\u{e9}{}", "a".repeat(place), "a".repeat(length - place));
            assert_eq!(text_of(other.as_bytes()), Some(&*other));
        }
    }
}

#[test]
fn a_fault_is_told_where_it_is() {
    let reason = |line: &str| Envelope::parse(line.as_bytes()).unwrap_err().reason;
    for (line, told) in [
        ("", "not JSON at byte 0: expected an object"),
        ("[1]", "not JSON at byte 0: expected an object"),
        (r#"{"kind""#, "not JSON at byte 7: expected a colon after the member name"),
        (r#"{"kind":"command","#, "not JSON at byte 18: expected a member name in quotes"),
        (r#"{"kind":"command" "type""#, "not JSON at byte 18: expected a comma or the end of the object"),
        (r#"{"type":"A.B","data":[1,}"#, "not JSON at byte 24: expected a value"),
        (r#"{"data":{"a":1 2}}"#, "not JSON at byte 15: expected a comma or the end of the object"),
        (r#"{"data":"a\x"}"#, "not JSON at byte 11: expected one of \" \\ / b f n r t u after a backslash"),
        (r#"{"metadata":{"id":"a"#, "not JSON at byte 20: expected the closing quote of a string"),
        (r#"{"metadata":{"timestamp":tru}}"#, "not JSON at byte 25: expected true, false or null"),
        (r#"{"x":01}"#, "not JSON at byte 6: expected a comma or the end of the object"),
        (r#"{} x"#, "not JSON at byte 3: expected nothing more after the value"),
    ] {
        assert_eq!(reason(line), told, "{line}");
    }
}
