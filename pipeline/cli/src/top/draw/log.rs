//! Draws the log of the selected stage on the full screen.

use super::text::{cell, shown};
use super::theme::bold;
use crate::output::width::wrap;
use crate::top::model::RunModel;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};

/// Draws the log without its last `by` lines.
pub fn draw(model: &RunModel, by: usize, frame: &mut Frame<'_>, area: Rect) {
    let Some(detail) = &model.detail else {
        frame.render_widget(Line::from("reading the log"), area);
        return;
    };
    let state = if by == 0 { "follows".to_string() } else { format!("{by} lines below") };
    let title = format!("log of {}: {} lines, {state}", shown(&detail.stage.key().0), detail.log.len());
    let (width, height) = (usize::from(area.width), usize::from(area.height).saturating_sub(1));
    // The first screen stays full when the log is scrolled to its start.
    let end = detail.log.len().saturating_sub(by).max(height.min(detail.log.len()));
    let mut lines = vec![Line::styled(cell(&title, width), bold())];
    lines.extend(last_lines(&detail.log[..end], width, height).into_iter().map(Line::from));
    frame.render_widget(Text::from(lines), area);
}

/// Wraps the last lines of a log, and returns those that fit the height.
pub fn last_lines(log: &[String], width: usize, height: usize) -> Vec<String> {
    let start = log.len().saturating_sub(height);
    let wrapped = log[start..].iter().flat_map(|line| wrapped(line, width));
    let all: Vec<String> = wrapped.collect();
    let skipped = all.len().saturating_sub(height);
    all.into_iter().skip(skipped).collect()
}

/// Cleans a line, and wraps it to a width.
pub fn wrapped(line: &str, width: usize) -> Vec<String> {
    match shown(line) {
        line if line.is_empty() => vec![String::new()],
        line => wrap(&line, width.max(1)).lines().map(str::to_string).collect(),
    }
}
