//! What the loop's state does about watched descriptors: the table and the kernel, kept in step.

use super::Core;
use crate::observe::labels::Label;
use crate::observe::stats::count;
use crate::sys::{Registration, Tokens, WAKE};
use crate::watch::fds::{Change, Kernel, Lookup, Request, Wanted};
use crate::watch::handler::HandlerBox;
use crate::{Error, Interest, Mode, Readiness, Result, Watcher};
use std::os::fd::RawFd;

impl Core {
    pub(crate) fn watch(&self, fd: RawFd, request: &Request, handler: HandlerBox) -> Result<Watcher> {
        self.check_open()?;
        self.renew_after_fork()?;
        if fd < 0 {
            return Err(Error::BadFd { fd });
        }
        if !request.internal && self.is_own_fd(fd) {
            return Err(Error::OwnFd { fd });
        }
        if request.interest.is_empty() {
            // Nothing is asked of the kernel, which would otherwise notice a closed number.
            rustix::io::fcntl_getfd(crate::sys::borrow(fd)).map_err(|_| Error::BadFd { fd })?;
            self.poller.borrow().check_mode(request.mode)?;
        }
        let (change, tokens) = self.fds.borrow().plan(fd, request);
        let (kernel, token) = self.apply(change, fd, tokens, request)?;
        self.remote_side.set_attention(true);
        let (watcher, replaced) =
            self.fds.borrow_mut().commit_watch(fd, token, request, kernel, handler, &self.current_call);
        drop(replaced);
        Ok(watcher)
    }

    pub(crate) fn modify(&self, watcher: Watcher, interest: Interest) -> Result<()> {
        self.check_open()?;
        self.renew_after_fork()?;
        let Some(mut request) = self.fds.borrow().request_of(watcher) else { return Err(Error::Gone) };
        if !request.accepts.contains(interest) {
            return Err(Error::NoCallback);
        }
        request.interest = interest;
        let (change, tokens) = self.fds.borrow().plan(watcher.raw_fd(), &request);
        let (kernel, token) = self.apply(change, watcher.raw_fd(), tokens, &request)?;
        self.remote_side.set_attention(true);
        self.fds.borrow_mut().commit_interest(watcher, token, &request, kernel);
        Ok(())
    }

    /// Tells the kernel. Says where the descriptor then stands, and with which token.
    fn apply(&self, change: Change, fd: RawFd, tokens: Tokens, request: &Request) -> Result<(Kernel, u64)> {
        let mut poller = self.poller.borrow_mut();
        let Tokens { same, fresh } = tokens;
        let (registration, token) = match change {
            Change::None => return Ok((self.fds.borrow().kernel_of(fd), same)),
            Change::Remove => {
                poller.remove(fd);
                return Ok((Kernel::Absent, fresh));
            }
            Change::Add => (poller.add(fd, fresh, request.interest, request.mode)?, fresh),
            Change::Modify => poller.modify(fd, tokens, request.interest, request.mode)?,
        };
        if registration == Registration::Always {
            self.remote_side.notify_embedder();
        }
        Ok((Kernel::Armed(registration), token))
    }

    pub(crate) fn unwatch(&self, watcher: Watcher) -> bool {
        let Some((handler, known_to_kernel)) = self.fds.borrow_mut().remove(watcher, &self.current_call)
        else {
            return false;
        };
        self.remote_side.set_attention(true);
        if known_to_kernel {
            self.leave_set(watcher.raw_fd());
        }
        // After the kernel has let go: dropping an owned source closes it.
        drop(handler);
        true
    }

    /// Whether the loop itself works by the descriptor: nobody else may change how it is watched.
    pub(crate) fn is_own_fd(&self, fd: RawFd) -> bool {
        self.remote_side.wake_fd.owns(fd)
            || self.poller.borrow().owns(fd)
            || self.fds.borrow().is_internal(fd)
    }

    pub(crate) fn interest_of(&self, watcher: Watcher) -> Option<Interest> {
        self.fds.borrow().request_of(watcher).map(|request| request.interest)
    }

    pub(crate) fn watcher_of(&self, fd: RawFd) -> Option<Watcher> {
        self.fds.borrow().watcher_of(fd)
    }

    pub(crate) fn label_of(&self, watcher: Watcher) -> Label {
        self.fds.borrow().label_of(watcher)
    }

    #[inline]
    pub(crate) fn is_watching(&self, watcher: Watcher) -> bool {
        self.fds.borrow().contains(watcher)
    }

    pub(crate) fn watcher_count(&self) -> usize {
        self.fds.borrow().len()
    }

    /// Finds whom an event is for.
    #[inline]
    pub(crate) fn begin_call(&self, token: u64, readiness: Readiness) -> Lookup {
        // SAFETY: nobody borrows the table mutably while this reference lives, because `begin`
        // calls nothing that could; that nobody has it borrowed already is checked, as a counted
        // borrow would check it.
        let fds = unsafe { self.fds.try_borrow_unguarded() };
        match fds {
            Ok(fds) => fds.begin(token, readiness, &self.current_call),
            Err(_) => unreachable!("the table is borrowed for single steps only"),
        }
    }

    /// The call has returned. Hands back a handler whose watch ended meanwhile.
    #[inline]
    pub(crate) fn end_call(&self) -> Option<HandlerBox> {
        self.current_call.end()
    }

    /// Takes a number out of the kernel's set. A forked child that has no set of its own yet leaves
    /// the parent's alone: its own will begin without the number.
    pub(crate) fn leave_set(&self, fd: RawFd) {
        if self.is_own() {
            self.poller.borrow_mut().remove(fd);
        }
    }

    /// Starts a new kernel set and enters everything that should be in it, so that no registration
    /// of the past can report any more (decision R1). If that cannot be done now, nothing is
    /// changed.
    pub(crate) fn rebuild(&self) -> Result<()> {
        if !self.is_own() {
            return self.renew_after_fork();
        }
        let mut poller = self.poller.borrow_mut();
        let mut wanted = self.fds.borrow().registrations();
        // A raw number that was closed behind our back is not what was watched, even if it is open
        // again.
        let mut gone: Vec<RawFd> = Vec::new();
        gone.extend(
            wanted.extract_if(.., |entry| !entry.certain && !poller.has(entry.fd)).map(|entry| entry.fd),
        );
        let (interest, mode) = (Interest::READ, Mode::Level);
        wanted.push(Wanted {
            fd: self.remote_side.wake_fd.raw_fd(),
            token: WAKE,
            interest,
            mode,
            certain: true,
        });
        gone.extend(poller.rebuild(&wanted)?);
        self.fds.borrow_mut().kernel_forgot();
        drop(poller);
        self.end_gone(gone);
        count(&self.counters.rebuilds, 1);
        Ok(())
    }

    /// Enters everything into a forked child's own set, which is empty.
    pub(super) fn fill_set(&self) -> Result<()> {
        let wanted = self.fds.borrow().registrations();
        let mut gone = Vec::new();
        let mut poller = self.poller.borrow_mut();
        poller.add(self.remote_side.wake_fd.raw_fd(), WAKE, Interest::READ, Mode::Level)?;
        for entry in wanted {
            match poller.add(entry.fd, entry.token, entry.interest, entry.mode) {
                Ok(_) => {}
                // All is tried again, rather than one be lost.
                Err(error) if is_shortage(&error) => return Err(error),
                Err(_) => gone.push(entry.fd),
            }
        }
        self.fds.borrow_mut().kernel_forgot();
        drop(poller);
        self.end_gone(gone);
        Ok(())
    }

    /// Ends the watches of numbers that are gone.
    fn end_gone(&self, gone: Vec<RawFd>) {
        let gone: Vec<Watcher> = gone.into_iter().filter_map(|fd| self.watcher_of(fd)).collect();
        for watcher in gone {
            self.unwatch(watcher);
        }
    }
}

/// Whether the system is out of something for the moment.
fn is_shortage(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    matches!(source.raw_os_error(), Some(libc::ENOSPC | libc::ENOMEM))
}
