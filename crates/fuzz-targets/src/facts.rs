//! A record of a journal that should be a fact: there is one way
//! to write it.

use mainspring_kernel::Fact;

/// The first byte is the kind, the second the version.
pub(crate) fn run(bytes: &[u8]) {
    let [kind, version, fields @ ..] = bytes else { return };
    let Ok(fact) = Fact::read(*kind, *version, fields) else { return };
    let mut written = Vec::new();
    fact.write(&mut written);
    assert_eq!((fact.kind(), fact.version(), &written[..]), (*kind, *version, fields));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let line = r#"{"kind":"command","type":"Test.Do","data":1,"metadata":{"id":"a","timestamp":1}}"#;
    let facts: [Fact<&str>; 5] = [
        Fact::Stopped { unix_ms: 1_767_910_000_000 },
        Fact::Delivered { request: 7, attempt: 1, unix_ms: 1_767_910_000_000 },
        Fact::Emitted { event: 3, unix_ms: 1_767_910_000_000, message: line },
        Fact::Dropped { first: 1, last: 9 },
        Fact::Put { store: "Memory", key: "colour", value: "\"blue\"" },
    ];
    facts.iter().map(framed).collect()
}

fn framed(fact: &Fact<&str>) -> Vec<u8> {
    let mut bytes = vec![fact.kind(), fact.version()];
    fact.write(&mut bytes);
    bytes
}
