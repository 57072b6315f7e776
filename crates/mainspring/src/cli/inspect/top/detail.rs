//! One row in full, with what the daemon says about it.

use super::asker::Wanted;
use super::model::Detail;
use crate::cli::support::trace_tree::tree;
use crate::cli::support::{local_time, text};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::{Block, Paragraph, Wrap};
use serde_json::Value;

pub(super) fn draw(frame: &mut Frame<'_>, detail: &mut Detail, area: Rect) {
    let words = words(detail);
    // No further than the last line.
    let lines = u16::try_from(words.lines().count()).unwrap_or(u16::MAX);
    detail.scroll = detail.scroll.min(lines.saturating_sub(1));
    let title = format!(" {} ", heading(&detail.row));
    let block = Block::bordered().border_style(Style::new().fg(Color::DarkGray)).title(title);
    let page = Paragraph::new(words).block(block).wrap(Wrap { trim: false }).scroll((detail.scroll, 0));
    frame.render_widget(page, area);
}

fn heading(row: &Value) -> String {
    let named = ["capabilityId", "timerId", "type"].into_iter().find_map(|key| row[key].as_str());
    text::visible(named.unwrap_or_default()).into_owned()
}

fn words(detail: &Detail) -> String {
    let row = text::pretty(&detail.row.to_string());
    match (&detail.asked, &detail.more) {
        (Wanted::Nothing, _) => row,
        (_, None) => format!("{row}\n\nasking the daemon..."),
        (_, Some(Err(trouble))) => format!("{row}\n\n{}", text::visible(trouble)),
        (Wanted::Trace(_), Some(Ok(data))) => format!("{}\n{row}", tree(data)),
        (Wanted::Logs(_), Some(Ok(data))) => format!("{row}\n\n{}", log(data)),
        (_, Some(Ok(data))) => text::pretty(&data.to_string()),
    }
}

/// The last lines of a capability.
fn log(data: &Value) -> String {
    let lines = data["lines"].as_array().into_iter().flatten();
    let lines: Vec<String> = lines
        .map(|line| {
            let time = local_time::clock(line["at"].as_u64().unwrap_or(0));
            format!("{time}  {}", text::visible(line["text"].as_str().unwrap_or_default()))
        })
        .collect();
    if lines.is_empty() { "nothing on standard error".into() } else { lines.join("\n") }
}
