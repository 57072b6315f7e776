//! What capabilities write to standard error, in the log for people: the name first, in a colour of
//! its own, and then what it said, as docker compose does it. The log for machines has a field with
//! the name instead.

use crate::text::printable::OneLine;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use unicode_width::UnicodeWidthStr;

/// What such an event says that it is.
pub(crate) const TARGET: &str = "mainspring::capability";

/// The widest column of names; a longer name pushes its lines to the right.
const COLUMN_MAX: usize = 24;
/// Colours that can be read on black and on white, neighbours unlike each other.
const COLOURS: [u8; 10] = [36, 33, 32, 35, 34, 96, 93, 92, 95, 94];

/// Names in the order in which they came: it is what gives each its colour.
static NAMES: Mutex<Vec<Box<str>>> = Mutex::new(Vec::new());

/// Has room in the column for a name.
pub(crate) fn introduce(name: &str) {
    place(name);
}

/// The number of a name, and how wide the column is.
fn place(name: &str) -> (usize, usize) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = names.iter().position(|known| **known == *name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    });
    let width = names.iter().map(|name| name.width()).filter(|width| *width <= COLUMN_MAX).max();
    (at, width.unwrap_or(0))
}

/// The form of the log for people: lines of capabilities as above, and everything else as the one
/// within has it.
pub(crate) struct Human<F> {
    pub(crate) others: F,
    pub(crate) colours: bool,
}

impl<S, N, F> FormatEvent<S, N> for Human<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().target() != TARGET {
            return self.others.format_event(context, writer, event);
        }
        let mut said = Said::default();
        event.record(&mut said);
        write_line(&mut writer, &said, self.colours)
    }
}

fn write_line(writer: &mut impl fmt::Write, said: &Said, colours: bool) -> fmt::Result {
    let (at, width) = place(&said.capability);
    let room = " ".repeat(width.saturating_sub(said.capability.width()));
    let [begin, end] = match colours {
        true => [format!("\x1b[{}m", COLOURS[at % COLOURS.len()]), "\x1b[0m".to_owned()],
        false => [String::new(), String::new()],
    };
    write!(writer, "{begin}")?;
    write!(OneLine(writer), "{}{room} |", said.capability)?;
    write!(writer, "{end} ")?;
    write!(OneLine(writer), "{}", said.text)?;
    writeln!(writer)
}

/// The fields of such an event.
#[derive(Default)]
struct Said {
    capability: String,
    text: String,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "capability" {
            value.clone_into(&mut self.capability);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_name_first_in_a_column_and_a_colour_of_its_own() {
        introduce("short-name");
        introduce("a-much-longer-name");
        let line = |capability: &str, colours| {
            let mut text = String::new();
            let said = Said { capability: capability.into(), text: "it said\nthis".into() };
            write_line(&mut text, &said, colours).unwrap();
            text
        };
        assert_eq!(
            line("short-name", false),
            "short-name         | it said\u{fffd}this\n".replace('\u{fffd}', "\\n")
        );
        assert!(line("a-much-longer-name", false).starts_with("a-much-longer-name | it said"));
        let colour = |name| line(name, true).split('m').next().map(str::to_owned);
        assert_ne!(colour("short-name"), colour("a-much-longer-name"));
    }
}
