//! `[log]`: what is logged, and how.

use crate::settings::{Section, Settings};
use mainspring_kernel::{keys, words};

keys! {
    /// What is logged, and how.
    pub struct LogSettings {
        /// The least important level that is written.
        level: LogLevel = LogLevel::Info;
        /// For people or for machines.
        format: LogFormat = LogFormat::Human;
    }
}

words! {
    /// How much a log line matters, most important first.
    pub enum LogLevel {
        /// A person should look.
        Error = "error",
        /// Something is wrong, and is being dealt with.
        Warn = "warn",
        /// Worth knowing.
        Info = "info",
        /// For finding faults.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

words! {
    /// The form of log lines.
    pub enum LogFormat {
        /// A line that reads well.
        Human = "human",
        /// A JSON object a line.
        Json = "json",
    }
}

impl Section for LogSettings {
    const NAME: &'static str = "log";

    fn of(settings: &mut Settings) -> &mut LogSettings {
        &mut settings.log
    }
}
