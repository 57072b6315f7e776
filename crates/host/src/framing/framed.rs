//! A handle that is asked in frames and answers in frames.

use crate::capabilities::Opened;
use crate::framing::requests::{Inbox, Input};
use crate::framing::responses::{RESPONSE_BYTES_DEFAULT, RESPONSES_BYTES_MAX, Responses};
use crate::guest::context::GuestContext;
use crate::handles::resource::{Resource, Watchable};
use crate::readiness::signal::Signal;
use mainspring_zcl::abi::{ErrorCode, handle_flags};
use mainspring_zcl::{Frame, Header};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// What a service answers to a request: a payload, or what went wrong in a few words.
pub type Reply = Result<Vec<u8>, Cow<'static, str>>;

/// The requests that a guest can write to a [`Framed`] handle, and what becomes of them.
///
/// Nothing here may block: what takes time is started, and [sent](Responses::send) when it is
/// there.
pub trait Service: Sized + 'static {
    /// Who errors are from, such as `sys.info`.
    const TRACE: &'static str;
    /// The longest payload of a request. A longer one is refused.
    const REQUEST_BYTES_MAX: usize;
    /// The longest payload of a reply: so much room there is before a request is taken. At most
    /// 32 KiB; a longer reply becomes an error.
    const REPLY_BYTES_MAX: usize = RESPONSE_BYTES_DEFAULT - mainspring_zcl::HEADER_BYTES;

    /// Refuses a request by its header, before its payload is there: an unknown operation, a size
    /// that cannot be right.
    ///
    /// # Errors
    /// What the guest is told.
    fn check(header: &Header) -> Result<(), &'static str>;

    /// Carries a request out.
    ///
    /// # Errors
    /// What the guest is told, up to 128 bytes of it.
    fn call(&self, guest: &GuestContext, request: &Frame<'_>) -> Reply;

    /// The guest has read everything that was there. A service that had to leave something unsaid,
    /// because there was no room, says it now.
    fn drained(&self, guest: &GuestContext) {
        let _ = guest;
    }

    /// The handle is closed, or the guest has ended.
    fn close(&self, guest: &GuestContext) {
        let _ = guest;
    }
}

/// A handle that is asked in ZCL1 frames and answers in ZCL1 frames.
///
/// It is readable while there are answers to be read, and writable unless the guest has left so
/// many of them that there is no room for another.
pub struct Framed<S: Service> {
    service: S,
    requests: RefCell<Inbox>,
    responses: Rc<Responses>,
}

impl<S: Service> Framed<S> {
    /// Opens a handle of the service that `service` makes. What is given to it is for services that
    /// have something to say unasked.
    pub fn open(guest: &Rc<GuestContext>, service: impl FnOnce(&Rc<Responses>) -> S) -> Opened {
        const {
            assert!(S::REPLY_BYTES_MAX <= RESPONSES_BYTES_MAX / 2, "a reply has at most 32 KiB");
            assert!(S::TRACE.len() <= 32, "a trace is a short name");
        }
        let responses = Responses::new(guest);
        let requests = RefCell::new(Inbox::new(S::REQUEST_BYTES_MAX, S::check));
        Opened::new(Rc::new(Framed { service: service(&responses), requests, responses }))
    }

    fn answer(&self, guest: &GuestContext, request: &Frame<'_>) {
        let (op, rid) = (request.op, request.rid);
        match self.service.call(guest, request) {
            Ok(payload) if payload.len() <= S::REPLY_BYTES_MAX => {
                self.responses.push_ok(guest, op, rid, &payload);
            }
            Ok(_) => self.responses.push_error(guest, op, rid, S::TRACE, "the reply is too long"),
            Err(message) => self.responses.push_error(guest, op, rid, S::TRACE, &message),
        }
    }
}

/// The room that there has to be before a request is taken.
const fn response_bytes<S: Service>() -> usize {
    let reply = mainspring_zcl::HEADER_BYTES + S::REPLY_BYTES_MAX;
    if reply > RESPONSE_BYTES_DEFAULT { reply } else { RESPONSE_BYTES_DEFAULT }
}

impl<S: Service> Resource for Framed<S> {
    fn flags(&self) -> u32 {
        handle_flags::READABLE | handle_flags::WRITABLE | handle_flags::ENDABLE
    }

    fn read(&self, guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        let outcome = self.responses.read(guest, buffer);
        if outcome.is_ok() && self.responses.is_empty() {
            self.service.drained(guest);
        }
        outcome
    }

    fn write(&self, guest: &GuestContext, bytes: &[u8]) -> Result<usize, ErrorCode> {
        let mut requests = self.requests.borrow_mut();
        let mut taken = 0;
        while taken < bytes.len() {
            let refused = |code| if taken > 0 { Ok(taken) } else { Err(code) };
            if let Err(code) = self.responses.check_room(guest, response_bytes::<S>()) {
                return refused(code);
            }
            let (count, input) = requests.take(guest, &bytes[taken..]);
            match input {
                Input::Incomplete => {}
                Input::NoRoom => return refused(ErrorCode::OutOfMemory),
                Input::Malformed { op, rid, message } => {
                    self.responses.push_error(guest, op, rid, S::TRACE, message);
                }
                Input::Request(request) => self.answer(guest, &request),
            }
            taken += count;
        }
        Ok(taken)
    }

    fn close(&self, guest: &GuestContext) {
        self.service.close(guest);
        self.requests.borrow_mut().close(guest);
        self.responses.close(guest);
    }

    fn watchable(&self) -> Option<&dyn Watchable> {
        Some(self)
    }
}

impl<S: Service> Watchable for Framed<S> {
    fn signal(&self) -> &Rc<Signal> {
        self.responses.signal()
    }
}

impl<S: Service + fmt::Debug> fmt::Debug for Framed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Framed").field("service", &self.service).finish_non_exhaustive()
    }
}
