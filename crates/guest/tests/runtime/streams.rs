//! Connections and standard streams: what is asked of the host, and that nothing is asked twice.

use crate::support::Host;
use mainspring_guest::{TcpListener, TcpStream, block_on, println, sleep, spawn, timeout, yield_now};
use std::io::ErrorKind;
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);
/// The first handle that the guests below open; their loop and clock come after it.
const FIRST: i32 = 3;

#[test]
fn reading_again_and_again_installs_one_watch() {
    let (host, _installed) = Host::start();
    for _ in 0..10 {
        host.then(|host| host.deliver(FIRST, b"ping"));
    }
    host.then(|host| host.with_stream(FIRST, |stream| stream.ended = true));
    block_on(async {
        let stream = connect(&host).await;
        let mut buffer = [0; 16];
        while stream.read(&mut buffer).await.unwrap() > 0 {
            stream.write_all(b"pong").await.unwrap();
        }
        assert_eq!(host.written(FIRST), b"pong".repeat(10));
    });
    // One WATCH to connect and its UNWATCH, one to read; and a wait is a write and a read of the
    // loop, no more.
    assert_eq!(host.watch_requests.get(), 3);
    assert_eq!((host.polls.get(), host.empty_polls.get()), (12, 0));
}

async fn connect(host: &std::rc::Rc<Host>) -> TcpStream {
    // A new connection has no room before it stands.
    let script_runs_first = host.clone();
    let stream = TcpStream::connect("example.org:80");
    let opened = async {
        yield_now().await;
        script_runs_first.with_stream(FIRST, |stream| stream.room = 1 << 20);
    };
    spawn_and_join(stream, opened).await.unwrap()
}

async fn spawn_and_join<T>(main: impl Future<Output = T>, beside: impl Future<Output = ()>) -> T {
    let (mut main, mut beside) = (std::pin::pin!(main), std::pin::pin!(beside));
    let mut beside_done = false;
    std::future::poll_fn(|context| {
        if !beside_done {
            beside_done = beside.as_mut().poll(context).is_ready();
        }
        main.as_mut().poll(context)
    })
    .await
}

#[test]
fn readiness_that_nobody_waits_for_does_not_keep_the_guest_awake() {
    let (host, _installed) = Host::start();
    host.then(|host| {
        let connection = host.connect_to(FIRST);
        host.deliver(connection, b"more than is read");
    });
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(listener.local_port(), 7);
        let (stream, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.port(), 1234);
        // A watch, then readiness, then nobody who waits.
        let mut buffer = [0; 4];
        stream.read(&mut buffer).await.unwrap();
        for _ in 0..5 {
            sleep(MILLISECOND).await;
        }
    });
    assert_eq!((host.polls.get(), host.empty_polls.get()), (6, 0));
}

#[test]
fn a_watch_whose_reader_gave_up_fires_at_most_once() {
    let (host, _installed) = Host::start();
    host.then(|host| {
        host.connect_to(FIRST);
    });
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4];
        timeout(MILLISECOND, stream.read(&mut buffer)).await.unwrap_err();
        let polls_before = host.polls.get();
        host.deliver(FIRST + 2, b"late");
        sleep(MILLISECOND).await;
        sleep(MILLISECOND).await;
        assert!(host.polls.get() - polls_before <= 3);
        assert_eq!(stream.read(&mut buffer).await.unwrap(), 4);
    });
}

#[test]
fn a_full_peer_is_waited_for_and_the_other_tasks_go_on() {
    let (host, _installed) = Host::start();
    host.then(|host| {
        let connection = host.connect_to(FIRST);
        host.with_stream(connection, |stream| stream.room = 3);
    });
    let counted = block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let host_inside = host.clone();
        host.then(move |_| {
            host_inside.with_stream(FIRST + 2, |stream| stream.room = 100);
        });
        let other = spawn(async { 5 });
        stream.write_all(b"0123456789").await.unwrap();
        other.await.unwrap()
    });
    assert_eq!(counted, 5);
    // Written, so nobody waits for it to be writable any more: no watch is left but the listener's,
    // if that.
    assert!(host.installed_watches() <= 1);
    assert_eq!(host.empty_polls.get(), 0);
}

#[test]
fn closing_a_stream_ends_its_watch_and_its_number_may_be_used_again() {
    let (host, _installed) = Host::start();
    host.then(|host| {
        host.connect_to(FIRST);
    });
    host.then(|host| {
        let second = host.connect_to(FIRST);
        host.deliver(second, b"second");
    });
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (first, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 16];
        // Wants a watch that is never written to the host, because the handle is closed before the
        // guest parks.
        timeout(MILLISECOND, async {
            std::future::poll_fn(|context| {
                let mut read = std::pin::pin!(first.read(&mut buffer));
                assert!(read.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        })
        .await
        .unwrap();
        drop(first);
        let (second, _) = listener.accept().await.unwrap();
        assert_eq!(second.read(&mut buffer).await.unwrap(), 6);
    });
}

#[test]
fn a_refused_watch_is_an_error_of_whoever_waits() {
    let (host, _installed) = Host::start();
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        host.refuse_watches();
        // The POLL that carries the refused WATCH ends by the timer.
        let refused = timeout(MILLISECOND * 5, listener.accept()).await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn a_thousand_watches_are_installed_in_bounded_pieces() {
    let (host, _installed) = Host::start();
    host.then(|host| {
        for _ in 0..1000 {
            host.connect_to(FIRST);
        }
    });
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut tasks = Vec::new();
        for _ in 0..1000 {
            let (stream, _) = listener.accept().await.unwrap();
            tasks.push(spawn(async move { stream.read(&mut [0; 1]).await.unwrap() }));
        }
        host.then(|host| (FIRST + 2..FIRST + 1002).for_each(|handle| host.deliver(handle, b"x")));
        for task in tasks {
            assert_eq!(task.await.unwrap(), 1);
        }
    });
    assert_eq!(host.empty_polls.get(), 0);
}

#[test]
fn printing_to_a_full_standard_output_waits_without_spinning() {
    let (host, _installed) = Host::start();
    host.with_stream(1, |stream| stream.room = 2);
    host.then(|host| host.with_stream(1, |stream| stream.room = 100));
    println!("hello {}", 5);
    assert_eq!(host.written(1), b"hello 5\n");
    assert_eq!(host.polls.get(), 1);
    assert_eq!(host.installed_watches(), 1);
    // The watch goes with the next POLL; a standard stream stays open, so closing it cannot take
    // the watch away.
    block_on(sleep(MILLISECOND));
    assert_eq!((host.polls.get(), host.installed_watches()), (2, 0));
}

#[cfg(feature = "tokio")]
#[test]
fn tokios_traits_read_lines_through_its_own_buffered_reader() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    let (host, _installed) = Host::start();
    host.then(|host| host.deliver(0, b"one\ntwo\n"))
        .then(|host| host.with_stream(0, |stream| stream.ended = true));
    block_on(async {
        let mut lines = BufReader::new(mainspring_guest::stdin()).lines();
        let mut output = mainspring_guest::stdout();
        while let Some(line) = lines.next_line().await.unwrap() {
            output.write_all(line.as_bytes()).await.unwrap();
        }
        output.shutdown().await.unwrap();
    });
    assert_eq!(host.written(1), b"onetwo");
}
