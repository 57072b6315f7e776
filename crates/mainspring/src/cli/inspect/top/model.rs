//! What is shown: the latest answers of the daemon, which page is in front, what is selected, how
//! it is sorted.

use super::asker::{Sample, Told, Wanted};
use super::keys::Key;
use crate::cli::support::actor_health;
use ratatui::widgets::TableState;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

/// Moments that the charts show.
pub(super) const POINTS_MAX: usize = 240;
/// Messages of the stream that are kept.
const STREAM_MAX: usize = 2000;
/// Rows that a page key moves by.
const PAGE_ROWS: isize = 10;

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Capabilities,
    Stream,
    Traces,
    DeadLetters,
    Timers,
}

impl Tab {
    pub(super) const ALL: [Tab; 6] =
        [Tab::Overview, Tab::Capabilities, Tab::Stream, Tab::Traces, Tab::DeadLetters, Tab::Timers];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tab::Overview => "Overview",
            Tab::Capabilities => "Capabilities",
            Tab::Stream => "Stream",
            Tab::Traces => "Traces",
            Tab::DeadLetters => "Dead letters",
            Tab::Timers => "Timers",
        }
    }

    /// The columns that it can be sorted by, each with its key in a row; the first is how it is
    /// sorted at first.
    pub(super) fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Tab::Overview | Tab::Capabilities => &[
                ("sick first", ""),
                ("name", "capabilityId"),
                ("state", "state"),
                ("mailbox", "mailbox"),
                ("working", "inFlight"),
                ("overdue", "overdue"),
                ("handled", "handled"),
                ("p99", "latencyNs/p99"),
                ("faults", "faults"),
                ("memory", "memoryBytes"),
            ],
            Tab::Stream => &[("as it comes", "")],
            Tab::Traces => {
                &[("newest first", ""), ("type", "type"), ("took", "tookUs"), ("messages", "messages")]
            }
            Tab::DeadLetters => {
                &[("oldest first", ""), ("type", "type"), ("reason", "reason"), ("tries", "attempts")]
            }
            Tab::Timers => {
                &[("next first", "dueInMs"), ("name", "timerId"), ("type", "type"), ("whose", "peer")]
            }
        }
    }
}

/// One moment in the charts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) requests: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// How a page is shown.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) table: TableState,
    sort: usize,
    reversed: bool,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) tab: Tab,
    pub(super) views: [View; 6],
    pub(super) sample: Option<Sample>,
    earlier: Option<Sample>,
    pub(super) points: VecDeque<Point>,
    pub(super) stream: VecDeque<Value>,
    /// Whether new messages are kept out of sight.
    pub(super) paused: bool,
    pub(super) sees_everything: bool,
    pub(super) traces: Page,
    pub(super) dead_letters: Page,
    pub(super) timers: Page,
    /// What belongs to the selected row, while it is open.
    pub(super) detail: Option<Detail>,
    /// Words that a row must have; being typed while `is_typing`.
    pub(super) filter: String,
    pub(super) is_typing: bool,
}

/// A list that is asked for while it is in front.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) rows: Vec<Value>,
    pub(super) trouble: Option<String>,
}

/// The selected row in full.
#[derive(Debug)]
pub(super) struct Detail {
    pub(super) row: Value,
    /// What was asked for about it, and the answer once it is there.
    pub(super) asked: Wanted,
    pub(super) more: Option<Result<Value, String>>,
    pub(super) scroll: u16,
}

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then {
    Stay,
    Ask(Wanted),
    Quit,
}

impl Model {
    pub(super) fn new() -> Model {
        Model {
            tab: Tab::Overview,
            views: Default::default(),
            sample: None,
            earlier: None,
            points: VecDeque::new(),
            stream: VecDeque::new(),
            paused: false,
            sees_everything: false,
            traces: Page::default(),
            dead_letters: Page::default(),
            timers: Page::default(),
            detail: None,
            filter: String::new(),
            is_typing: false,
        }
    }

    /// Takes what the daemon said, unless it is the end.
    pub(super) fn take(&mut self, told: Told) -> Result<(), crate::cli::support::target::Failure> {
        match told {
            Told::Failed(failure) => return Err(failure),
            Told::Sample(sample) => self.take_sample(*sample),
            Told::Page(wanted, answer) => self.take_page(&wanted, answer),
        }
        Ok(())
    }

    fn take_sample(&mut self, mut sample: Sample) {
        join_floors(&mut sample);
        self.earlier = self.sample.replace(sample);
        let us = |name: &str| {
            let sample = self.sample.as_ref();
            sample.and_then(|sample| sample.stats["latencyNs"][name].as_f64()).unwrap_or(0.0) / 1000.0
        };
        let point = Point {
            requests: self.rate("requestsAccepted").unwrap_or(0.0),
            p50_us: us("p50"),
            p99_us: us("p99"),
        };
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    fn take_page(&mut self, wanted: &Wanted, answer: Result<Value, String>) {
        if let Some(detail) = self.detail.as_mut().filter(|detail| detail.asked == *wanted) {
            detail.more = Some(answer);
            return;
        }
        let (page, key) = match wanted {
            Wanted::Traces => (&mut self.traces, "nodes"),
            Wanted::DeadLetters => (&mut self.dead_letters, "letters"),
            Wanted::Timers => (&mut self.timers, "timers"),
            _ => return,
        };
        match answer {
            Ok(mut data) => {
                page.trouble = None;
                page.rows = data[key].as_array_mut().map(std::mem::take).unwrap_or_default();
            }
            Err(words) => page.trouble = Some(words),
        }
    }

    /// Takes what passed.
    pub(super) fn take_stream(&mut self, records: Vec<Value>) {
        if self.paused {
            return;
        }
        let is_at_end = self.is_at_end();
        self.stream.extend(records);
        let beyond = self.stream.len().saturating_sub(STREAM_MAX);
        self.stream.drain(..beyond);
        let last = self.rows(Tab::Stream).len().checked_sub(1);
        let table = &mut self.views[Tab::Stream as usize].table;
        // Whoever looks at the end goes on doing so; whoever looks at a message keeps it in sight.
        if is_at_end {
            table.select(last);
        } else if let Some(at) = table.selected() {
            table.select(Some(at.saturating_sub(beyond)));
        }
    }

    fn is_at_end(&self) -> bool {
        let selected = self.views[Tab::Stream as usize].table.selected();
        selected.is_none_or(|at| at + 1 >= self.rows(Tab::Stream).len())
    }

    /// How often something happens in a second, between the last two looks.
    pub(super) fn rate(&self, counter: &str) -> Option<f64> {
        let (earlier, now) = (self.earlier.as_ref()?, self.sample.as_ref()?);
        let seconds =
            now.at.saturating_duration_since(earlier.at).max(Duration::from_millis(1)).as_secs_f64();
        let count = |sample: &Sample| sample.stats["counters"][counter].as_u64().unwrap_or(0);
        Some(count(now).saturating_sub(count(earlier)) as f64 / seconds)
    }

    /// The rows of a page: those that the filter leaves, in their order.
    pub(super) fn rows(&self, tab: Tab) -> Vec<&Value> {
        let mut rows: Vec<&Value> = match tab {
            Tab::Overview | Tab::Capabilities => {
                let actors = self.sample.as_ref().and_then(|sample| sample.actors["actors"].as_array());
                actors.into_iter().flatten().collect()
            }
            Tab::Stream => self.stream.iter().collect(),
            Tab::Traces => self.traces.rows.iter().collect(),
            Tab::DeadLetters => self.dead_letters.rows.iter().collect(),
            Tab::Timers => self.timers.rows.iter().collect(),
        };
        if !self.filter.is_empty() {
            let wanted = self.filter.to_lowercase();
            rows.retain(|row| row.to_string().to_lowercase().contains(&wanted));
        }
        let view = &self.views[tab as usize];
        match self.column(tab) {
            ("sick first", _) => rows.sort_by_key(|row| !actor_health::is_sick(row)),
            (_, "") => {}
            (_, key) => {
                let path = format!("/{key}");
                rows.sort_by(|one, other| compare(one.pointer(&path), other.pointer(&path)));
                // Of numbers the largest are of interest, except where the next is.
                if key != "dueInMs" && rows.iter().any(|row| row.pointer(&path).is_some_and(Value::is_number))
                {
                    rows.reverse();
                }
            }
        }
        if view.reversed {
            rows.reverse();
        }
        rows
    }

    /// What a page is sorted by.
    pub(super) fn column(&self, tab: Tab) -> (&'static str, &'static str) {
        let columns = tab.columns();
        columns[self.views[tab as usize].sort % columns.len()]
    }

    pub(super) fn is_reversed(&self) -> bool {
        self.views[self.tab as usize].reversed
    }

    /// What the page in front needs.
    fn wanted(&self) -> Wanted {
        match self.tab {
            Tab::Overview | Tab::Capabilities | Tab::Stream => Wanted::Nothing,
            Tab::Traces => Wanted::Traces,
            Tab::DeadLetters => Wanted::DeadLetters,
            Tab::Timers => Wanted::Timers,
        }
    }

    pub(super) fn press(&mut self, key: Key) -> Then {
        if self.is_typing {
            return self.type_filter(key);
        }
        if let Some(detail) = &mut self.detail {
            return match key {
                Key::Up => scroll(detail, -1),
                Key::Down => scroll(detail, 1),
                Key::PageUp => scroll(detail, -PAGE_ROWS),
                Key::PageDown => scroll(detail, PAGE_ROWS),
                Key::Character('q') => Then::Quit,
                Key::Enter | Key::Escape | Key::Backspace => self.close_detail(),
                Key::NextTab | Key::PreviousTab | Key::Character('1'..='6') => {
                    self.detail = None;
                    self.press(key)
                }
                _ => Then::Stay,
            };
        }
        match key {
            Key::Character('q' | 'Q') => return Then::Quit,
            Key::Character(number @ '1'..='6') => return self.turn_to(number as usize - '1' as usize),
            Key::NextTab => return self.turn_to((self.tab as usize + 1) % Tab::ALL.len()),
            Key::PreviousTab => {
                return self.turn_to((self.tab as usize + Tab::ALL.len() - 1) % Tab::ALL.len());
            }
            Key::Up | Key::Character('k') => self.move_by(-1),
            Key::Down | Key::Character('j') => self.move_by(1),
            Key::PageUp => self.move_by(-PAGE_ROWS),
            Key::PageDown => self.move_by(PAGE_ROWS),
            Key::First | Key::Character('g') => self.move_by(isize::MIN),
            Key::Last | Key::Character('G') => self.move_by(isize::MAX),
            Key::Character('s') => self.views[self.tab as usize].sort += 1,
            Key::Character('r') => {
                let view = &mut self.views[self.tab as usize];
                view.reversed = !view.reversed;
            }
            Key::Character('/') => self.is_typing = true,
            Key::Character(' ') => self.paused = !self.paused,
            Key::Escape => self.filter.clear(),
            Key::Enter => return self.open_detail(),
            Key::Backspace | Key::Character(_) => {}
        }
        Then::Stay
    }

    fn type_filter(&mut self, key: Key) -> Then {
        match key {
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Character(character) if self.filter.len() < 100 => self.filter.push(character),
            _ => {}
        }
        Then::Stay
    }

    fn turn_to(&mut self, tab: usize) -> Then {
        self.tab = Tab::ALL[tab];
        Then::Ask(self.wanted())
    }

    /// Moves the selection, as far as there are rows.
    fn move_by(&mut self, rows: isize) {
        let Some(last) = self.rows(self.tab).len().checked_sub(1) else { return };
        let table = &mut self.views[self.tab as usize].table;
        let at = match table.selected() {
            Some(at) => at.min(last).saturating_add_signed(rows).min(last),
            None if rows < 0 => 0,
            None => usize::try_from(rows - 1).unwrap_or(0).min(last),
        };
        table.select(Some(at));
    }

    fn open_detail(&mut self) -> Then {
        let rows = self.rows(self.tab);
        let at = self.views[self.tab as usize].table.selected().unwrap_or(0);
        let Some(row) = rows.get(at).map(|row| (*row).clone()) else { return Then::Stay };
        let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let asked = match self.tab {
            Tab::Overview | Tab::Capabilities => Wanted::Logs(word("capabilityId")),
            Tab::Stream | Tab::Traces => Wanted::Trace(word("id")),
            Tab::DeadLetters => Wanted::DeadLetter(row["number"].as_u64().unwrap_or(0)),
            Tab::Timers => Wanted::Nothing,
        };
        self.detail = Some(Detail { row, asked: asked.clone(), more: None, scroll: 0 });
        Then::Ask(asked)
    }

    fn close_detail(&mut self) -> Then {
        self.detail = None;
        Then::Ask(self.wanted())
    }
}

fn scroll(detail: &mut Detail, rows: isize) -> Then {
    detail.scroll = detail.scroll.saturating_add_signed(i16::try_from(rows).unwrap_or(0));
    Then::Stay
}

/// Adds to each capability what the daemon knows of its program.
fn join_floors(sample: &mut Sample) {
    let Some(actors) = sample.actors["actors"].as_array_mut() else { return };
    for actor in actors {
        let id = actor["capabilityId"].as_str().unwrap_or_default();
        let floor = &sample.stats["floors"]["actors"][id];
        for key in ["memoryBytes", "cpuMs", "cpuUs", "pid", "kind", "keys"] {
            if actor.get(key).is_none() && !floor[key].is_null() {
                actor[key] = floor[key].clone();
            }
        }
        if let Some(us) = actor["cpuUs"].as_u64() {
            actor["cpuMs"] = (us / 1000).into();
        }
    }
}

/// Numbers by size, everything else as text; what is missing comes first.
fn compare(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            one.as_f64().unwrap_or(0.0).total_cmp(&other.as_f64().unwrap_or(0.0))
        }
        (one, other) => {
            let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
            text(one).cmp(&text(other))
        }
    }
}
