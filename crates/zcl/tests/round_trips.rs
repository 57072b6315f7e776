//! Whatever is written is read back the same.

use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::cap::{AcceptRecord, CapOpen, TcpOpen};
use mainspring_zcl::ctl::HandleOp;
use mainspring_zcl::info::{RandomSeed, TimeNow};
use mainspring_zcl::sys_loop::{
    Event, Poll, PollResponse, Readiness, Request, TimerArm, TimerCancel, Unwatch, Watch,
};
use mainspring_zcl::{ErrorPayload, Frame, HEADER_BYTES, Header, STATUS_OK};
use proptest::prelude::*;

fn readiness() -> impl Strategy<Value = Readiness> {
    (0u32..16).prop_map(|bits| Readiness::from_bits(bits).unwrap())
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<u32>(), 1u32..16, 1u64..).prop_map(|(handle, bits, watch_id)| {
            Request::Watch(Watch { handle, events: Readiness::from_bits(bits).unwrap(), watch_id })
        }),
        any::<u64>().prop_map(|watch_id| Request::Unwatch(Unwatch { watch_id })),
        (1u64.., any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
            |(timer_id, due_mono_ns, interval_ns, relative)| {
                Request::TimerArm(TimerArm { timer_id, due_mono_ns, interval_ns, relative })
            }
        ),
        any::<u64>().prop_map(|timer_id| Request::TimerCancel(TimerCancel { timer_id })),
        (1u32.., any::<u32>())
            .prop_map(|(max_events, timeout_ms)| { Request::Poll(Poll { max_events, timeout_ms }) }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (any::<u64>(), any::<u32>(), readiness()).prop_map(|(watch_id, handle, events)| Event::Ready {
            watch_id,
            handle,
            events
        }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(timer_id, now_mono_ns)| Event::Timer { timer_id, now_mono_ns }),
    ]
}

fn frame_of(request: Request, rid: u32) -> Vec<u8> {
    match request {
        Request::Watch(request) => request.to_frame(rid).to_vec(),
        Request::Unwatch(request) => request.to_frame(rid).to_vec(),
        Request::TimerArm(request) => request.to_frame(rid).to_vec(),
        Request::TimerCancel(request) => request.to_frame(rid).to_vec(),
        Request::Poll(request) => request.to_frame(rid).to_vec(),
    }
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(request in request(), rid: u32, tail: Vec<u8>) {
        let mut bytes = frame_of(request, rid);
        let length = bytes.len();
        bytes.extend_from_slice(&tail);
        let (frame, rest) = Frame::decode(&bytes).unwrap().unwrap();
        prop_assert_eq!(frame.rid, rid);
        prop_assert_eq!(rest, &bytes[length..]);
        prop_assert_eq!(Request::decode(&frame), Ok(request));
    }

    #[test]
    fn an_incomplete_frame_is_neither_read_nor_refused(request in request(), rid: u32, cut: prop::sample::Index) {
        let bytes = frame_of(request, rid);
        prop_assert_eq!(Frame::decode(&bytes[..cut.index(bytes.len())]), Ok(None));
    }

    #[test]
    fn a_frame_is_read_as_it_was_written(op: u16, rid: u32, status in 0u32..=1, payload: Vec<u8>) {
        let frame = Frame { op, rid, status, payload: &payload };
        let mut buffer = vec![0; HEADER_BYTES + payload.len()];
        prop_assert_eq!(frame.encode(&mut buffer), Ok(buffer.len()));
        prop_assert_eq!(Frame::decode(&buffer), Ok(Some((frame, &[][..]))));
        let mut short = vec![0xAA; buffer.len() - 1];
        prop_assert!(frame.encode(&mut short).is_err());
        prop_assert!(short.iter().all(|byte| *byte == 0xAA), "a refused frame leaves nothing behind");
    }

    #[test]
    fn a_poll_response_is_read_as_it_was_written(rid: u32, more: bool, events in prop::collection::vec(event(), 0..20)) {
        let mut buffer = vec![0; PollResponse::frame_bytes(events.len())];
        prop_assert_eq!(PollResponse::encode_frame(rid, more, &events, &mut buffer), Ok(buffer.len()));
        let (frame, _) = Frame::decode(&buffer).unwrap().unwrap();
        prop_assert_eq!((frame.op, frame.rid, frame.status), (5, rid, STATUS_OK));
        let response = PollResponse::decode(frame.payload).unwrap();
        prop_assert_eq!(response.more, more);
        prop_assert_eq!(response.events().collect::<Result<Vec<_>, _>>().unwrap(), events);
    }

    #[test]
    fn an_error_payload_is_read_as_it_was_written(trace: String, message: String, detail: String, tail: Vec<u8>) {
        let error = ErrorPayload { trace: &trace, message: &message, detail: &detail };
        let mut buffer = vec![0; error.len()];
        prop_assert_eq!(error.encode(&mut buffer), Ok(12 + trace.len() + message.len() + detail.len()));
        prop_assert_eq!(ErrorPayload::decode(&buffer), Ok(error));
        let cut = &buffer[..buffer.len() - 1];
        prop_assert!(ErrorPayload::decode(cut).is_err());
        let mut longer = buffer.clone();
        longer.extend_from_slice(&tail);
        prop_assert_eq!(ErrorPayload::decode(&longer), Ok(error), "trailing bytes are ignored");
    }

    #[test]
    fn openings_and_records_are_read_as_they_were_written(
        numbers: (u64, u32, u64, u32, u32, u64, u32), peer_address: [u8; 16],
    ) {
        let (kind_ptr, kind_len, name_ptr, name_len, mode, params_ptr, params_len) = numbers;
        let open = CapOpen { kind_ptr, kind_len, name_ptr, name_len, mode, params_ptr, params_len };
        prop_assert_eq!(CapOpen::decode(&open.encode()), open);
        let tcp = TcpOpen {
            host_ptr: kind_ptr, host_len: kind_len, port: name_len, flags: mode, backlog: params_len,
            out_port_ptr: params_ptr,
        };
        let bytes = tcp.encode();
        prop_assert_eq!(TcpOpen::decode(&bytes), Ok(tcp));
        prop_assert_eq!(TcpOpen::decode(&bytes[..24]), Ok(TcpOpen { out_port_ptr: 0, ..tcp }));
        prop_assert_eq!(TcpOpen::decode(&bytes[..20]), Ok(TcpOpen { backlog: 0, out_port_ptr: 0, ..tcp }));
        prop_assert!(TcpOpen::decode(&bytes[..21]).is_err());
        let record = AcceptRecord { handle: kind_len, peer_port: name_len, peer_address, local_port: mode };
        prop_assert_eq!(AcceptRecord::decode(&record.encode()), Ok(record));
        let time = TimeNow { realtime_ns: kind_ptr, monotonic_ns: name_ptr };
        prop_assert_eq!(TimeNow::decode(&time.encode()), Ok(time));
        let handle_op = HandleOp { handle: kind_len, op: mode };
        let bytes = handle_op.to_frame(9);
        let (frame, _) = Frame::decode(&bytes).unwrap().unwrap();
        prop_assert_eq!(HandleOp::decode(frame.payload), Ok(handle_op));
    }

    #[test]
    fn a_seed_is_read_as_it_was_written(seed: [u8; 32]) {
        prop_assert_eq!(RandomSeed::decode(&RandomSeed(seed).encode()), Ok(RandomSeed(seed)));
    }

    #[test]
    fn a_header_is_read_as_it_was_written(op: u16, rid: u32, status in 0u32..=1, payload_len: u32) {
        let header = Header { op, rid, status, payload_len };
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn every_error_code_survives_the_call(raw: i32) {
        match ErrorCode::check(raw) {
            Ok(count) => prop_assert!(raw >= 0 && count == raw.cast_unsigned()),
            Err(code) => prop_assert!(raw < 0 && (code.as_raw() == raw || code == ErrorCode::Internal)),
        }
    }
}
