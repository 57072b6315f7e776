//! What can go wrong, its code, and the last error of each thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

/// Everything a call can be refused for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A pointer that must not be null is.
    #[error("the {what} is null")]
    Null {
        /// Which argument.
        what: &'static str,
    },
    /// Bits that mean nothing are set.
    #[error("the {what} has unknown bits: {bits:#x}")]
    UnknownBits {
        /// Which argument.
        what: &'static str,
        /// Those bits alone.
        bits: u32,
    },
    /// A number that stands for nothing.
    #[error("there is no {what} with the number {value}")]
    UnknownValue {
        /// Which argument.
        what: &'static str,
        /// The number that was given.
        value: c_int,
    },
    /// A number that must not be negative, or must be positive, is not.
    #[error("the {what} is too small: {value}")]
    TooSmall {
        /// Which argument.
        what: &'static str,
        /// The number that was given.
        value: i64,
    },
    /// A label that is not text.
    #[error("the label is not valid UTF-8")]
    BadLabel,
    /// The name leads to no loop.
    #[error("the reactor is null, has been destroyed or was never made")]
    BadReactor,
    /// The loop belongs to another thread.
    #[error("the reactor belongs to another thread: use ms_reactor_call, ms_reactor_wake or ms_reactor_stop")]
    WrongThread,
    /// A loop was polled or run from inside one of its own callbacks.
    #[error("the reactor is being polled or run already: return from the callback first")]
    Reentrant,
    /// The clock cannot be moved.
    #[error("the reactor's clock is real: create it with MS_REACTOR_VIRTUAL_CLOCK to move it")]
    RealClock,
    /// As many exist as may.
    #[error("{limit} {what} exist, which is the most that may")]
    LimitReached {
        /// How many that is.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// A panic was caught.
    #[error("the library failed: please report this")]
    Internal,
    /// The loop refused.
    #[error(transparent)]
    Reactor(#[from] reactor::Error),
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The name does not exist, or no longer.
    pub const GONE: Error = Error::Reactor(reactor::Error::Gone);

    /// Its place in [`CODES`].
    fn row(&self) -> &'static Code {
        use reactor::Error as R;
        let name = match self {
            Error::Null { .. }
            | Error::UnknownBits { .. }
            | Error::UnknownValue { .. }
            | Error::TooSmall { .. }
            | Error::BadLabel
            | Error::Reactor(R::OwnFd { .. }) => "INVALID",
            Error::BadReactor | Error::Reactor(R::Closed) => "BAD_REACTOR",
            Error::WrongThread => "WRONG_THREAD",
            Error::Reentrant => "REENTRANT",
            Error::Reactor(R::BadFd { .. }) => "BAD_FD",
            Error::RealClock | Error::Reactor(R::Unsupported { .. }) => "UNSUPPORTED",
            Error::Reactor(R::NoCallback) => "NO_CALLBACK",
            Error::Reactor(R::DeadlineOutOfRange) => "OUT_OF_RANGE",
            Error::Reactor(R::ZeroInterval) => "ZERO_INTERVAL",
            Error::Reactor(R::Gone) => "GONE",
            Error::Reactor(R::BadSignal { .. }) => "BAD_SIGNAL",
            Error::Reactor(R::SignalTaken { .. }) => "SIGNAL_TAKEN",
            Error::Reactor(R::InboxFull { .. }) => "INBOX_FULL",
            Error::Reactor(R::Io { .. }) => "SYSTEM",
            Error::LimitReached { .. } => "LIMIT",
            Error::Internal | Error::Reactor(_) => "INTERNAL",
        };
        CODES.iter().find(|code| code.name == name).unwrap_or(&CODES[0])
    }

    /// The code that C sees: see the header.
    pub fn code(&self) -> c_int {
        self.row().number
    }

    /// The system's own code, if it was the system that refused.
    pub fn errno(&self) -> c_int {
        match self {
            Error::Reactor(reactor::Error::Io { source, .. }) => source.raw_os_error().unwrap_or(0),
            _ => 0,
        }
    }
}

/// A line of the header's list of errors.
struct Code {
    number: c_int,
    name: &'static str,
    text: &'static CStr,
}

const fn code(number: c_int, name: &'static str, text: &'static CStr) -> Code {
    Code { number, name, text }
}

/// `enum ms_reactor_error`, the fallback first.
static CODES: [Code; 17] = [
    code(-15, "INTERNAL", c"the library failed"),
    code(0, "OK", c"success"),
    code(-1, "INVALID", c"invalid argument"),
    code(-2, "BAD_REACTOR", c"no such reactor"),
    code(-3, "WRONG_THREAD", c"the reactor belongs to another thread"),
    code(-4, "REENTRANT", c"the reactor is being polled or run already"),
    code(-5, "BAD_FD", c"the descriptor is not open"),
    code(-6, "UNSUPPORTED", c"not supported by this backend"),
    code(-7, "NO_CALLBACK", c"no callback for this interest"),
    code(-8, "OUT_OF_RANGE", c"the deadline is out of range"),
    code(-9, "ZERO_INTERVAL", c"the interval is zero"),
    code(-10, "GONE", c"no such watcher, timer or wake-up any more"),
    code(-11, "BAD_SIGNAL", c"the signal cannot be watched"),
    code(-12, "SIGNAL_TAKEN", c"another reactor has the signal"),
    code(-13, "INBOX_FULL", c"too many calls are waiting"),
    code(-14, "SYSTEM", c"the operating system refused"),
    code(-16, "LIMIT", c"as many exist as may"),
];

struct Last {
    code: c_int,
    errno: c_int,
    /// Absent before the first error.
    text: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { code: 0, errno: 0, text: None }) };
}

/// Remembers an error for this thread. Returns its code.
pub fn remember(error: &Error) -> c_int {
    let text = CString::new(error.to_string()).ok();
    let last = Last { code: error.code(), errno: error.errno(), text };
    // A thread on its way out has nobody left to ask.
    let _ = LAST.try_with(|slot| slot.replace(last));
    error.code()
}

/// What a code means.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_strerror(code: c_int) -> *const c_char {
    let row = CODES.iter().find(|row| row.number == code);
    row.map_or(c"unknown error", |row| row.text).as_ptr()
}

/// The code of this thread's last failed call.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_last_error() -> c_int {
    LAST.try_with(|last| last.borrow().code).unwrap_or(0)
}

/// The text of this thread's last failed call.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_last_error_text() -> *const c_char {
    // The buffer stays where it is until the next error replaces it.
    let text = LAST.try_with(|last| last.borrow().text.as_ref().map(|text| text.as_ptr()));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

/// The errno of this thread's last failed call.
#[unsafe(no_mangle)]
pub extern "C" fn ms_reactor_last_errno() -> c_int {
    LAST.try_with(|last| last.borrow().errno).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and numbers of the header's list.
    fn header_codes() -> Vec<(String, c_int)> {
        let header = include_str!("../include/mainspring_reactor.h");
        let list = header.split("enum ms_reactor_error {").nth(1).and_then(|rest| rest.split('}').next());
        let lines = list.expect("the list of errors").lines().filter_map(|line| line.split_once('='));
        let entry = |(name, rest): (&str, &str)| {
            let name = name.trim().trim_start_matches("MS_REACTOR_").trim_start_matches("ERROR_");
            let number = rest.split(['/', ',']).next().expect("a number").trim();
            (name.to_string(), number.parse().expect("a number"))
        };
        lines.map(entry).collect()
    }

    #[test]
    fn the_header_and_the_library_list_the_same_codes() {
        let mut ours: Vec<(String, c_int)> =
            CODES.iter().map(|code| (code.name.to_string(), code.number)).collect();
        let mut theirs = header_codes();
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn every_error_has_a_code_of_its_own_kind() {
        assert_eq!(Error::GONE.code(), -10);
        assert_eq!(Error::Reactor(reactor::Error::Closed).code(), -2);
        let source = std::io::Error::from_raw_os_error(24);
        let system = Error::Reactor(reactor::Error::Io { action: "test", source });
        assert_eq!((system.code(), system.errno()), (-14, 24));
    }

    #[test]
    fn the_last_error_is_kept_with_its_text() {
        assert_eq!(ms_reactor_last_error(), 0);
        assert_eq!(remember(&Error::Reentrant), -4);
        assert_eq!(ms_reactor_last_error(), -4);
        // SAFETY: the text lives until this thread's next error.
        let text = unsafe { CStr::from_ptr(ms_reactor_last_error_text()) };
        assert!(text.to_str().is_ok_and(|text| text.contains("polled or run already")));
    }
}
