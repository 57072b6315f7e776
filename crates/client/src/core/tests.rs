use super::*;
use crate::shared::block_on;
use std::future::poll_fn;

fn core() -> Core {
    let mut core = Core::new(None, "c-".to_owned());
    core.opened();
    core
}

fn outcome(slot: &Slot) -> Result<Reply, Error> {
    block_on(poll_fn(|context| slot.poll_outcome(context)))
}

fn written(core: &mut Core) -> Vec<Value> {
    let out = String::from_utf8(core.take_output()).unwrap();
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn answer(core: &mut Core, kind: &str, type_name: &str, cause: &str, data: &Value) {
    let metadata = json!({ "id": "r", "timestamp": 1, "causation": cause });
    let line = json!({ "kind": kind, "type": type_name, "data": data, "metadata": metadata }).to_string();
    core.take_line(line.as_bytes()).unwrap();
}

#[test]
fn a_request_that_was_under_way_is_sent_again_byte_for_byte_and_an_event_is_not() {
    let mut core = core();
    let (request, event) = (Slot::default(), Slot::default());
    core.request(&Request::command("App.Do", &json!({ "a": 1 })), request.clone()).unwrap();
    core.event(&Request::event("App.Done", &()), event.clone()).unwrap();
    let before = core.take_output();
    core.lost(None);
    assert!(matches!(outcome(&event), Err(Error::Closed { started: None, .. })));
    core.opened();
    let again = core.take_output();
    assert!(before.starts_with(&again) && !again.is_empty());
    answer(&mut core, "reply", "App.Do", "c-0", &json!(7));
    assert_eq!(outcome(&request).unwrap().text(), "7");
    assert!(!core.needs_connection());
}

#[test]
fn what_was_given_up_is_given_up_before_anything_else_on_a_new_connection() {
    let mut core = core();
    let (slot, request) = (Slot::default(), Slot::default());
    core.restrict(json!({ "allow": ["App.*"] }), slot).unwrap();
    answer(&mut core, "reply", "Sys.Restrict", "c-0", &json!({}));
    core.lost(None);
    core.request(&Request::query("App.Get", &()), request.clone()).unwrap();
    core.take_output();
    core.opened();
    let first = written(&mut core);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!((&first[0]["type"], &first[0]["data"]["allow"]), (&json!("Sys.Restrict"), &json!(["App.*"])));
    let id = first[0]["metadata"]["id"].as_str().unwrap().to_owned();
    answer(&mut core, "reply", "Sys.Restrict", &id, &json!({}));
    assert_eq!(written(&mut core)[0]["type"], "App.Get");
    // A daemon that does not know it, for one, must not see the program with all of its rights.
    core.lost(None);
    core.opened();
    let id = written(&mut core)[0]["metadata"]["id"].as_str().unwrap().to_owned();
    answer(&mut core, "error", "Sys.RoutingError", &id, &json!({ "code": 404, "message": "no" }));
    assert!(core.is_closed());
    assert!(outcome(&request).is_err());
}

#[test]
fn a_token_comes_first_and_nothing_else_before_the_daemon_answers() {
    let mut core = Core::new(Some("secret".to_owned()), "c-".to_owned());
    core.request(&Request::query("App.Get", &()), Slot::default()).unwrap();
    core.opened();
    let first = written(&mut core);
    assert_eq!((&first[0]["token"], &first[1]["type"]), (&json!("secret"), &json!("Syscall.Ping")));
    assert_eq!(first.len(), 2);
    let id = first[1]["metadata"]["id"].as_str().unwrap().to_owned();
    answer(&mut core, "reply", "Syscall.Ping", &id, &Value::Null);
    assert_eq!(written(&mut core)[0]["type"], "App.Get");
}

#[test]
fn a_daemon_that_is_silent_is_asked_and_then_given_up() {
    let mut core = core();
    core.request(&Request::query("App.Get", &()), Slot::default()).unwrap();
    core.take_output();
    let quiet = core.next_deadline().unwrap();
    assert!(core.tick(quiet - Duration::from_millis(1)) && written(&mut core).is_empty());
    assert!(core.tick(quiet));
    assert_eq!(written(&mut core)[0]["type"], "Syscall.Ping");
    let end = core.next_deadline().unwrap();
    assert!(core.tick(end - Duration::from_millis(1)) && !core.tick(end));
}

#[test]
fn a_request_ends_by_itself_only_after_the_daemon_had_its_chance() {
    let mut core = core();
    let slot = Slot::default();
    let request = Request::query("App.Get", &()).timeout(Duration::from_secs(1));
    core.request(&request, slot.clone()).unwrap();
    let due = core.next_deadline().unwrap();
    assert!(due >= Instant::now() + Duration::from_secs(2));
    core.tick(due);
    assert!(matches!(outcome(&slot), Err(Error::NoAnswer { .. })));
}

#[test]
fn a_cancelled_request_is_told_to_the_daemon_once_and_its_answer_ignored() {
    let mut core = core();
    let slot = Slot::default();
    let number = core.request(&Request::command("App.Do", &()), slot.clone()).unwrap();
    core.take_output();
    core.cancel(number);
    core.cancel(number);
    let told = written(&mut core);
    assert_eq!(
        (told.len(), &told[0]["type"], &told[0]["data"]["id"]),
        (1, &json!("Syscall.Cancel"), &json!("c-0"))
    );
    assert!(matches!(outcome(&slot), Err(Error::Cancelled)));
    answer(&mut core, "error", "Sys.Cancelled", "c-0", &json!({ "code": 499, "message": "cancelled" }));
}

#[test]
fn whoever_asks_for_too_much_waits_until_there_is_room() {
    let mut core = core();
    for _ in 0..REQUESTS_MAX {
        core.request(&Request::query("App.Get", &()), Slot::default()).unwrap();
    }
    let mut context = Context::from_waker(Waker::noop());
    assert!(core.poll_room(&mut context).is_pending());
    answer(&mut core, "reply", "App.Get", "c-0", &Value::Null);
    assert!(core.poll_room(&mut context).is_ready());
}
