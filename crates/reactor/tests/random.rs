//! Random operations, from outside and from inside callbacks, against a simple model of what should
//! be watched.
//!
//! A case is a script. The driver takes operations from it one by one; whenever a callback runs, it
//! takes the next one or two itself. Numbers are closed, reopened and duplicated behind the loop's
//! back. The model says which watcher may be called, what must be true of its source, and what
//! every count must be.
//!
//! The seed is fixed, so a run can be repeated; set `MAINSPRING_SEED` to try another.

mod support;

use mainspring_reactor::{Backend, Error, Event, Handle, Interest, Mode, Reactor, Readiness, Timer, Watcher};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;
use support::descriptors::{Borrowed, ReservedNumber, drain_number, sockets, write_byte};
use support::{NOW, frozen_reactor, quiet_panics_of};

const PORTS: usize = 5;
const CASES: u32 = 300;
const SEED: u64 = 20_260_214;
/// Operations that a callback takes from the script.
const OPERATIONS_PER_CALL: usize = 2;

#[derive(Clone, Debug)]
enum Operation {
    Watch {
        port: usize,
        mode: Mode,
        interest: Interest,
    },
    Modify {
        port: usize,
        interest: Interest,
    },
    Rearm {
        port: usize,
    },
    Unwatch {
        port: usize,
    },
    /// Close the number without a word to the loop.
    Close {
        port: usize,
    },
    /// Open something new under the number, whatever was there.
    Open {
        port: usize,
    },
    /// Keep what is open under the number alive beyond its close.
    Duplicate {
        port: usize,
    },
    DropDuplicates,
    Write {
        port: usize,
    },
    Drain {
        port: usize,
    },
    HangUp {
        port: usize,
    },
    SetTimer {
        millis: u64,
    },
    CancelTimer {
        which: usize,
    },
    MoveTimer {
        which: usize,
        millis: u64,
    },
    Advance {
        millis: u64,
    },
    Defer,
    /// Only in callbacks.
    Panic,
    Turn,
}

fn operation() -> impl Strategy<Value = Operation> {
    let port = || 0..PORTS;
    let interest = || {
        prop_oneof![
            4 => Just(Interest::READ),
            1 => Just(Interest::WRITE),
            1 => Just(Interest::READ | Interest::WRITE),
            1 => Just(Interest::empty()),
        ]
    };
    let mode = prop_oneof![3 => Just(Mode::Level), 2 => Just(Mode::Oneshot), 1 => Just(Mode::Edge), 1 => Just(Mode::EdgeOneshot)];
    prop_oneof![
        6 => (port(), mode, interest()).prop_map(|(port, mode, interest)| Operation::Watch { port, mode, interest }),
        3 => (port(), interest()).prop_map(|(port, interest)| Operation::Modify { port, interest }),
        2 => port().prop_map(|port| Operation::Rearm { port }),
        2 => port().prop_map(|port| Operation::Unwatch { port }),
        2 => port().prop_map(|port| Operation::Close { port }),
        4 => port().prop_map(|port| Operation::Open { port }),
        2 => port().prop_map(|port| Operation::Duplicate { port }),
        1 => Just(Operation::DropDuplicates),
        6 => port().prop_map(|port| Operation::Write { port }),
        3 => port().prop_map(|port| Operation::Drain { port }),
        1 => port().prop_map(|port| Operation::HangUp { port }),
        3 => (0u64..4).prop_map(|millis| Operation::SetTimer { millis }),
        1 => (0usize..8).prop_map(|which| Operation::CancelTimer { which }),
        1 => (0usize..8, 0u64..4).prop_map(|(which, millis)| Operation::MoveTimer { which, millis }),
        2 => (0u64..3).prop_map(|millis| Operation::Advance { millis }),
        2 => Just(Operation::Defer),
        1 => Just(Operation::Panic),
        8 => Just(Operation::Turn),
    ]
}

/// Something that was open under a number for a while.
struct Incarnation {
    /// None once it has hung up.
    peer: Option<UnixStream>,
    unread: usize,
    /// The turn in which it was last drained: events in hand may be overtaken by that.
    drained_in: u64,
    duplicates: Vec<OwnedFd>,
}

struct Watch {
    watcher: Watcher,
    id: u64,
    /// What it watches.
    incarnation: usize,
    interest: Interest,
    mode: Mode,
    armed: bool,
    /// The turn in which it began, if it began inside one.
    born_in: u64,
}

struct Port {
    number: Rc<ReservedNumber>,
    current: Option<usize>,
    /// The turn in which the number last changed hands.
    changed_in: u64,
    watch: Option<Watch>,
}

struct TimerModel {
    timer: Timer,
    due_millis: u64,
    order: u64,
    /// The turn in which it was set or moved, if that was inside one.
    set_in: u64,
}

const OUTSIDE: u64 = u64::MAX;

/// What a callback panics with because the script says so.
struct Scripted;

struct World {
    handle: Handle,
    clock: mainspring_reactor::VirtualClock,
    script: RefCell<VecDeque<Operation>>,
    ports: RefCell<Vec<Port>>,
    incarnations: RefCell<Vec<Incarnation>>,
    timers: RefCell<BTreeMap<u64, TimerModel>>,
    deferred: RefCell<VecDeque<u64>>,
    called: RefCell<BTreeSet<u64>>,
    next_id: Cell<u64>,
    turn: Cell<u64>,
    inside: Cell<bool>,
    /// Whether the last turn ended by a panic: this one is its second half, and something of both.
    broken: Cell<bool>,
    /// What fired last: turn, deadline, order.
    last_fired: Cell<(u64, u64, u64)>,
}

impl World {
    fn new(
        handle: Handle,
        clock: mainspring_reactor::VirtualClock,
        numbers: &[Rc<ReservedNumber>],
        script: Vec<Operation>,
    ) -> Rc<World> {
        let port = |number: &Rc<ReservedNumber>| Port {
            number: number.clone(),
            current: None,
            changed_in: OUTSIDE,
            watch: None,
        };
        Rc::new(World {
            handle,
            clock,
            script: RefCell::new(script.into()),
            ports: RefCell::new(numbers.iter().map(port).collect()),
            incarnations: RefCell::default(),
            timers: RefCell::default(),
            deferred: RefCell::default(),
            called: RefCell::default(),
            next_id: Cell::new(0),
            turn: Cell::new(0),
            inside: Cell::new(false),
            broken: Cell::new(false),
            last_fired: Cell::new((OUTSIDE, 0, 0)),
        })
    }

    fn fresh_id(&self) -> u64 {
        self.next_id.set(self.next_id.get() + 1);
        self.next_id.get()
    }

    fn now_millis(&self) -> u64 {
        self.clock.elapsed().as_millis() as u64
    }

    /// The number of the turn in progress.
    fn this_turn(&self) -> u64 {
        if self.inside.get() { self.turn.get() } else { OUTSIDE }
    }

    fn is_poll(&self) -> bool {
        self.handle.backend() == Backend::Poll
    }

    /// Takes operations from the script, as a callback does.
    fn meddle(self: &Rc<Self>) {
        for _ in 0..OPERATIONS_PER_CALL {
            let next = self.script.borrow_mut().pop_front();
            match next {
                Some(Operation::Turn) => return self.script.borrow_mut().push_front(Operation::Turn),
                Some(operation) => self.perform(operation),
                None => return,
            }
        }
    }

    fn perform(self: &Rc<Self>, operation: Operation) {
        match operation {
            Operation::Watch { port, mode, interest } => self.watch(port, mode, interest),
            Operation::Modify { port, interest } => self.modify(port, Some(interest)),
            Operation::Rearm { port } => self.modify(port, None),
            Operation::Unwatch { port } => self.unwatch(port),
            Operation::Close { port } => self.close(port),
            Operation::Open { port } => self.open(port),
            Operation::Duplicate { port } => self.duplicate(port),
            Operation::DropDuplicates => self.drop_duplicates(),
            Operation::Write { port } => self.write(port),
            Operation::Drain { port } => self.drain(port),
            Operation::HangUp { port } => self.hang_up(port),
            Operation::SetTimer { millis } => self.set_timer(millis),
            Operation::CancelTimer { which } => self.cancel_timer(which),
            Operation::MoveTimer { which, millis } => self.move_timer(which, millis),
            Operation::Advance { millis } => self.clock.advance(Duration::from_millis(millis)),
            Operation::Defer => self.defer(),
            Operation::Panic if self.inside.get() => std::panic::panic_any(Scripted),
            Operation::Panic => {}
            Operation::Turn => unreachable!("turns are made by the driver"),
        }
        self.check_counts();
    }

    fn check_counts(&self) {
        self.forget_what_a_rebuild_ended();
        let watched = self.ports.borrow().iter().filter(|port| port.watch.is_some()).count();
        assert_eq!(self.handle.watcher_count(), watched, "watchers");
        assert_eq!(self.handle.timer_count(), self.timers.borrow().len(), "timers");
    }

    /// A rebuild may end a watch, but only one whose number no longer refers to what it watched.
    fn forget_what_a_rebuild_ended(&self) {
        for port in self.ports.borrow_mut().iter_mut() {
            let ended = port.watch.as_ref().is_some_and(|watch| !self.handle.is_watching(watch.watcher));
            if ended {
                let watch = port.watch.take().unwrap();
                assert!(self.handle.stats().rebuilds > 0, "a watch ended by itself");
                assert_ne!(port.current, Some(watch.incarnation), "a rebuild ended a watch that was fine");
            }
        }
    }

    fn watch(self: &Rc<Self>, port: usize, mode: Mode, interest: Interest) {
        let (id, world) = (self.fresh_id(), self.clone());
        let number = self.ports.borrow()[port].number.0;
        let called = move |_: &mut (), event: &Event<'_>| world.called(port, id, event);
        let result = self.handle.watch_raw(number, ()).mode(mode).start_with(interest, called);
        let mut ports = self.ports.borrow_mut();
        let port = &mut ports[port];
        match (result, port.current) {
            (Err(Error::BadFd { .. }), None) => {}
            (Err(Error::Unsupported { .. }), _) => assert!(self.is_poll() && mode.is_edge()),
            (Ok(watcher), Some(incarnation)) => {
                assert!(!(self.is_poll() && mode.is_edge()), "edges on poll must be refused");
                let armed = !interest.is_empty();
                let born_in = self.this_turn();
                port.watch = Some(Watch { watcher, id, incarnation, interest, mode, armed, born_in });
            }
            (result, current) => panic!("watch: {result:?} while {current:?} is open"),
        }
    }

    /// Changes the interest, or arms with the same.
    fn modify(&self, port: usize, interest: Option<Interest>) {
        self.forget_what_a_rebuild_ended();
        let mut ports = self.ports.borrow_mut();
        let port = &mut ports[port];
        let Some(watch) = &mut port.watch else { return };
        let result = match interest {
            Some(interest) => self.handle.modify(watch.watcher, interest),
            None => self.handle.rearm(watch.watcher),
        };
        let interest = interest.unwrap_or(watch.interest);
        match (result, port.current) {
            (Ok(()), _) if interest.is_empty() => {
                (watch.interest, watch.armed) = (interest, false);
            }
            (Ok(()), Some(current)) => {
                (watch.interest, watch.armed, watch.incarnation) = (interest, true, current);
            }
            (Err(Error::BadFd { .. }), None) => {}
            (result, current) => panic!("modify: {result:?} while {current:?} is open"),
        }
    }

    fn unwatch(&self, port: usize) {
        self.forget_what_a_rebuild_ended();
        let watch = self.ports.borrow_mut()[port].watch.take();
        if let Some(watch) = watch {
            assert!(self.handle.unwatch(watch.watcher));
            assert!(!self.handle.unwatch(watch.watcher));
        }
    }

    fn close(&self, port: usize) {
        let mut ports = self.ports.borrow_mut();
        if ports[port].current.take().is_some() {
            ports[port].changed_in = self.this_turn();
            ports[port].number.close();
        }
    }

    fn open(&self, port: usize) {
        let (left, right) = sockets();
        let mut ports = self.ports.borrow_mut();
        ports[port].number.open(&left);
        let mut incarnations = self.incarnations.borrow_mut();
        ports[port].current = Some(incarnations.len());
        ports[port].changed_in = self.this_turn();
        incarnations.push(Incarnation {
            peer: Some(right),
            unread: 0,
            drained_in: OUTSIDE,
            duplicates: Vec::new(),
        });
    }

    fn duplicate(&self, port: usize) {
        let ports = self.ports.borrow();
        if let Some(current) = ports[port].current {
            let duplicate = Borrowed(ports[port].number.0).as_fd().try_clone_to_owned().unwrap();
            self.incarnations.borrow_mut()[current].duplicates.push(duplicate);
        }
    }

    fn drop_duplicates(&self) {
        self.incarnations.borrow_mut().iter_mut().for_each(|incarnation| incarnation.duplicates.clear());
    }

    fn write(&self, port: usize) {
        let Some(current) = self.ports.borrow()[port].current else { return };
        let incarnation = &mut self.incarnations.borrow_mut()[current];
        if let Some(peer) = &incarnation.peer {
            write_byte(peer);
            incarnation.unread += 1;
        }
    }

    fn drain(&self, port: usize) {
        let ports = self.ports.borrow();
        let Some(current) = ports[port].current else { return };
        let incarnation = &mut self.incarnations.borrow_mut()[current];
        assert_eq!(drain_number(ports[port].number.0), incarnation.unread);
        incarnation.unread = 0;
        incarnation.drained_in = self.this_turn();
    }

    fn hang_up(&self, port: usize) {
        if let Some(current) = self.ports.borrow()[port].current {
            self.incarnations.borrow_mut()[current].peer = None;
        }
    }

    /// A watcher is called.
    fn called(self: &Rc<Self>, port: usize, id: u64, event: &Event<'_>) {
        assert!(self.inside.get());
        {
            let mut ports = self.ports.borrow_mut();
            let port = &mut ports[port];
            let (changed, current) = (port.changed_in == self.turn.get(), port.current);
            let watch = port.watch.as_mut().expect("called although nothing is watched");
            assert_eq!(watch.id, id, "called although it was replaced");
            assert_eq!(event.watcher(), watch.watcher);
            assert!(
                self.broken.get() || watch.born_in != self.turn.get(),
                "called in the turn in which it began"
            );
            assert!(watch.armed, "called although it is disarmed");
            watch.armed = !watch.mode.is_oneshot();
            let asked = |readiness, interest| {
                !event.readiness().contains(readiness) || watch.interest.contains(interest)
            };
            assert!(asked(Readiness::READ, Interest::READ) && asked(Readiness::WRITE, Interest::WRITE));
            // On `poll` a number is all that is known, so a watch follows its number.
            let source = if self.is_poll() { current } else { Some(watch.incarnation) };
            let stale = self.is_poll() && (changed || self.broken.get());
            let incarnations = self.incarnations.borrow();
            match source.map(|source| &incarnations[source]) {
                Some(source) => {
                    let drained = self.broken.get() || source.drained_in == self.turn.get();
                    let gone = source.peer.is_none();
                    let readable = source.unread > 0 || gone || drained || stale;
                    assert!(readable || !event.readiness().contains(Readiness::READ), "not readable");
                    let hang_up = Readiness::HANGUP | Readiness::READ_CLOSED;
                    assert!(gone || stale || !event.readiness().intersects(hang_up), "not hung up");
                }
                None => assert!(stale, "called although its number is closed"),
            }
        }
        self.called.borrow_mut().insert(id);
        self.meddle();
    }

    fn set_timer(self: &Rc<Self>, millis: u64) {
        let (id, world) = (self.fresh_id(), self.clone());
        let timer = self.handle.after(Duration::from_millis(millis), move |_| world.fired(id)).unwrap();
        let model =
            TimerModel { timer, due_millis: self.now_millis() + millis, order: id, set_in: self.this_turn() };
        self.timers.borrow_mut().insert(id, model);
    }

    fn nth_timer(&self, which: usize) -> Option<u64> {
        let timers = self.timers.borrow();
        (!timers.is_empty()).then(|| *timers.keys().nth(which % timers.len()).unwrap())
    }

    fn cancel_timer(&self, which: usize) {
        let Some(id) = self.nth_timer(which) else { return };
        let model = self.timers.borrow_mut().remove(&id).unwrap();
        assert!(self.handle.cancel(model.timer));
        assert!(!self.handle.cancel(model.timer));
    }

    fn move_timer(&self, which: usize, millis: u64) {
        let Some(id) = self.nth_timer(which) else { return };
        let order = self.fresh_id();
        let due_millis = self.now_millis() + millis;
        let mut timers = self.timers.borrow_mut();
        let model = timers.get_mut(&id).unwrap();
        assert!(self.handle.reschedule_after(model.timer, Duration::from_millis(millis)).unwrap());
        (model.due_millis, model.order, model.set_in) = (due_millis, order, self.this_turn());
    }

    fn fired(self: &Rc<Self>, id: u64) {
        let model = self.timers.borrow_mut().remove(&id).expect("fired although it was cancelled");
        assert!(model.due_millis <= self.now_millis(), "early");
        assert!(
            self.broken.get() || model.set_in != self.turn.get(),
            "fired in the turn in which it was set"
        );
        let this = (self.turn.get(), model.due_millis, model.order);
        let last = self.last_fired.replace(this);
        let in_order = self.broken.get() || last.0 != this.0 || last < this;
        assert!(in_order, "out of order: {this:?} after {last:?}");
        self.meddle();
    }

    fn defer(self: &Rc<Self>) {
        let (id, world) = (self.fresh_id(), self.clone());
        self.deferred.borrow_mut().push_back(id);
        let call = move |_: &Handle| {
            assert_eq!(world.deferred.borrow_mut().pop_front(), Some(id), "deferred calls out of order");
            world.meddle();
        };
        self.handle.defer(call).unwrap();
    }

    fn turn(&self, reactor: &mut Reactor) {
        self.turn.set(self.turn.get() + 1);
        let due_by = self.now_millis();
        let due: Vec<(u64, u64)> = {
            let timers = self.timers.borrow();
            timers
                .iter()
                .filter(|(_, model)| model.due_millis <= due_by)
                .map(|(id, model)| (*id, model.order))
                .collect()
        };
        self.inside.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| reactor.poll(NOW).map(drop).unwrap()));
        self.inside.set(false);
        let was_broken = self.broken.replace(outcome.is_err());
        match outcome {
            Err(panic) if !panic.is::<Scripted>() => resume_unwind(panic),
            Ok(()) if !was_broken => {
                for (id, order) in due {
                    let left = self.timers.borrow().get(&id).is_some_and(|model| model.order == order);
                    assert!(!left, "a timer that was due did not fire");
                }
            }
            _ => {}
        }
        self.check_counts();
    }

    /// Everything that should be heard is heard, and what should be silent is silent.
    fn check_that_all_is_well(self: &Rc<Self>, reactor: &mut Reactor) {
        for _ in 0..3 {
            self.turn(reactor);
        }
        let mut expected = BTreeSet::new();
        for port in 0..PORTS {
            self.write(port);
            let ports = self.ports.borrow();
            let Some(watch) = &ports[port].watch else { continue };
            let heard = watch.armed && watch.interest.contains(Interest::READ);
            let same = ports[port].current == Some(watch.incarnation);
            let written =
                ports[port].current.is_some_and(|current| self.incarnations.borrow()[current].peer.is_some());
            // Nobody needs to hear of a number that has changed hands since it was watched.
            if heard && written && same {
                expected.insert(watch.id);
            }
        }
        self.called.borrow_mut().clear();
        self.turn(reactor);
        let called = self.called.borrow();
        assert!(expected.is_subset(&called), "expected {expected:?}, called {called:?}");
    }

    /// With nothing watched, the loop comes to rest, whatever duplicates are still open.
    fn check_rest(&self, reactor: &mut Reactor) {
        (0..PORTS).for_each(|port| self.unwatch(port));
        for _ in 0..4 {
            self.turn(reactor);
        }
        let events = reactor.stats().events;
        for _ in 0..4 {
            self.turn(reactor);
        }
        assert_eq!(reactor.stats().events, events, "the loop does not come to rest: {:?}", reactor.stats());
    }
}

fn run_script(backend: Backend, numbers: &[Rc<ReservedNumber>], script: Vec<Operation>) {
    quiet_panics_of::<Scripted>();
    let (mut reactor, clock) = frozen_reactor(backend);
    let world = World::new(reactor.handle(), clock, numbers, script);
    (0..PORTS).for_each(|port| world.open(port));
    loop {
        let next = world.script.borrow_mut().pop_front();
        match next {
            Some(Operation::Turn) => world.turn(&mut reactor),
            Some(operation) => world.perform(operation),
            None => break,
        }
    }
    world.check_that_all_is_well(&mut reactor);
    world.check_rest(&mut reactor);
    (0..PORTS).for_each(|port| world.close(port));
}

fn run_random_scripts(backend: Backend) {
    let seed = std::env::var("MAINSPRING_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let config = Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let numbers: Vec<_> = (0..PORTS).map(|_| Rc::new(ReservedNumber::new())).collect();
    let scripts = proptest::collection::vec(operation(), 1..150);
    let result = TestRunner::new(config).run(&scripts, |script| {
        run_script(backend, &numbers, script);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("seed {seed}: {failure}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn h16_random_operations_on_epoll_agree_with_the_model() {
    run_random_scripts(Backend::Epoll);
}

#[test]
fn h16_random_operations_on_poll_agree_with_the_model() {
    run_random_scripts(Backend::Poll);
}
