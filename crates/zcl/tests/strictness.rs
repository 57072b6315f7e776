//! What must be refused is, byte for byte; and no input whatever makes a reader panic.

use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::cap::{AcceptRecord, TcpOpen};
use mainspring_zcl::ctl::HandleOp;
use mainspring_zcl::info::{RandomSeed, TimeNow};
use mainspring_zcl::sys_loop::{
    BadRequest, Event, Poll, PollResponse, Readiness, Request, TimerArm, TimerCancel, Unwatch, Watch,
};
use mainspring_zcl::{ErrorPayload, Frame, Header, MalformedFrame};

fn request(bytes: &[u8]) -> Result<Request, BadRequest> {
    Request::decode(&Frame::decode(bytes).expect("a frame").expect("a whole one").0)
}

fn with(mut bytes: Vec<u8>, at: usize, value: &[u8]) -> Vec<u8> {
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

const WATCH: Watch = Watch { handle: 3, events: Readiness::READABLE, watch_id: 1 };
const ARM: TimerArm = TimerArm { timer_id: 1, due_mono_ns: 2, interval_ns: 3, relative: true };

#[test]
fn a_watch_is_laid_out_as_the_protocol_says() {
    let events = Readiness::READABLE | Readiness::ERROR;
    let frame = Watch { handle: 0x0403_0201, events, watch_id: 0x1817_1615_1413_1211 }.to_frame(0x0D0C_0B0A);
    let expected = [
        b'Z', b'C', b'L', b'1', 1, 0, 1, 0, 0x0A, 0x0B, 0x0C, 0x0D, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0,
        0, //
        1, 2, 3, 4, 9, 0, 0, 0, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0, 0, 0, 0,
    ];
    assert_eq!(frame, expected);
}

#[test]
fn an_event_is_laid_out_as_the_protocol_says() {
    let ready = Event::Ready { watch_id: 0x0807_0605_0403_0201, handle: 9, events: Readiness::HANGUP };
    let expected =
        [1, 0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(ready.encode(), expected);
    let timer = Event::Timer { timer_id: 7, now_mono_ns: 0x0807_0605_0403_0201 };
    let expected =
        [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(timer.encode(), expected);
}

#[test]
fn payloads_have_the_exact_sizes_of_the_protocol() {
    let sizes = [1, 2, 3, 4, 5].map(|op| Request::payload_bytes(op).unwrap());
    assert_eq!(sizes, [20, 8, 28, 8, 8]);
    assert_eq!(Request::payload_bytes(0), None);
    assert_eq!(Request::payload_bytes(6), None);
    for op in 1..=5 {
        let exact = sizes[usize::from(op) - 1] as u32;
        for payload_len in (0..64).filter(|length| *length != exact) {
            let refused = Request::check_header(&Header::request(op, 1, payload_len)).unwrap_err();
            assert!(refused.message().starts_with("bad "), "{refused}");
        }
    }
}

#[test]
fn a_frame_with_a_foreign_magic_version_status_or_reserved_field_is_refused_as_early_as_it_shows() {
    let good = WATCH.to_frame(1).to_vec();
    for (at, value, wrong) in [
        (0, 0x5B, MalformedFrame::Magic),
        (3, b'2', MalformedFrame::Magic),
        (4, 2, MalformedFrame::Version),
        (5, 1, MalformedFrame::Version),
        (12, 2, MalformedFrame::Status),
        (16, 7, MalformedFrame::Reserved),
        (19, 1, MalformedFrame::Reserved),
    ] {
        let bad = with(good.clone(), at, &[value]);
        assert_eq!(Frame::decode(&bad[..at]), Ok(None), "byte {at} has not been seen yet");
        assert_eq!(Frame::decode(&bad[..=at]), Err(wrong));
        assert_eq!(Frame::decode(&bad), Err(wrong));
    }
}

#[test]
fn senseless_fields_of_requests_are_refused() {
    let watch = WATCH.to_frame(1).to_vec();
    let arm = ARM.to_frame(1).to_vec();
    let poll = Poll { max_events: 1, timeout_ms: 0 }.to_frame(1).to_vec();
    assert_eq!(request(&with(watch.clone(), 28, &[0])), Err(BadRequest::NoEvents));
    assert_eq!(request(&with(watch.clone(), 28, &[0x11])), Err(BadRequest::UnknownEvents));
    assert_eq!(request(&with(watch.clone(), 32, &[0])), Err(BadRequest::ZeroWatchId));
    assert_eq!(request(&with(watch.clone(), 40, &[1])), Err(BadRequest::WatchFlags));
    assert_eq!(request(&with(arm.clone(), 24, &[0])), Err(BadRequest::ZeroTimerId));
    assert_eq!(request(&with(arm, 48, &[3])), Err(BadRequest::TimerFlags));
    assert_eq!(request(&with(poll, 24, &[0])), Err(BadRequest::ZeroMaxEvents));
    assert_eq!(request(&with(watch.clone(), 6, &[9])), Err(BadRequest::UnknownOp));
    assert_eq!(request(&with(watch, 12, &[1])), Err(BadRequest::NotARequest));
}

#[test]
fn a_poll_response_with_a_wrong_version_flag_count_or_size_is_refused() {
    let events = [Event::Timer { timer_id: 1, now_mono_ns: 2 }];
    let mut buffer = [0; 72];
    PollResponse::encode_frame(1, false, &events, &mut buffer).unwrap();
    let payload = buffer[24..].to_vec();
    assert!(PollResponse::decode(&payload).is_ok());
    for (at, value) in [(0, 2), (4, 2), (8, 0), (8, 2), (12, 1)] {
        assert!(PollResponse::decode(&with(payload.clone(), at, &[value])).is_err(), "byte {at}");
    }
    assert!(PollResponse::decode(&payload[..47]).is_err());
    for (at, value) in [(16, 3), (20, 1), (24, 1), (28, 1)] {
        let payload = with(payload.clone(), at, &[value]);
        let mut events = PollResponse::decode(&payload).unwrap().events();
        assert!(events.next().unwrap().is_err(), "byte {at}");
    }
}

#[test]
fn the_reference_implementations_error_payload_is_readable() {
    // It announces four bytes more than it fills.
    let mut payload = vec![8, 0, 0, 0];
    payload.extend_from_slice(b"sys.loop");
    payload.extend_from_slice(&[10, 0, 0, 0]);
    payload.extend_from_slice(b"unknown op");
    payload.extend_from_slice(&[0, 0, 0, 0, 0xDE, 0xAD, 0xBE, 0xEF]);
    let error = ErrorPayload::decode(&payload).unwrap();
    assert_eq!((error.trace, error.message, error.detail), ("sys.loop", "unknown op", ""));
}

#[test]
fn error_codes_are_those_of_zabi_2_5() {
    let numbers = ErrorCode::ALL.map(ErrorCode::as_raw);
    assert_eq!(numbers, [-1, -2, -3, -4, -5, -6, -7, -8, -9, -10]);
    assert!(ErrorCode::ALL.iter().all(|code| ErrorCode::from_raw(code.as_raw()) == Some(*code)));
    assert_eq!(ErrorCode::from_raw(0), None);
}

/// A small generator whose sequence is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 3
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn read_everything(bytes: &[u8]) {
    if let Ok(Some((frame, rest))) = Frame::decode(bytes) {
        assert_eq!(24 + frame.payload.len() + rest.len(), bytes.len());
        let _ = Request::decode(&frame);
    }
    if let Ok(error) = ErrorPayload::decode(bytes) {
        assert!(error.len() <= bytes.len());
    }
    if let Ok(response) = PollResponse::decode(bytes) {
        assert_eq!(16 + response.len() * 32, bytes.len());
        assert!(response.events().count() == response.len());
    }
    let _ =
        (TcpOpen::decode(bytes), HandleOp::decode(bytes), TimeNow::decode(bytes), RandomSeed::decode(bytes));
    if let Some(record) = bytes.first_chunk::<32>() {
        let _ = (AcceptRecord::decode(record), Event::decode(record));
    }
}

#[test]
fn fuzz_no_bytes_make_a_reader_panic_or_read_beyond_them() {
    let mut random = Random(0x5A43_4C31);
    let mut seeds = vec![
        WATCH.to_frame(1).to_vec(),
        Unwatch { watch_id: 1 }.to_frame(2).to_vec(),
        ARM.to_frame(3).to_vec(),
        TimerCancel { timer_id: 1 }.to_frame(4).to_vec(),
        Poll { max_events: 8, timeout_ms: 9 }.to_frame(5).to_vec(),
        HandleOp { handle: 1, op: 1 }.to_frame(6).to_vec(),
        RandomSeed([7; 32]).encode().to_vec(),
        TimeNow { realtime_ns: 1, monotonic_ns: 2 }.encode().to_vec(),
    ];
    let mut response = vec![0; PollResponse::frame_bytes(2)];
    let events = [Event::Timer { timer_id: 1, now_mono_ns: 2 }; 2];
    PollResponse::encode_frame(7, true, &events, &mut response).unwrap();
    seeds.push(response[24..].to_vec());
    seeds.push(response);
    seeds.push(Vec::new());
    for _ in 0..200_000 {
        let chosen = random.below(seeds.len());
        let mut bytes = seeds[chosen].clone();
        for _ in 0..random.below(4) {
            match random.below(3) {
                0 if !bytes.is_empty() => {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
                1 => bytes.truncate(random.below(bytes.len() + 1)),
                _ => bytes.push(random.next() as u8),
            }
        }
        read_everything(&bytes);
    }
}
