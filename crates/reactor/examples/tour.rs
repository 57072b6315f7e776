//! A tour of the loop: everything it can wait for, on one thread, in one run.
//!
//! Time is virtual, so it ends at once and always prints the same (docs/products/reactor.md shows
//! it, and a test compares).

use mainspring_reactor::{Async, Builder, Result, Shared, VirtualClock};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn main() -> Result<()> {
    let clock = VirtualClock::new();
    let mut reactor = Builder::new().virtual_clock(&clock).build()?;

    // A descriptor with its own callback. The watcher knows the source weakly: dropping it ends the
    // watch.
    let (mut client, server) = UnixStream::pair().map_err(io)?;
    server.set_nonblocking(true).map_err(io)?;
    let server = Shared::new(server);
    reactor
        .watch_shared(&server)
        .on_read(|stream, event| {
            let mut line = [0; 64];
            let count = (&**stream).read(&mut line).unwrap_or(0);
            println!("the server read {:?}", String::from_utf8_lossy(&line[..count]));
            event.reactor().defer(|_| println!("a deferred call ran after it")).ok();
        })
        .start()?;
    client.write_all(b"hello").map_err(io)?;
    let callbacks = reactor.poll(None)?;
    println!("that turn ran {callbacks} callbacks");
    drop(server);
    println!("{} watchers are left", reactor.watcher_count());

    // Timers fire in the order of their deadlines; a repeating one says what it missed while the
    // loop was busy.
    let busy = clock.clone();
    reactor.after(Duration::from_secs(3600), |_| println!("an hour has passed"))?;
    reactor.after(Duration::from_millis(25), move |_| busy.advance(Duration::from_millis(50)))?;
    let mut ticks = 0;
    reactor.every(Duration::from_millis(10), move |tick| {
        ticks += 1;
        println!("tick, {} missed", tick.missed());
        if ticks == 4 {
            tick.reactor().cancel(tick.timer());
        }
    })?;

    // Tasks: two futures talk over a socket.
    let (left, right) = UnixStream::pair().map_err(io)?;
    for stream in [&left, &right] {
        stream.set_nonblocking(true).map_err(io)?;
    }
    let (left, right) = (Async::new(&reactor, left)?, Async::new(&reactor, right)?);
    reactor.spawn(async move {
        let mut word = [0; 4];
        let count = right.read_with(|mut stream| stream.read(&mut word)).await.unwrap_or(0);
        println!("a task received {:?}", String::from_utf8_lossy(&word[..count]));
    })?;
    reactor.spawn(async move { left.write_with(|mut stream| stream.write(b"ping")).await })?;

    reactor.run_until_idle()?;
    println!("nothing is left to wait for; {:?} of virtual time took no time at all", clock.elapsed());
    Ok(())
}

fn io(source: std::io::Error) -> mainspring_reactor::Error {
    mainspring_reactor::Error::Io { action: "the tour", source }
}
