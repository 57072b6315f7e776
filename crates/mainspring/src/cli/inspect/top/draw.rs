//! What a screen looks like. Nothing here changes what is shown, and every size of screen will do.

use super::model::{Model, POINTS_MAX, Page, Tab};
use super::{columns, detail};
use crate::cli::support::text;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Scrollbar, ScrollbarOrientation, ScrollbarState,
    Table, Wrap,
};
use serde_json::Value;

const DIM: Style = Style::new().fg(Color::DarkGray);
const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// The least height at which the charts are worth their room.
const CHART_ROWS_MIN: u16 = 20;

pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let [top, tabs, body, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(title(model)), top);
    frame.render_widget(Paragraph::new(tab_line(model, tabs.width)), tabs);
    frame.render_widget(Paragraph::new(help(model)).style(DIM), bottom);
    if let Some(open) = &mut model.detail {
        return detail::draw(frame, open, body);
    }
    match model.tab {
        Tab::Overview => overview(frame, model, body),
        _ => list(frame, model, body),
    }
}

fn title(model: &Model) -> Line<'_> {
    let Some(sample) = &model.sample else { return Line::from("mainspring: waiting for the daemon") };
    let (daemon, gauges) = (&sample.stats["floors"]["daemon"], &sample.stats["gauges"]);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let words = format!(
        " {}  up {}  process {}  {}",
        daemon["version"].as_str().unwrap_or_default(),
        text::span(number(&daemon["uptimeMs"])),
        daemon["pid"],
        text::count(number(&gauges["connections"]), "connection", "connections"),
    );
    Line::from(vec![Span::styled("mainspring", HEADING), Span::raw(words)])
}

/// The pages, by number and name; by number alone where there is no room.
fn tab_line(model: &Model, width: u16) -> Line<'static> {
    let full: usize = Tab::ALL.iter().map(|tab| tab.name().len() + 4).sum();
    let spans = Tab::ALL.iter().enumerate().map(|(at, tab)| {
        let style = if *tab == model.tab { SELECTED } else { Style::new() };
        let is_short = full > usize::from(width) && *tab != model.tab;
        let words = if is_short { format!(" {} ", at + 1) } else { format!(" {} {} ", at + 1, tab.name()) };
        Span::styled(words, style)
    });
    Line::from(spans.collect::<Vec<_>>())
}

fn help(model: &Model) -> String {
    if model.is_typing {
        return format!("only rows with: {}_   (Enter keeps it, Esc drops it)", model.filter);
    }
    if model.detail.is_some() {
        return "Esc back   up/down scroll   q quit".into();
    }
    let reversed = if model.is_reversed() { ", reversed" } else { "" };
    let mut words = "q quit  Tab page  Enter detail".to_owned();
    words += &match model.tab {
        // It comes as it comes.
        Tab::Stream if model.paused => "  space go on".to_owned(),
        Tab::Stream => "  space pause".to_owned(),
        tab => format!("  s sort: {}{reversed}  r reverse", model.column(tab).0),
    };
    match model.filter.is_empty() {
        true => words += "  / filter",
        false => words += &format!("  / filter: {} (Esc drops it)", model.filter),
    }
    words
}

fn overview(frame: &mut Frame<'_>, model: &mut Model, area: Rect) {
    let charts = if area.height + 3 >= CHART_ROWS_MIN { (area.height / 3).clamp(7, 16) } else { 0 };
    let [numbers_area, chart_area, list_area] =
        Layout::vertical([Constraint::Length(4), Constraint::Length(charts), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(numbers(model)).wrap(Wrap { trim: true }), numbers_area);
    if charts > 0 {
        let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(chart_area);
        let rate: Vec<f64> = model.points.iter().map(|point| point.requests).collect();
        chart(frame, "requests/s", &[("", Color::Cyan, rate)], |value| format!("{value:.0}"), left);
        let p50: Vec<f64> = model.points.iter().map(|point| point.p50_us).collect();
        let p99: Vec<f64> = model.points.iter().map(|point| point.p99_us).collect();
        let series = [("p99", Color::Red, p99), ("p50", Color::Green, p50)];
        chart(frame, "latency", &series, |us| text::nanoseconds((us * 1000.0) as u64), right);
    }
    list(frame, model, list_area);
}

/// The numbers of the daemon, in lines.
fn numbers(model: &Model) -> Vec<Line<'static>> {
    let rate = |name: &str| model.rate(name).map_or("-".into(), |rate| format!("{rate:.0}"));
    let Some(sample) = &model.sample else { return Vec::new() };
    let gauge = |name: &str| sample.stats["gauges"][name].as_u64().unwrap_or(0).to_string();
    let floors = &sample.stats["floors"];
    let loop_words = match floors["loop"]["busy"].as_f64() {
        Some(busy) => {
            let lag = text::nanoseconds(floors["loop"]["lagNs"]["max"].as_u64().unwrap_or(0));
            format!("{:.1}% busy, latest timer {lag} late", busy * 100.0)
        }
        None => "-".into(),
    };
    let mib = floors["daemon"]["memoryBytes"].as_u64().unwrap_or(0) >> 20;
    let rows = [
        (
            "rates",
            vec![
                ("requests/s", rate("requestsAccepted")),
                ("errors/s", rate("requestsFailed")),
                ("refused/s", rate("refused")),
                ("events/s", rate("eventsAccepted")),
            ],
        ),
        (
            "waiting",
            vec![
                ("user lane", gauge("userLane")),
                ("mailboxes", gauge("mailboxes")),
                ("working", gauge("inFlight")),
                ("overdue", gauge("overdue")),
            ],
        ),
        (
            "kept",
            vec![
                ("timers", gauge("schedules")),
                ("dead letters", gauge("deadLetters")),
                ("memory", format!("{mib} MiB")),
            ],
        ),
        ("loop", vec![("", loop_words)]),
    ];
    let line = |(name, cells): (&'static str, Vec<(&'static str, String)>)| {
        let mut spans = vec![Span::styled(format!("{name:<9}"), HEADING)];
        for (label, value) in cells {
            let label = if label.is_empty() { String::new() } else { format!("{label} ") };
            spans.extend([Span::styled(label, DIM), Span::raw(format!("{value}   "))]);
        }
        Line::from(spans)
    };
    rows.into_iter().map(line).collect()
}

/// Lines over the last moments; the scale begins at 0.
fn chart(
    frame: &mut Frame<'_>,
    name: &str,
    series: &[(&str, Color, Vec<f64>)],
    shown: impl Fn(f64) -> String,
    area: Rect,
) {
    let most = series.iter().flat_map(|(_, _, values)| values).fold(0.0_f64, |most, value| most.max(*value));
    let points: Vec<Vec<(f64, f64)>> = series
        .iter()
        .map(|(_, _, values)| {
            let skipped = POINTS_MAX - values.len().min(POINTS_MAX);
            values.iter().enumerate().map(|(at, value)| ((skipped + at) as f64, *value)).collect()
        })
        .collect();
    let datasets = series.iter().zip(&points).map(|((name, colour, _), points)| {
        Dataset::default()
            .name((*name).to_owned())
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(*colour))
            .data(points)
    });
    let now: Vec<String> = series
        .iter()
        .filter_map(|(name, _, values)| Some(format!("{name} {}", shown(*values.last()?)).trim().to_owned()))
        .collect();
    let ceiling = if most > 0.0 { most } else { 1.0 };
    let labels =
        if most > 0.0 { vec!["0".to_owned(), shown(most)] } else { vec!["0".to_owned(), String::new()] };
    let chart = Chart::new(datasets.collect())
        .block(Block::bordered().border_style(DIM).title(format!(" {name}  {} ", now.join("  "))))
        .legend_position(None)
        .x_axis(Axis::default().bounds([0.0, (POINTS_MAX - 1) as f64]))
        .y_axis(Axis::default().bounds([0.0, ceiling]).labels(labels).labels_alignment(Alignment::Right));
    frame.render_widget(chart, area);
}

/// The rows of the page in front.
fn list(frame: &mut Frame<'_>, model: &mut Model, area: Rect) {
    let tab = model.tab;
    if let Some(words) = trouble(model) {
        return frame.render_widget(Paragraph::new(words).style(DIM).wrap(Wrap { trim: true }), area);
    }
    let columns = columns::of(tab, area.width);
    let rows: Vec<Row<'static>> = model
        .rows(tab)
        .into_iter()
        .map(|row| {
            let cells = columns.iter().map(|column| (column.cell)(row).into_owned());
            Row::new(cells.collect::<Vec<_>>()).style(columns::style(tab, row))
        })
        .collect();
    let count = rows.len();
    let heading = Row::new(columns.iter().map(|column| column.title)).style(HEADING);
    let table = Table::new(rows, columns.iter().map(|column| column.width))
        .header(heading)
        .row_highlight_style(SELECTED)
        .column_spacing(1);
    let table_state = &mut model.views[tab as usize].table;
    if table_state.selected().is_some_and(|at| at >= count) {
        table_state.select(count.checked_sub(1));
    }
    frame.render_stateful_widget(table, area, table_state);
    // The heading takes a row.
    if count + 1 > usize::from(area.height) {
        let mut position =
            ScrollbarState::new(count).position(table_state.selected().unwrap_or(table_state.offset()));
        let bar = Scrollbar::new(ScrollbarOrientation::VerticalRight).begin_symbol(None).end_symbol(None);
        frame.render_stateful_widget(bar, area, &mut position);
    }
}

/// Why the page in front has no rows.
fn trouble(model: &Model) -> Option<String> {
    let of_page = |page: &Page, nothing: &str| {
        page.trouble.clone().or_else(|| page.rows.is_empty().then(|| nothing.to_owned()))
    };
    let found = match model.tab {
        Tab::Overview | Tab::Capabilities => None,
        Tab::Stream if model.stream.is_empty() => Some(match model.sees_everything {
            true => "nothing has passed yet".to_owned(),
            false => "no event has passed yet (commands and queries are shown to operators)".to_owned(),
        }),
        Tab::Stream => None,
        Tab::Traces => of_page(&model.traces, "no message is remembered"),
        Tab::DeadLetters => of_page(&model.dead_letters, "no dead letters"),
        Tab::Timers => of_page(&model.timers, "no timers"),
    };
    found.or_else(|| {
        let is_filtered = !model.filter.is_empty() && model.rows(model.tab).is_empty();
        is_filtered.then(|| format!("no row has {:?}", model.filter))
    })
}
