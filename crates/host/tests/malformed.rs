//! Whatever a guest writes to a loop, it gets errors and keeps its footing.

mod support;

use mainspring_zcl::sys_loop::{Poll, TimerArm, TimerCancel, Unwatch, Watch};
use mainspring_zcl::{Frame, Header};
use support::*;

fn good() -> Vec<u8> {
    Watch { handle: 2, events: WRITABLE, watch_id: 1 }.to_frame(5).to_vec()
}

async fn works(puppet: &Puppet, target: i64) {
    assert!(puppet.watch(target, 2, WRITABLE, 424_242).await.is_ok(), "the next write starts a new frame");
    assert!(puppet.unwatch(target, 424_242).await.is_ok());
}

#[test]
fn l8_1_a_bad_header_gets_an_error_and_costs_the_bytes_written_so_far() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        for (at, value, message) in [
            (0, 0, "bad magic"),
            (3, b'2', "bad magic"),
            (4, 2, "unsupported version"),
            (4, 0, "unsupported version"),
        ] {
            let mut frame = good();
            frame[at] = value;
            // Even a good frame behind it, in the same write, is lost: nobody knows where it would
            // begin.
            frame.extend(good());
            assert_eq!(puppet.request(target, &frame).await.message(), message);
            works(&puppet, target).await;
        }
    });
}

#[test]
fn l8_1_a_frame_behind_a_header_with_a_bad_status_or_reserved_field_is_served() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        for (at, value, message) in [(12, 9, "bad status"), (16, 7, "reserved field must be 0")] {
            let mut frames = good();
            frames[at] = value;
            frames.extend(Unwatch { watch_id: 99 }.to_frame(10));
            assert_eq!(puppet.write(target, &frames).await, frames.len() as i64);
            let answers = puppet.read(target, 4096).await.unwrap();
            let (first, rest) = Frame::decode(&answers).unwrap().unwrap();
            assert_eq!((first.op, first.rid), (1, 5));
            assert_eq!(Answer::decode(&answers[..answers.len() - rest.len()]).message(), message);
            assert_eq!(Answer::decode(rest).message(), "unknown watch_id", "behind a {message}");
            // A length that is a lie costs that write and no more.
            frames.truncate(24);
            frames[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
            assert_eq!(puppet.request(target, &frames).await.message(), message);
            works(&puppet, target).await;
        }
    });
}

#[test]
fn l8_2_garbage_is_refused_at_its_first_byte_and_does_not_eat_the_next_write() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        for length in 1..60 {
            let garbage = vec![0xEE; length];
            assert_eq!(puppet.request(target, &garbage).await.message(), "bad magic", "{length} bytes");
            works(&puppet, target).await;
        }
    });
}

#[test]
fn l8_3_an_announced_length_cannot_wedge_the_stream() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        for (op, length, message) in [
            (1, u32::MAX, "bad WATCH payload"),
            (5, 1 << 30, "bad POLL payload"),
            (77, u32::MAX, "unknown op"),
            (0, 65_536, "unknown op"),
        ] {
            let header = Header::request(op, 5, length).encode();
            assert_eq!(puppet.request(target, &header).await.message(), message);
            works(&puppet, target).await;
        }
    });
}

#[test]
fn l8_4_payloads_must_have_their_exact_size_and_the_next_frame_of_the_write_is_read() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let names = ["WATCH", "UNWATCH", "TIMER_ARM", "TIMER_CANCEL", "POLL"];
        for (op, exact) in [(1u16, 20), (2, 8), (3, 28), (4, 8), (5, 8)] {
            for length in (0..40).filter(|length| *length != exact) {
                let mut frames = Header::request(op, 9, length).encode().to_vec();
                frames.extend(vec![0; length as usize]);
                frames.extend(Unwatch { watch_id: 99 }.to_frame(10));
                assert_eq!(puppet.write(target, &frames).await, frames.len() as i64);
                let answers = puppet.read(target, 4096).await.unwrap();
                let (first, rest) = Frame::decode(&answers).unwrap().unwrap();
                let first_bytes = &answers[..answers.len() - rest.len()];
                assert_eq!((first.op, first.rid), (op, 9));
                let wanted = format!("bad {} payload", names[usize::from(op) - 1]);
                assert_eq!(Answer::decode(first_bytes).message(), wanted);
                assert_eq!(Answer::decode(rest).message(), "unknown watch_id");
            }
        }
    });
}

#[test]
fn l8_5_a_response_is_not_a_request() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let mut frame = good();
        frame[12] = 1;
        assert_eq!(puppet.request(target, &frame).await.message(), "status must be 0");
        works(&puppet, target).await;
    });
}

#[test]
fn l8_6_a_guest_that_does_not_read_its_answers_is_told_to_come_back_and_loses_none() {
    run(async |handle| {
        let puppet = Puppet::start(&handle);
        let target = puppet.open_loop().await;
        let frames = (0..3000).flat_map(|rid| Unwatch { watch_id: 9 }.to_frame(rid)).collect::<Vec<u8>>();
        let (mut accepted, mut answered, mut refusals) = (0, Vec::new(), 0);
        while accepted < frames.len() {
            match puppet.write(target, &frames[accepted..]).await {
                AGAIN => {
                    refusals += 1;
                    while let Ok(bytes) = puppet.read(target, 65_536).await {
                        answered.extend(bytes);
                    }
                }
                count => accepted += usize::try_from(count).expect("no other error"),
            }
        }
        while let Ok(bytes) = puppet.read(target, 65_536).await {
            answered.extend(bytes);
        }
        assert!(refusals > 0, "the buffer is bounded");
        let mut rest = &answered[..];
        for rid in 0..3000 {
            let (frame, behind) = Frame::decode(rest).unwrap().unwrap();
            assert_eq!(frame.rid, rid);
            rest = behind;
        }
        assert!(rest.is_empty());
        assert_eq!(puppet.guest.stats().buffered_bytes, 0);
    });
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

fn frame(random: &mut Random) -> Vec<u8> {
    let id = random.next() % 8;
    let rid = random.next() as u32;
    let events = mainspring_zcl::sys_loop::Readiness::from_bits(1 + random.below(15) as u32).unwrap();
    match random.below(6) {
        0 => Watch { handle: random.below(8) as u32, events, watch_id: id }.to_frame(rid).to_vec(),
        1 => Unwatch { watch_id: id }.to_frame(rid).to_vec(),
        2 => TimerArm {
            timer_id: id,
            due_mono_ns: random.next() % 1_000_000,
            interval_ns: random.next() % 3,
            relative: random.below(2) == 0,
        }
        .to_frame(rid)
        .to_vec(),
        3 => TimerCancel { timer_id: id }.to_frame(rid).to_vec(),
        4 => Poll { max_events: random.below(5) as u32, timeout_ms: random.below(2) as u32 }
            .to_frame(rid)
            .to_vec(),
        _ => (0..random.below(40)).map(|_| random.next() as u8).collect(),
    }
}

#[test]
fn l8_7_fuzz_garbage_in_random_pieces_never_crashes_wedges_or_grows_the_host() {
    run_virtually(async |handle, _clock| {
        for seed in 0..8 {
            let mut random = Random(seed);
            let puppet = Puppet::start(&handle);
            let target = puppet.open_loop().await;
            for round in 0..150 {
                let mut bytes: Vec<u8> = (0..1 + random.below(4)).flat_map(|_| frame(&mut random)).collect();
                for _ in 0..random.below(3) {
                    if !bytes.is_empty() {
                        let at = random.below(bytes.len());
                        bytes[at] = random.next() as u8;
                    }
                }
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let piece = 1 + random.below(rest.len());
                    match puppet.write(target, &rest[..piece]).await {
                        AGAIN => while puppet.read(target, 65_536).await.is_ok() {},
                        count => {
                            assert!(count > 0 && count <= piece as i64, "seed {seed} round {round}: {count}");
                            rest = &rest[count as usize..];
                        }
                    }
                }
                let stats = puppet.guest.stats();
                assert!(stats.buffered_bytes <= 65_536 && stats.watches <= 16 && stats.timers <= 16);
            }
            // However the last piece ended, two malformed writes later the stream has its footing
            // again.
            for _ in 0..2 {
                assert!(puppet.write(target, &[0xEE; 60]).await > 0);
                while puppet.read(target, 65_536).await.is_ok() {}
            }
            works(&puppet, target).await;
            assert_eq!(puppet.finish().await, mainspring_host::Exit::Returned(0));
        }
    });
}
