//! What a guest writes to its host, and the host to a guest: frames and the messages in them. What
//! is read is written again as it was.

use mainspring_zcl::cap::{AcceptRecord, CapOpen, TcpOpen};
use mainspring_zcl::ctl::HandleOp;
use mainspring_zcl::info::{RandomSeed, TimeNow};
use mainspring_zcl::sys_loop::{
    Event, Poll, PollResponse, Readiness, Request, TimerArm, TimerCancel, Unwatch, Watch,
};
use mainspring_zcl::{ErrorPayload, Frame, Header};

pub(crate) fn run(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((frame, behind))) = Frame::decode(rest) {
        let read = rest.len() - behind.len();
        let mut buffer = vec![0; read];
        assert_eq!(frame.encode(&mut buffer), Ok(read));
        assert_eq!(buffer, rest[..read]);
        requests(&frame, &buffer);
        payloads(frame.payload);
        rest = behind;
    }
    // What is no frame: every reader of a part takes any bytes.
    let _ = Header::check_prefix(rest);
    payloads(rest);
}

fn requests(frame: &Frame<'_>, bytes: &[u8]) {
    let rid = frame.rid;
    match Request::decode(frame) {
        Ok(Request::Watch(request)) => assert_eq!(request.to_frame(rid)[..], *bytes),
        Ok(Request::Unwatch(request)) => assert_eq!(request.to_frame(rid)[..], *bytes),
        Ok(Request::TimerArm(request)) => assert_eq!(request.to_frame(rid)[..], *bytes),
        Ok(Request::TimerCancel(request)) => assert_eq!(request.to_frame(rid)[..], *bytes),
        Ok(Request::Poll(request)) => assert_eq!(request.to_frame(rid)[..], *bytes),
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}

fn payloads(bytes: &[u8]) {
    if let Ok(error) = ErrorPayload::decode(bytes) {
        let mut buffer = vec![0; bytes.len()];
        let written = error.encode(&mut buffer).expect("an error fits where it was read");
        assert_eq!(buffer[..written], bytes[..written]);
    }
    if let Ok(events) = PollResponse::decode(bytes) {
        let count = events.events().len();
        assert!(count * Event::BYTES <= bytes.len());
        assert_eq!(events.events().filter(|event| event.is_ok() || event.is_err()).count(), count);
    }
    let _ = (TcpOpen::decode(bytes), HandleOp::decode(bytes), TimeNow::decode(bytes));
    let _ = RandomSeed::decode(bytes);
    if let Some(record) = bytes.first_chunk() {
        let _ = AcceptRecord::decode(record);
    }
    if let Some(open) = bytes.first_chunk() {
        let _ = CapOpen::decode(open);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let watch = Watch { handle: 3, events: Readiness::READABLE, watch_id: 1 };
    let timer = TimerArm { timer_id: 7, due_mono_ns: 1_000, interval_ns: 10, relative: true };
    let mut error = [0; 64];
    let payload = ErrorPayload { trace: "sys.loop", message: "not allowed", detail: "" };
    let length = payload.encode(&mut error).unwrap_or(0);
    let mut frame = [0; 128];
    let refused = Frame { op: 1, rid: 9, status: 0, payload: &error[..length] };
    let framed = refused.encode(&mut frame).unwrap_or(0);
    vec![
        watch.to_frame(1).to_vec(),
        timer.to_frame(2).to_vec(),
        [&watch.to_frame(1)[..], &Poll { max_events: 8, timeout_ms: 100 }.to_frame(3)].concat(),
        Unwatch { watch_id: 1 }.to_frame(4).to_vec(),
        TimerCancel { timer_id: 7 }.to_frame(5).to_vec(),
        error[..length].to_vec(),
        frame[..framed].to_vec(),
    ]
}
