//! The table of watched descriptors.
//!
//! A slot is the descriptor's number, so lookup is an index and there is never more than one watcher per descriptor
//! (clauses 1.1 and 1.6). Two generations tell the past from the present: the kernel's token carries the one that
//! changes with every registration, so an event of an earlier registration is recognised; a [`Watcher`] carries the one
//! that changes with every watch, so an old name never reaches a new watcher.
//!
//! Bookkeeping only: no system call is made here, and no user code runs.

use crate::labels::Label;
use crate::sys::Registration;
use crate::watch::Handler;
use crate::{Interest, Mode, Readiness, Watcher};
use std::os::fd::RawFd;

/// Where a watched descriptor stands with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Not in the set: interest in nothing, or silenced because nobody listens to its hang-up.
    Absent,
    /// In the set and able to report.
    Armed(Registration),
    /// In the set, but its one report has been made.
    Disarmed(Registration),
}

/// What a watch asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) interest: Interest,
    pub(crate) mode: Mode,
    /// The interests that have a callback to go to.
    pub(crate) accepts: Interest,
    pub(crate) label: Label,
    /// Whether the watcher is one of the loop's own (a pidfd, a signalfd), which users do not count.
    pub(crate) internal: bool,
    /// Whether the source cannot be closed while it is watched.
    pub(crate) certain: bool,
    /// Whether the descriptor is certainly the one that the current watcher of this number watches.
    pub(crate) same_source: bool,
}

struct Slot {
    /// Part of the kernel's token.
    registration: u32,
    /// Part of the [`Watcher`].
    generation: u32,
    /// The batch of events in whose dispatch the watch began: its events are not for this watcher.
    born_batch: u64,
    /// What may pass to the callbacks.
    mask: Readiness,
    mode: Mode,
    kernel: Kernel,
    interest: Interest,
    accepts: Interest,
    live: bool,
    internal: bool,
    certain: bool,
    label: Label,
    /// Absent while it runs.
    handler: Option<Box<dyn Handler>>,
}

/// A handler on its way through one dispatch.
pub(crate) struct Running {
    pub(crate) watcher: Watcher,
    pub(crate) readiness: Readiness,
    pub(crate) label: Label,
    pub(crate) handler: Box<dyn Handler>,
}

/// What became of an event.
pub(crate) enum Lookup {
    /// It goes to this handler.
    Found(Running),
    /// It is real, but not for anyone now: it was fetched before the watcher began, or the interest has gone.
    Ignored,
    /// It belongs to a registration that no longer exists.
    Stale,
}

/// What the kernel must be told about a number, as far as the table knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// Take it in.
    Add,
    /// Change what is there.
    Modify,
    /// Take it out.
    Remove,
}

#[derive(Default)]
pub(crate) struct FdTable {
    slots: Vec<Slot>,
    watchers: usize,
    internal: usize,
    armed: usize,
}

impl FdTable {
    /// Watchers of the user's, armed or not.
    pub(crate) fn len(&self) -> usize {
        self.watchers - self.internal
    }

    /// Watchers that can still report something.
    pub(crate) fn armed(&self) -> usize {
        self.armed
    }

    fn live(&self, watcher: Watcher) -> Option<&Slot> {
        let slot = self.slots.get(usize::try_from(watcher.fd).ok()?)?;
        (slot.live && slot.generation == watcher.generation).then_some(slot)
    }

    pub(crate) fn contains(&self, watcher: Watcher) -> bool {
        self.live(watcher).is_some()
    }

    pub(crate) fn request_of(&self, watcher: Watcher) -> Option<Request> {
        self.live(watcher).map(|slot| Request {
            interest: slot.interest,
            mode: slot.mode,
            accepts: slot.accepts,
            label: slot.label,
            internal: slot.internal,
            certain: slot.certain,
            same_source: slot.certain,
        })
    }

    pub(crate) fn watcher_of(&self, fd: RawFd) -> Option<Watcher> {
        let slot = self.slots.get(usize::try_from(fd).ok()?)?;
        slot.live.then_some(Watcher { fd, generation: slot.generation })
    }

    /// Where a number stands with the kernel.
    pub(crate) fn kernel_of(&self, fd: RawFd) -> Kernel {
        self.slots.get(fd as usize).map_or(Kernel::Absent, |slot| slot.kernel)
    }

    /// What a watch or a change of interest means for the kernel, and the token it must carry.
    pub(crate) fn plan(&self, fd: RawFd, request: &Request) -> (Change, u64) {
        let Some(slot) = self.slots.get(fd as usize) else {
            return (if request.interest.is_empty() { Change::None } else { Change::Add }, token(fd, 1));
        };
        let next = token(fd, slot.registration.wrapping_add(1));
        let present = slot.live && slot.kernel != Kernel::Absent;
        match (present, request.interest.is_empty()) {
            (false, true) => (Change::None, next),
            (true, true) => (Change::Remove, next),
            (false, false) => (Change::Add, next),
            (true, false) => {
                let unchanged = request.same_source
                    && slot.interest == request.interest
                    && slot.mode == request.mode
                    && request.mode == Mode::Level
                    && matches!(slot.kernel, Kernel::Armed(_));
                if unchanged { (Change::None, token(fd, slot.registration)) } else { (Change::Modify, next) }
            }
        }
    }

    /// Enters a watch that the kernel has accepted. Hands back the handler it replaces.
    pub(crate) fn commit_watch(
        &mut self,
        fd: RawFd,
        token: u64,
        request: &Request,
        kernel: Kernel,
        batch: u64,
        handler: Box<dyn Handler>,
    ) -> (Watcher, Option<Box<dyn Handler>>) {
        let index = fd as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Slot::vacant);
        }
        self.forget(index);
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.born_batch = batch;
        slot.accepts = request.accepts;
        slot.label = request.label;
        slot.internal = request.internal;
        slot.certain = request.certain;
        slot.live = true;
        let replaced = slot.handler.replace(handler);
        let watcher = Watcher { fd, generation: slot.generation };
        self.watchers += 1;
        self.internal += usize::from(request.internal);
        self.commit_interest(watcher, token, request, kernel);
        (watcher, replaced)
    }

    /// Enters an interest that the kernel has accepted.
    pub(crate) fn commit_interest(
        &mut self,
        watcher: Watcher,
        token: u64,
        request: &Request,
        kernel: Kernel,
    ) {
        let slot = &mut self.slots[watcher.fd as usize];
        let was_armed = matches!(slot.kernel, Kernel::Armed(_));
        slot.registration = registration_of(token);
        slot.interest = request.interest;
        slot.mode = request.mode;
        slot.mask = request.interest.mask();
        slot.kernel = kernel;
        let is_armed = matches!(kernel, Kernel::Armed(_));
        self.armed = self.armed + usize::from(is_armed) - usize::from(was_armed);
    }

    /// Ends a watch. Hands back its handler (none while that runs) and whether the kernel still knows the descriptor.
    pub(crate) fn remove(&mut self, watcher: Watcher) -> Option<(Option<Box<dyn Handler>>, bool)> {
        let known = self.live(watcher)?.kernel != Kernel::Absent;
        let index = watcher.fd as usize;
        self.forget(index);
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.registration = slot.registration.wrapping_add(1);
        Some((slot.handler.take(), known))
    }

    /// Takes a live slot out of the counts.
    fn forget(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.live {
            self.watchers -= 1;
            self.internal -= usize::from(slot.internal);
            self.armed -= usize::from(matches!(slot.kernel, Kernel::Armed(_)));
            slot.live = false;
            slot.kernel = Kernel::Absent;
        }
    }

    /// Finds whom an event is for, and takes the handler out so that it may do anything to this table.
    #[inline]
    pub(crate) fn begin(&mut self, event_token: u64, readiness: Readiness, batch: u64) -> Lookup {
        let index = (event_token >> 32) as usize;
        let Some(slot) = self.slots.get_mut(index) else { return Lookup::Stale };
        if slot.registration != registration_of(event_token) || !slot.live {
            return Lookup::Stale;
        }
        let readiness = readiness.intersection(slot.mask);
        if slot.born_batch == batch || readiness.is_empty() {
            return Lookup::Ignored;
        }
        let Some(handler) = slot.handler.take() else { return Lookup::Ignored };
        if slot.mode.is_oneshot()
            && let Kernel::Armed(registration) = slot.kernel
        {
            slot.kernel = Kernel::Disarmed(registration);
            self.armed -= 1;
        }
        let watcher = Watcher { fd: index as RawFd, generation: slot.generation };
        Lookup::Found(Running { watcher, readiness, label: slot.label, handler })
    }

    /// Puts a handler back after its call. Hands it back if the call ended or replaced its watch.
    #[inline]
    pub(crate) fn finish(&mut self, watcher: Watcher, handler: Box<dyn Handler>) -> Option<Box<dyn Handler>> {
        let slot = &mut self.slots[watcher.fd as usize];
        if slot.live && slot.generation == watcher.generation {
            slot.handler = Some(handler);
            None
        } else {
            Some(handler)
        }
    }

    /// Silences a level watcher that was told of something for which it has no callback. True if the kernel must
    /// forget it.
    pub(crate) fn park(&mut self, watcher: Watcher) -> bool {
        let Some(slot) = self.live(watcher) else { return false };
        if slot.mode != Mode::Level || !matches!(slot.kernel, Kernel::Armed(_)) {
            return false;
        }
        let slot = &mut self.slots[watcher.fd as usize];
        slot.kernel = Kernel::Absent;
        slot.registration = slot.registration.wrapping_add(1);
        self.armed -= 1;
        true
    }

    /// Everything the kernel should know, for a set that starts empty: descriptor, token, interest, mode.
    pub(crate) fn registrations(&self) -> Vec<(RawFd, u64, Interest, Mode)> {
        let armed = |slot: &Slot| slot.live && matches!(slot.kernel, Kernel::Armed(_));
        let entry = |(fd, slot): (usize, &Slot)| {
            (fd as RawFd, token(fd as RawFd, slot.registration), slot.interest, slot.mode)
        };
        self.slots.iter().enumerate().filter(|(_, slot)| armed(slot)).map(entry).collect()
    }

    /// Notes that the kernel's set has been emptied: whatever is not armed is no longer in it.
    pub(crate) fn kernel_forgot(&mut self) {
        for slot in &mut self.slots {
            if matches!(slot.kernel, Kernel::Disarmed(_)) {
                slot.kernel = Kernel::Absent;
            }
        }
    }

    /// Every live watcher.
    pub(crate) fn watchers(&self) -> Vec<Watcher> {
        (0..self.slots.len()).filter_map(|fd| self.watcher_of(fd as RawFd)).collect()
    }
}

impl Slot {
    fn vacant() -> Slot {
        Slot {
            registration: 0,
            generation: 0,
            born_batch: u64::MAX,
            mask: Readiness::empty(),
            mode: Mode::Level,
            kernel: Kernel::Absent,
            interest: Interest::empty(),
            accepts: Interest::empty(),
            live: false,
            internal: false,
            certain: false,
            label: Label::NONE,
            handler: None,
        }
    }
}

/// The kernel's user data: slot above, registration below.
fn token(fd: RawFd, registration: u32) -> u64 {
    (u64::from(fd as u32) << 32) | u64::from(registration)
}

fn registration_of(token: u64) -> u32 {
    token as u32
}
