//! What a watcher asks for, what it is told, and how often.

use bitflags::bitflags;

bitflags! {
    /// What a watcher waits for. Errors and hang-ups are reported whatever the interest is.
    ///
    /// An empty interest keeps the watcher but takes the descriptor out of the kernel's set, so
    /// that not even a hang-up wakes the loop.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Interest: u8 {
        /// Bytes, a connection or the end of the stream can be read.
        const READ = 1;
        /// Bytes can be written, or a pending connect has finished.
        const WRITE = 2;
        /// Out-of-band data or another priority condition (`POLLPRI`).
        const PRIORITY = 4;
        /// Errors alone. Every other interest includes them; on its own it keeps the descriptor in
        /// the kernel's set for nothing but bad news.
        const ERROR = 8;
    }
}

impl Interest {
    /// The readiness that this interest lets through to the callbacks.
    pub(crate) fn mask(self) -> Readiness {
        let mut mask = Readiness::ERROR | Readiness::HANGUP;
        mask.set(Readiness::READ | Readiness::READ_CLOSED, self.contains(Interest::READ));
        mask.set(Readiness::WRITE, self.contains(Interest::WRITE));
        mask.set(Readiness::PRIORITY, self.contains(Interest::PRIORITY));
        mask
    }
}

bitflags! {
    /// What has become true of a descriptor.
    ///
    /// The bits are those of Linux's `poll(2)` and `epoll(7)`, so no translation stands between the
    /// kernel and a callback; use the names, not the numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Readiness: u16 {
        /// A read makes progress.
        const READ = 0x001;
        /// A priority condition is pending.
        const PRIORITY = 0x002;
        /// A write makes progress.
        const WRITE = 0x004;
        /// The descriptor has an error to report.
        const ERROR = 0x008;
        /// Both directions are closed.
        const HANGUP = 0x010;
        /// The peer will send no more (half close). Reported on Linux; elsewhere it is
        /// [`READ`](Readiness::READ) alone, and the next read finds the end.
        const READ_CLOSED = 0x2000;
    }
}

impl Readiness {
    /// What an always-ready source (a regular file) reports for an interest.
    #[cfg(target_os = "linux")]
    pub(crate) fn always(interest: Interest) -> Readiness {
        let mut ready = Readiness::empty();
        ready.set(Readiness::READ, interest.contains(Interest::READ));
        ready.set(Readiness::WRITE, interest.contains(Interest::WRITE));
        ready
    }
}

/// When a ready descriptor is reported again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// On every turn for as long as the condition holds.
    #[default]
    Level,
    /// Once for each change of the condition. The callback must read or write until `WouldBlock`.
    Edge,
    /// Once; then the watcher stays silent until it is re-armed by
    /// [`modify`](crate::Handle::modify), [`rearm`](crate::Handle::rearm) or a new watch.
    Oneshot,
    /// Once, on an edge: behaves exactly as [`Mode::Oneshot`].
    EdgeOneshot,
}

impl Mode {
    /// Whether reports follow changes rather than levels.
    pub fn is_edge(self) -> bool {
        matches!(self, Mode::Edge | Mode::EdgeOneshot)
    }

    /// Whether one report silences the watcher.
    pub fn is_oneshot(self) -> bool {
        matches!(self, Mode::Oneshot | Mode::EdgeOneshot)
    }
}
