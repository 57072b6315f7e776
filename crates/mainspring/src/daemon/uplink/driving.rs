//! The loop as a task of the runtime that speaks with NATS.
//!
//! tokio waits for both: it watches the one descriptor that says that the reactor has something to
//! do. The loop never waits itself, and gives way after each turn.

use super::queues::Queues;
use crate::daemon::Error;
use mainspring_reactor::Reactor;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::LocalRuntime;

/// Why a runtime is not driven any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The daemon ends with this code.
    Code(i32),
    /// The runtime is to be replaced.
    Replace,
}

/// Runs the loop until `turn` ends it; that says whether it has more to do at once. Everything that
/// the loop consists of is given back.
pub(super) fn drive<T: FnMut() -> ControlFlow<End, bool> + 'static>(
    runtime: &LocalRuntime,
    reactor: Reactor,
    queues: Rc<Queues>,
    turn: T,
) -> Result<(Reactor, T, End), Error> {
    // A task, for what wakes the future of `block_on` costs a look at all descriptors.
    let driven = runtime.spawn_local(take_turns(reactor, queues, turn));
    match runtime.block_on(driven) {
        Ok(ended) => ended,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

async fn take_turns<T: FnMut() -> ControlFlow<End, bool>>(
    mut reactor: Reactor,
    queues: Rc<Queues>,
    mut turn: T,
) -> Result<(Reactor, T, End), Error> {
    let fd = reactor.embedding_fd()?;
    // SAFETY: the descriptor is open for as long as the reactor lives, which is dropped or given
    // back after what is made here.
    let descriptor = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    let descriptor = descriptor.map_err(|failed| Error::Uplink(failed.into_parts().1))?;
    // tokio tells once that the descriptor is readable: it is, until a turn finds nothing.
    let mut is_ready = true;
    loop {
        let has_more = match turn() {
            ControlFlow::Break(end) => return Ok((reactor, turn, end)),
            ControlFlow::Continue(has_more) => has_more,
        };
        if has_more || is_ready {
            give_way().await;
            is_ready = true;
        } else {
            is_ready = wait(&descriptor, &queues).await?;
        }
        if is_ready {
            is_ready = reactor.poll(Some(Duration::ZERO))? > 0;
        }
    }
}

/// Lets the other tasks run that can.
async fn give_way() {
    let mut has_given = false;
    poll_fn(|context| match std::mem::replace(&mut has_given, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Waits until the reactor has something to do, which is true then, or something came from NATS.
async fn wait(descriptor: &AsyncFd<RawFd>, queues: &Queues) -> Result<bool, Error> {
    poll_fn(|context| match (descriptor.poll_read_ready(context), queues.poll_arrivals(context)) {
        (Poll::Ready(Ok(mut ready)), _) => {
            ready.clear_ready();
            Poll::Ready(Ok(true))
        }
        (Poll::Ready(Err(error)), _) => Poll::Ready(Err(Error::Uplink(error))),
        (Poll::Pending, Poll::Ready(())) => Poll::Ready(Ok(false)),
        (Poll::Pending, Poll::Pending) => Poll::Pending,
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::uplink::queues::Arrival;
    use std::cell::Cell;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use tokio::runtime::{Builder, LocalOptions};

    #[test]
    fn n5_3_while_more_comes_than_can_be_taken_descriptors_and_other_tasks_have_their_turns() {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let (runtime, reactor) = (runtime.expect("a runtime"), Reactor::new().expect("a reactor"));
        let queues = Rc::new(Queues::default());
        // Nobody takes it, so something is always left.
        queues.arrive(Arrival::Disconnected);
        let (served, steps, turns) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Cell::new(0));
        let (readable, mut writer) = UnixStream::pair().expect("sockets");
        writer.write_all(b"x").expect("room");
        let count = Rc::clone(&served);
        reactor.watch(readable).on_read(move |_, _| count.set(count.get() + 1)).start().expect("a watch");
        let count = Rc::clone(&steps);
        runtime.spawn_local(async move {
            loop {
                count.set(count.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        let left = Rc::clone(&queues);
        let (_reactor, _turn, end) = drive(&runtime, reactor, queues, move || {
            turns.set(turns.get() + 1);
            match (served.get() > 2 && steps.get() > 2, turns.get() > 10_000) {
                (true, _) => ControlFlow::Break(End::Code(0)),
                (false, true) => ControlFlow::Break(End::Code(1)),
                (false, false) => ControlFlow::Continue(left.has_arrivals()),
            }
        })
        .expect("an end");
        assert_eq!(end, End::Code(0), "somebody waited for 10,000 turns");
    }
}
