//! Readiness of descriptors as futures.

mod support;

use mainspring_reactor::{Async, Elapsed, Reactor};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use support::descriptors::{drain, fill, peer_is_closed, pipe, readable_socket, sockets, write_byte};
use support::{Log, NOW, on_each_backend, reactor, yield_now};

/// A waker of which only the number of references matters.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

on_each_backend! {
    fn async_read_waits_for_bytes_and_ends_with_the_stream(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        let mut right = Some(right);
        let handle = reactor.handle();
        let received = reactor.block_on(async move {
            let mut received = Vec::new();
            let writer = async move {
                for word in ["one", "two"] {
                    right.as_mut().unwrap().write_all(word.as_bytes()).unwrap();
                    yield_now().await;
                }
                drop(right.take());
            };
            let writer = handle.spawn(writer).unwrap();
            loop {
                let mut buffer = [0; 16];
                let count = left.read_with(|mut stream| stream.read(&mut buffer)).await.unwrap();
                if count == 0 {
                    break;
                }
                received.extend_from_slice(&buffer[..count]);
            }
            writer.await.unwrap();
            received
        });
        assert_eq!(received.unwrap(), b"onetwo");
        assert_eq!(reactor.watcher_count(), 0);
    }

    fn async_a_stream_that_gave_less_than_asked_is_not_read_in_vain(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        let reads = Rc::new(Cell::new(0));
        let received = Rc::new(Cell::new(0));
        let (counted, summed) = (reads.clone(), received.clone());
        reactor
            .spawn(async move {
                let mut buffer = [0; 8];
                loop {
                    let read = |mut stream: &UnixStream| {
                        counted.set(counted.get() + 1);
                        stream.read(&mut buffer)
                    };
                    let mut read = read;
                    let count = poll_fn(|context| left.poll_read_stream(context, 8, &mut read)).await.unwrap();
                    if count == 0 {
                        return;
                    }
                    summed.set(summed.get() + count);
                }
            })
            .unwrap();
        turns(&mut reactor, 3);
        let first = reads.get();
        for byte in 1..=10 {
            write_byte(&right);
            turns(&mut reactor, 3);
            assert_eq!((received.get(), reads.get() - first), (byte, byte), "one read for each byte");
        }
        // More than there is room for: the rest is read at once.
        (&right).write_all(&[7; 20]).unwrap();
        turns(&mut reactor, 3);
        assert_eq!(received.get(), 30);
        // The end, together with bytes and by itself.
        (&right).write_all(b"last").unwrap();
        drop(right);
        reactor.run_until_idle().unwrap();
        assert_eq!(received.get(), 34);
        assert_eq!(reactor.watcher_count(), 0, "the task has seen the end");
    }

    fn async_a_stream_that_ends_after_its_bytes_were_read_is_seen_to_end(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        (&right).write_all(b"all").unwrap();
        let read = |mut stream: &UnixStream| stream.read(&mut [0; 8]);
        let mut read = read;
        let count = reactor.block_on(poll_fn(|context| left.poll_read_stream(context, 8, &mut read)));
        assert_eq!(count.unwrap().unwrap(), 3);
        drop(right);
        let count = reactor.block_on(poll_fn(|context| left.poll_read_stream(context, 8, &mut read)));
        assert_eq!(count.unwrap().unwrap(), 0);
    }

    fn async_write_waits_for_room(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        fill(&left);
        let left = Async::new(&reactor, left).unwrap();
        let done = Rc::new(Cell::new(false));
        let flag = done.clone();
        reactor
            .spawn(async move {
                left.write_with(|mut stream| stream.write(b"more")).await.unwrap();
                flag.set(true);
            })
            .unwrap();
        turns(&mut reactor, 5);
        assert!(!done.get());
        drain(&right);
        reactor.run_until_idle().unwrap();
        assert!(done.get());
    }

    fn async_moves_a_megabyte_both_ways_at_once(backend: Backend) {
        const BYTES: usize = 1 << 20;
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let ends = [left, right].map(|end| Rc::new(Async::new(&reactor, end).unwrap()));
        let mut readers = Vec::new();
        for end in &ends {
            let (reader, writer) = (end.clone(), end.clone());
            readers.push(reactor.spawn(async move { receive(&reader, BYTES).await }).unwrap());
            reactor.spawn(async move { send(&writer, BYTES).await }).unwrap();
        }
        for reader in readers {
            assert_eq!(reactor.block_on(reader).unwrap(), Ok(BYTES));
        }
    }

    fn async_wakes_everybody_who_waits_for_the_same(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Rc::new(Async::new(&reactor, left).unwrap());
        let count = Rc::new(Cell::new(0));
        for _ in 0..10 {
            let (left, count) = (left.clone(), count.clone());
            reactor
                .spawn(async move {
                    left.read_with(|mut stream| stream.read(&mut [0; 1])).await.unwrap();
                    count.set(count.get() + 1);
                })
                .unwrap();
        }
        turns(&mut reactor, 5);
        for byte in 1..=10 {
            write_byte(&right);
            turns(&mut reactor, 5);
            assert_eq!(count.get(), byte, "one byte is for one of them, and the others go on waiting");
        }
        drop(left);
        reactor.run_until_idle().unwrap();
    }

    fn async_reading_and_writing_tasks_do_not_disturb_each_other(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        fill(&left);
        let left = Rc::new(Async::new(&reactor, left).unwrap());
        let log = Log::new();
        let (reader, calls) = (left.clone(), log.clone());
        reactor
            .spawn(async move {
                reader.readable().await.unwrap();
                calls.note("readable")
            })
            .unwrap();
        let (writer, calls) = (left.clone(), log.clone());
        reactor
            .spawn(async move {
                writer.writable().await.unwrap();
                calls.note("writable")
            })
            .unwrap();
        turns(&mut reactor, 5);
        assert!(log.is_empty());
        write_byte(&right);
        turns(&mut reactor, 5);
        assert_eq!(log.take(), ["readable"]);
        drain(&right);
        turns(&mut reactor, 5);
        assert_eq!(log.take(), ["writable"]);
    }

    fn async_readable_looks_afresh_each_time(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = readable_socket();
        let left = Async::new(&reactor, left).unwrap();
        let handle = reactor.handle();
        reactor
            .block_on(async {
                left.readable().await.unwrap();
                left.readable().await.unwrap();
                drain(left.get_ref());
                let nothing = handle.timeout(Duration::from_millis(2), left.readable()).await;
                assert_eq!(nothing.map(|result| result.is_ok()), Err(Elapsed));
                write_byte(&right);
                left.readable().await.unwrap();
            })
            .unwrap();
    }

    fn async_a_hang_up_ends_every_wait(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        fill(&left);
        let left = Rc::new(Async::new(&reactor, left).unwrap());
        let (reader, writer) = (left.clone(), left);
        let read = reactor
            .spawn(async move { reader.read_with(|mut stream| stream.read(&mut [0; 1])).await })
            .unwrap();
        let write =
            reactor.spawn(async move { writer.write_with(|mut stream| stream.write(b"x")).await }).unwrap();
        turns(&mut reactor, 5);
        drop(right);
        let end = reactor.block_on(read).unwrap().unwrap();
        assert!(
            matches!(&end, Ok(0))
                || end.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        );
        let failed = reactor.block_on(write).unwrap().unwrap().unwrap_err();
        assert!(
            matches!(failed.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            "{failed}"
        );
    }

    fn async_a_pipe_whose_other_end_goes_ends_every_wait(backend: Backend) {
        // A pipe reports its end by a hang-up, or an error, and nothing else.
        let mut reactor = reactor(backend);
        let (reader, writer) = pipe();
        let reader = Async::new(&reactor, reader).unwrap();
        let read = reactor
            .spawn(async move { reader.read_with(|mut reader| reader.read(&mut [0; 1])).await })
            .unwrap();
        turns(&mut reactor, 5);
        drop(writer);
        assert_eq!(reactor.block_on(read).unwrap().unwrap().unwrap(), 0);

        let (reader, writer) = pipe();
        fill(&writer);
        let writer = Async::new(&reactor, writer).unwrap();
        let write =
            reactor.spawn(async move { writer.write_with(|mut writer| writer.write(b"x")).await }).unwrap();
        turns(&mut reactor, 5);
        drop(reader);
        let failed = reactor.block_on(write).unwrap().unwrap().unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::BrokenPipe);
    }

    fn async_dropped_while_a_task_waits_ends_the_watch_and_closes_the_source(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        let task = reactor.spawn(async move { left.readable().await }).unwrap();
        turns(&mut reactor, 5);
        assert_eq!(reactor.watcher_count(), 1);
        task.abort();
        reactor.run_until_idle().unwrap();
        assert_eq!(reactor.watcher_count(), 0);
        assert!(peer_is_closed(&right));
    }

    fn async_a_wait_given_up_leaves_the_next_one_intact(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        let handle = reactor.handle();
        reactor
            .block_on(async {
                for _ in 0..3 {
                    let wait = left.read_with(|mut stream| stream.read(&mut [0; 1]));
                    assert!(handle.timeout(Duration::from_micros(200), wait).await.is_err());
                }
                write_byte(&right);
                assert_eq!(left.read_with(|mut stream| stream.read(&mut [0; 4])).await.unwrap(), 1);
            })
            .unwrap();
    }

    fn async_on_a_loop_that_has_gone_is_an_error_and_not_a_hang(backend: Backend) {
        let first = reactor(backend);
        let (left, _right) = sockets();
        let left = Async::new(&first, left).unwrap();
        drop(first);
        let mut second = reactor(backend);
        let error =
            second.block_on(left.read_with(|mut stream| stream.read(&mut [0; 1]))).unwrap().unwrap_err();
        assert!(error.to_string().contains("dropped"), "{error}");
    }

    fn async_unwatched_behind_its_back_is_an_error_and_not_a_hang(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = sockets();
        let fd = left.as_raw_fd();
        let left = Async::new(&reactor, left).unwrap();
        reactor.unwatch(reactor.watcher_of(fd).unwrap());
        let waited = reactor.block_on(left.read_with(|mut stream| stream.read(&mut [0; 1]))).unwrap();
        assert!(waited.is_err());
    }

    fn async_asks_the_kernel_nothing_while_reads_succeed(backend: Backend) {
        let mut reactor = reactor(backend);
        let (left, _right) = readable_socket();
        let left = Async::new(&reactor, left).unwrap();
        reactor.block_on(left.read_with(|mut stream| stream.read(&mut [0; 1]))).unwrap().unwrap();
        assert_eq!(reactor.stats().turns, 0, "no turn was needed");
    }

    fn async_waits_that_were_given_up_are_forgotten(backend: Backend) {
        let reactor = reactor(backend);
        let (left, _right) = sockets();
        let left = Async::new(&reactor, left).unwrap();
        let nobody = Arc::new(Nobody);
        let waker = Waker::from(nobody.clone());
        for _ in 0..100 {
            let mut context = Context::from_waker(&waker);
            let wait = pin!(left.readable());
            assert!(wait.poll(&mut context).is_pending());
        }
        assert_eq!(Arc::strong_count(&nobody), 2, "ours and the waker's");
        for _ in 0..100 {
            let mut context = Context::from_waker(&waker);
            let polled = left.poll_read_with(&mut context, |mut stream| stream.read(&mut [0; 1]));
            assert!(polled.is_pending());
        }
        assert_eq!(Arc::strong_count(&nobody), 3, "and the one that asked last");
    }
}

/// Receives until `count` bytes have come.
async fn receive(stream: &Async<UnixStream>, count: usize) -> usize {
    let (mut buffer, mut total) = (vec![0; 8192], 0);
    while total < count {
        total += stream.read_with(|mut stream| stream.read(&mut buffer)).await.unwrap();
    }
    total
}

/// Sends `count` bytes.
async fn send(stream: &Async<UnixStream>, count: usize) {
    let (buffer, mut left) = (vec![0; 8192], count);
    while left > 0 {
        let length = left.min(buffer.len());
        left -= stream.write_with(|mut stream| stream.write(&buffer[..length])).await.unwrap();
    }
}

/// A few turns that do not block.
fn turns(reactor: &mut Reactor, count: usize) {
    for _ in 0..count {
        reactor.poll(NOW).unwrap();
    }
}
