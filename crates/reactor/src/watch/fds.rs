//! The table of watched descriptors.
//!
//! A slot is the descriptor's number, so lookup is an index and there is never more than one
//! watcher per descriptor (clauses M1.1.1 and M1.1.6). Two generations tell the past from the
//! present: the kernel's token carries the one that changes with every registration, so an event of
//! an earlier registration is recognised; a [`Watcher`] carries the one that changes with every
//! watch, so an old name never reaches a new watcher.
//!
//! Bookkeeping only: no system call is made here, and no user code runs.

use crate::observe::labels::Label;
use crate::sys::{Registration, Tokens};
use crate::watch::handler::{Handler, HandlerBox};

use crate::{Interest, Mode, Readiness, Watcher};
use std::cell::Cell;
use std::os::fd::RawFd;
use std::ptr::NonNull;

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
    /// Whether the watcher is one of the loop's own (for a child or for signals), which users do
    /// not count.
    pub(crate) internal: bool,
    /// Whether the source cannot be closed while it is watched.
    pub(crate) certain: bool,
    /// Whether the descriptor is certainly the one that the current watcher of this number watches.
    pub(crate) same_source: bool,
}

/// What dispatch looks at: 32 bytes, because every event touches one.
struct FdSlot {
    handler: Option<HandlerBox>,
    /// Part of the kernel's token.
    registration: u32,
    /// Part of the [`Watcher`].
    generation: u32,
    /// What may pass to the callbacks.
    mask: Readiness,
    /// [`ONESHOT`] and [`FRESH`]: nothing, for most events.
    flags: u8,
}

/// The first report disarms the watcher.
const ONESHOT: u8 = 1;
/// The watch began, or the registration ended, during the batch in hand: whatever that batch still
/// holds for this number is of the past.
const FRESH: u8 = 2;

/// What only changes look at.
struct Details {
    mode: Mode,
    kernel: Kernel,
    interest: Interest,
    accepts: Interest,
    live: bool,
    internal: bool,
    certain: bool,
    label: Label,
}

/// A handler about to be called.
pub(crate) struct Call {
    pub(crate) watcher: Watcher,
    pub(crate) readiness: Readiness,
    /// Whether this report is the watcher's only one.
    pub(crate) oneshot: bool,
    /// Valid until [`CurrentCall::end`].
    pub(crate) handler: NonNull<dyn Handler>,
}

/// What became of an event.
pub(crate) enum Lookup {
    /// It goes to this handler.
    Found(Call),
    /// It is real, but not for anyone now: it was fetched before the watcher began, or the interest
    /// has gone.
    Ignored,
    /// Its registration ended after it was fetched.
    Overtaken,
    /// It belongs to a registration that ended before it was fetched.
    Stale,
}

/// What should be in the kernel's set.
pub(crate) struct Wanted {
    pub(crate) fd: RawFd,
    pub(crate) token: u64,
    pub(crate) interest: Interest,
    pub(crate) mode: Mode,
    pub(crate) certain: bool,
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

/// Slot of no handler.
const NOBODY: usize = usize::MAX;

/// The call that is being made. Outside the table, so that it can be ended without looking whether
/// that is free.
pub(crate) struct CurrentCall {
    /// The slot whose handler is being called.
    slot: Cell<usize>,
    /// The handler that is being called, once its watch has ended: to be dropped when the call
    /// returns.
    retired: Cell<Option<HandlerBox>>,
}

impl Default for CurrentCall {
    fn default() -> CurrentCall {
        CurrentCall { slot: Cell::new(NOBODY), retired: Cell::new(None) }
    }
}

impl CurrentCall {
    /// The call has returned, or has panicked. Hands back the handler if its watch ended meanwhile.
    #[inline]
    pub(crate) fn end(&self) -> Option<HandlerBox> {
        // The marker is taken away exactly when a handler is retired.
        if self.slot.replace(NOBODY) == NOBODY { self.retired.take() } else { None }
    }

    /// Keeps a handler that is being called until the call returns; hands any other back, to be
    /// dropped.
    fn retire(&self, slot: usize, handler: Option<HandlerBox>) -> Option<HandlerBox> {
        if self.slot.get() != slot || handler.is_none() {
            return handler;
        }
        // From here on the slot belongs to others, and its next handler is not being called.
        self.slot.set(NOBODY);
        self.retired.replace(handler)
    }
}

#[derive(Default)]
pub(crate) struct FdTable {
    slots: Vec<FdSlot>,
    /// The rest of each slot.
    details: Vec<Details>,
    /// Slots that are marked fresh.
    fresh: Vec<u32>,
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

    fn live(&self, watcher: Watcher) -> Option<&Details> {
        let details = self.details.get(watcher.slot())?;
        let current = self.slots[watcher.slot()].generation == watcher.generation();
        (details.live && current).then_some(details)
    }

    pub(crate) fn contains(&self, watcher: Watcher) -> bool {
        self.live(watcher).is_some()
    }

    pub(crate) fn request_of(&self, watcher: Watcher) -> Option<Request> {
        self.live(watcher).map(|details| Request {
            interest: details.interest,
            mode: details.mode,
            accepts: details.accepts,
            label: details.label,
            internal: details.internal,
            certain: details.certain,
            same_source: details.certain,
        })
    }

    pub(crate) fn label_of(&self, watcher: Watcher) -> Label {
        self.live(watcher).map_or(Label::NONE, |details| details.label)
    }

    pub(crate) fn set_label(&mut self, watcher: Watcher, label: Label) -> bool {
        let there = self.contains(watcher);
        if there {
            self.details[watcher.slot()].label = label;
        }
        there
    }

    pub(crate) fn watcher_of(&self, fd: RawFd) -> Option<Watcher> {
        let index = usize::try_from(fd).ok()?;
        let live = self.details.get(index)?.live;
        live.then(|| Watcher::new(fd, self.slots[index].generation))
    }

    /// Whether the number is watched by the loop for itself.
    pub(crate) fn is_internal(&self, fd: RawFd) -> bool {
        let details = usize::try_from(fd).ok().and_then(|index| self.details.get(index));
        details.is_some_and(|details| details.live && details.internal)
    }

    /// Where a number stands with the kernel.
    pub(crate) fn kernel_of(&self, fd: RawFd) -> Kernel {
        self.details.get(fd as usize).map_or(Kernel::Absent, |details| details.kernel)
    }

    /// A new batch of events is about to be fetched: nothing is of the past any more.
    #[inline]
    pub(crate) fn begin_batch(&mut self) {
        for index in self.fresh.drain(..) {
            self.slots[index as usize].flags &= !FRESH;
        }
    }

    /// Whether the next batch makes a difference to anyone.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    fn mark_fresh(&mut self, index: usize) {
        let flags = &mut self.slots[index].flags;
        if *flags & FRESH == 0 {
            *flags |= FRESH;
            self.fresh.push(index as u32);
        }
    }

    /// What a watch or a change of interest means for the kernel, and the tokens it may carry.
    pub(crate) fn plan(&self, fd: RawFd, request: &Request) -> (Change, Tokens) {
        let Some(slot) = self.slots.get(fd as usize) else {
            let change = if request.interest.is_empty() { Change::None } else { Change::Add };
            return (change, Tokens { same: token(fd, 1), fresh: token(fd, 1) });
        };
        let registration = slot.registration;
        let fresh = token(fd, registration.wrapping_add(1));
        // A change arms a oneshot again, so the event that may have been fetched comes anew and
        // must not count twice.
        let same = if request.mode.is_oneshot() { fresh } else { token(fd, registration) };
        let tokens = Tokens { same, fresh };
        let details = &self.details[fd as usize];
        let present = details.live && details.kernel != Kernel::Absent;
        let change = match (present, request.interest.is_empty()) {
            (false, true) => Change::None,
            (true, true) => Change::Remove,
            (false, false) => Change::Add,
            (true, false) => {
                let unchanged = request.same_source
                    && details.interest == request.interest
                    && details.mode == request.mode
                    && request.mode == Mode::Level
                    && matches!(details.kernel, Kernel::Armed(_));
                if unchanged { Change::None } else { Change::Modify }
            }
        };
        (change, tokens)
    }

    /// Enters a watch that the kernel has accepted. Hands back the handler it replaces.
    pub(crate) fn commit_watch(
        &mut self,
        fd: RawFd,
        token: u64,
        request: &Request,
        kernel: Kernel,
        handler: HandlerBox,
        current: &CurrentCall,
    ) -> (Watcher, Option<HandlerBox>) {
        let index = fd as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, FdSlot::vacant);
            self.details.resize_with(index + 1, Details::vacant);
        }
        self.forget(index);
        self.mark_fresh(index);
        let details = &mut self.details[index];
        details.accepts = request.accepts;
        details.label = request.label;
        details.internal = request.internal;
        details.certain = request.certain;
        details.live = true;
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        let replaced = slot.handler.replace(handler);
        let watcher = Watcher::new(fd, slot.generation);
        self.watchers += 1;
        self.internal += usize::from(request.internal);
        self.commit_interest(watcher, token, request, kernel);
        (watcher, current.retire(index, replaced))
    }

    /// Enters an interest that the kernel has accepted.
    pub(crate) fn commit_interest(
        &mut self,
        watcher: Watcher,
        token: u64,
        request: &Request,
        kernel: Kernel,
    ) {
        let slot = &mut self.slots[watcher.slot()];
        let ended = slot.registration != registration_of(token);
        slot.registration = registration_of(token);
        slot.mask = request.interest.mask();
        slot.flags = (slot.flags & FRESH) | if request.mode.is_oneshot() { ONESHOT } else { 0 };
        let details = &mut self.details[watcher.slot()];
        let was_armed = matches!(details.kernel, Kernel::Armed(_));
        let is_armed = matches!(kernel, Kernel::Armed(_));
        details.interest = request.interest;
        details.mode = request.mode;
        details.kernel = kernel;
        self.armed = self.armed + usize::from(is_armed) - usize::from(was_armed);
        if ended {
            self.mark_fresh(watcher.slot());
        }
    }

    /// Ends a watch. Hands back its handler (none while that is being called) and whether the
    /// kernel still knows the descriptor.
    pub(crate) fn remove(
        &mut self,
        watcher: Watcher,
        current: &CurrentCall,
    ) -> Option<(Option<HandlerBox>, bool)> {
        let known = self.live(watcher)?.kernel != Kernel::Absent;
        let index = watcher.slot();
        self.forget(index);
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        let handler = slot.handler.take();
        self.end_registration(index);
        Some((current.retire(index, handler), known))
    }

    /// From here on, events of the current registration are of the past.
    fn end_registration(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.registration = slot.registration.wrapping_add(1);
        self.mark_fresh(index);
    }

    /// Takes a live slot out of the counts.
    fn forget(&mut self, index: usize) {
        let details = &mut self.details[index];
        if details.live {
            self.watchers -= 1;
            self.internal -= usize::from(details.internal);
            self.armed -= usize::from(matches!(details.kernel, Kernel::Armed(_)));
            details.live = false;
            details.kernel = Kernel::Absent;
        }
    }

    /// Finds whom an event is for. The handler stays where it is until [`CurrentCall::end`],
    /// whatever is done to this table meanwhile.
    #[inline]
    pub(crate) fn begin(&self, event_token: u64, readiness: Readiness, current: &CurrentCall) -> Lookup {
        let index = (event_token >> 32) as usize;
        let Some(slot) = self.slots.get(index) else { return Lookup::Stale };
        let ready = readiness.bits() & slot.mask.bits();
        let Some(handler) = &slot.handler else { return slot.miss() };
        if slot.registration != registration_of(event_token) {
            return slot.miss();
        }
        if ready == 0 || slot.flags >= FRESH {
            return Lookup::Ignored;
        }
        current.slot.set(index);
        Lookup::Found(Call {
            watcher: Watcher::new(index as RawFd, slot.generation),
            readiness: Readiness::from_bits_retain(ready),
            oneshot: slot.flags != 0,
            handler: handler.address(),
        })
    }

    /// Notes that a oneshot watcher has made its report.
    pub(crate) fn disarm(&mut self, watcher: Watcher) {
        let details = &mut self.details[watcher.slot()];
        if let Kernel::Armed(registration) = details.kernel {
            details.kernel = Kernel::Disarmed(registration);
            self.armed -= 1;
        }
    }

    /// Silences a level watcher that was told of something for which it has no callback. True if
    /// the kernel must forget it.
    pub(crate) fn park(&mut self, watcher: Watcher) -> bool {
        let Some(details) = self.live(watcher) else { return false };
        if details.mode != Mode::Level || !matches!(details.kernel, Kernel::Armed(_)) {
            return false;
        }
        self.details[watcher.slot()].kernel = Kernel::Absent;
        self.end_registration(watcher.slot());
        self.armed -= 1;
        true
    }

    /// Everything the kernel should know, for a set that starts empty.
    pub(crate) fn registrations(&self) -> Vec<Wanted> {
        let armed = |details: &Details| details.live && matches!(details.kernel, Kernel::Armed(_));
        let entry = |(index, details): (usize, &Details)| {
            let fd = index as RawFd;
            Wanted {
                fd,
                token: token(fd, self.slots[index].registration),
                interest: details.interest,
                mode: details.mode,
                certain: details.certain,
            }
        };
        self.details.iter().enumerate().filter(|(_, details)| armed(details)).map(entry).collect()
    }

    /// Notes that the kernel's set has been emptied: whatever is not armed is no longer in it.
    pub(crate) fn kernel_forgot(&mut self) {
        for details in &mut self.details {
            if matches!(details.kernel, Kernel::Disarmed(_)) {
                details.kernel = Kernel::Absent;
            }
        }
    }

    /// Every live watcher.
    pub(crate) fn watchers(&self) -> Vec<Watcher> {
        (0..self.slots.len()).filter_map(|fd| self.watcher_of(fd as RawFd)).collect()
    }
}

impl FdSlot {
    /// What to make of an event whose registration is not the current one.
    #[cold]
    fn miss(&self) -> Lookup {
        if self.flags & FRESH != 0 { Lookup::Overtaken } else { Lookup::Stale }
    }

    fn vacant() -> FdSlot {
        FdSlot { handler: None, registration: 0, generation: 0, mask: Readiness::empty(), flags: 0 }
    }
}

impl Details {
    fn vacant() -> Details {
        Details {
            mode: Mode::Level,
            kernel: Kernel::Absent,
            interest: Interest::empty(),
            accepts: Interest::empty(),
            live: false,
            internal: false,
            certain: false,
            label: Label::NONE,
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

const _: () = assert!(size_of::<FdSlot>() <= 32);
