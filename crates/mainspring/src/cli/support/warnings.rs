//! What is logged while a command works in the foreground: warnings, each a line on standard error
//! like its errors.

use std::fmt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Has warnings of this process written to standard error from now on.
pub(in crate::cli) fn show() {
    let builder = tracing_subscriber::fmt().with_max_level(Level::WARN).with_writer(std::io::stderr);
    // Refused only where somebody listens already, and then they are heard.
    let _ = builder.event_format(Line).try_init();
}

/// The form of a line.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("mainspring: warning: ")?;
        context.format_fields(writer.by_ref(), event)?;
        writer.write_char('\n')
    }
}
