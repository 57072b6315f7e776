//! What the behaviour tests share: the list of backends, sources to watch, and a record of calls.

// Each file of tests is a crate of its own and uses a part of this.
#![allow(dead_code, unused_macros, unused_imports)]

pub(crate) mod callbacks;
pub(crate) mod descriptors;
pub(crate) mod processes;
pub(crate) mod stale;

use mainspring_reactor::{Backend, Builder, Mode, Reactor, VirtualClock};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

/// Long enough for anything that will happen at all, so that a test that fails ends.
pub(crate) const TEST_TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));
/// Look and return.
pub(crate) const NOW: Option<Duration> = Some(Duration::ZERO);

/// Runs each test once on every backend: `epoll::name` and `poll::name`.
macro_rules! on_each_backend {
    ($($(#[$attribute:meta])* fn $name:ident($backend:ident: Backend $(,)?) $body:block)*) => {
        $($(#[$attribute])* fn $name($backend: mainspring_reactor::Backend) $body)*

        #[cfg(target_os = "linux")]
        mod epoll {
            $(#[test] fn $name() { super::$name(mainspring_reactor::Backend::Epoll) })*
        }

        mod poll {
            $(#[test] fn $name() { super::$name(mainspring_reactor::Backend::Poll) })*
        }
    };
}
pub(crate) use on_each_backend;

/// The modes that a backend has.
pub(crate) fn modes(backend: Backend) -> &'static [Mode] {
    match backend {
        Backend::Epoll => &[Mode::Level, Mode::Edge, Mode::Oneshot, Mode::EdgeOneshot],
        _ => &[Mode::Level, Mode::Oneshot],
    }
}

/// A reactor on the real clock.
pub(crate) fn reactor(backend: Backend) -> Reactor {
    Builder::new().backend(backend).build().expect("a reactor")
}

/// A reactor on a virtual clock that moves by itself when the loop has nothing else to do.
pub(crate) fn virtual_reactor(backend: Backend) -> (Reactor, VirtualClock) {
    let clock = VirtualClock::new();
    let reactor = Builder::new().backend(backend).virtual_clock(&clock).build().expect("a reactor");
    (reactor, clock)
}

/// A reactor whose time moves only when the test says so.
pub(crate) fn frozen_reactor(backend: Backend) -> (Reactor, VirtualClock) {
    let (reactor, clock) = virtual_reactor(backend);
    clock.set_auto_advance(false);
    (reactor, clock)
}

/// What callbacks have noted, in order.
pub(crate) struct Log<T>(Rc<RefCell<Vec<T>>>);

impl<T> Log<T> {
    pub(crate) fn new() -> Log<T> {
        Log(Rc::default())
    }

    pub(crate) fn note(&self, entry: T) {
        self.0.borrow_mut().push(entry);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everything noted since the last look.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Log<T> {
        Log(self.0.clone())
    }
}

/// Notes a word when it is dropped.
pub(crate) struct NoteOnDrop(pub(crate) Log<&'static str>, pub(crate) &'static str);

impl Drop for NoteOnDrop {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

/// Makes turns that do not block until one of them finds nothing to do, and at most `limit` of
/// them. Returns how many callbacks ran.
pub(crate) fn settle(reactor: &mut Reactor, limit: usize) -> usize {
    let mut total = 0;
    for _ in 0..limit {
        match reactor.poll(NOW).expect("a turn") {
            0 => return total,
            ran => total += ran,
        }
    }
    panic!("the loop still has something to do after {limit} turns");
}

/// Runs a turn that must panic, and returns what it panicked with.
pub(crate) fn panic_of(turn: impl FnOnce()) -> String {
    let hook = quiet_panics();
    let panic = catch_unwind(AssertUnwindSafe(turn)).expect_err("the panic must come out");
    drop(hook);
    match panic.downcast_ref::<&str>() {
        Some(text) => (*text).to_string(),
        None => panic.downcast_ref::<String>().cloned().unwrap_or_default(),
    }
}

/// Keeps panics with a value of this type out of the output.
pub(crate) fn quiet_panics_of<T: 'static>() {
    use std::sync::Once;
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.payload().is::<T>() {
                usual(panic);
            }
        }));
    });
}

/// Keeps expected panics out of the output of the tests that run on this thread.
fn quiet_panics() -> impl Drop {
    use std::cell::Cell;
    use std::sync::Once;
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.with(Cell::get) {
                usual(panic);
            }
        }));
    });
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            QUIET.with(|quiet| quiet.set(false));
        }
    }
    QUIET.with(|quiet| quiet.set(true));
    Loud
}

/// Lets everybody else run once.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
