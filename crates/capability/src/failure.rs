//! How a request ends that was not done.

use crate::ask::AskError;
use std::any::Any;
use std::fmt;

/// Whoever asked does not want the answer any more, or its time is over.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the request was given up by whoever asked")]
pub struct Stopped;

/// What a request ends with when it is not done: a code and words for whoever asked, or a fault
/// whose words are for the log alone.
///
/// Any error becomes a fault by `?`. One of a request to others ([`AskError`]) keeps its code.
#[derive(Debug)]
pub struct Failure {
    pub(crate) code: u16,
    pub(crate) message: String,
    /// What only the log is told.
    pub(crate) secret: Option<String>,
}

impl Failure {
    /// An error of one's own. A code beyond 400 to 599 becomes 500.
    pub fn new(code: u16, message: impl Into<String>) -> Failure {
        let code = if (400..600).contains(&code) { code } else { 500 };
        Failure { code, message: message.into(), secret: None }
    }

    /// A fault: code 500, and words that only the log is told.
    pub fn fault(words: impl fmt::Display) -> Failure {
        Failure { code: 500, message: String::new(), secret: Some(words.to_string()) }
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.code
    }

    /// All of its words, those that only the log is told among them.
    #[must_use]
    pub fn words(&self) -> &str {
        self.secret.as_deref().unwrap_or(&self.message)
    }

    /// The words for whoever asked; of a fault there are none.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        if let Some(asked) = (&error as &dyn Any).downcast_ref::<AskError>() {
            let code = asked.code().unwrap_or(503);
            return Failure::new(code, format!("asking {} failed: {asked}", asked.type_name));
        }
        if (&error as &dyn Any).is::<Stopped>() {
            return Failure::new(499, "the request was given up by whoever asked");
        }
        let mut words = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            words.push_str(": ");
            words.push_str(&cause.to_string());
            source = cause.source();
        }
        Failure::fault(words)
    }
}
