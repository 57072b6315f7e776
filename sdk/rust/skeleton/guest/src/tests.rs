//! Tests {{name}} without a sandbox: `cargo test` in this folder.

use super::*;

#[test]
fn people_are_greeted_by_name_and_counted() {
    let greeted = Greeted::default();
    assert_eq!(greeted.greet("Ada".into()).0.text, "Hello, Ada!");
    assert_eq!(greeted.greet("Ada".into()).1.times, 2);
    assert_eq!(greeted.count("Ada".into()).unwrap().times, 2);
}

#[test]
fn who_was_never_greeted_is_404() {
    assert_eq!(Greeted::default().count("Bob".into()).err().unwrap().code(), 404);
}
