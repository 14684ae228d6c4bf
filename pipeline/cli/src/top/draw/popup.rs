//! Draws windows over a screen: help, the explanation of a stage, and the question before a cancellation.

use super::log::wrapped;
use super::text::shown;
use crate::top::state::{Popup, TopState};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear};

/// Keys and symbols.
const HELP: &str = "up/down, j/k  move; Page Up/Down, g, G as well
Enter  open the run; expand a fan-out
Space  expand or collapse a fan-out
e  explain the selected stage
l  log of the selected stage
m  next curve
/  show only stages whose key contains a text
c  cancel the run, after a question
Esc  back
q, Ctrl-C  quit
symbols: > running, ~ waits, @ retries, ^ publishes,
  ✓ done, = from the cache, - skipped, ✗ failed,
  # blocked, x cancelled, ! interrupted, . pending";

/// Columns and rows of a window that are not its text.
const FRAME: u16 = 2;

pub fn draw(state: &TopState, frame: &mut Frame<'_>, area: Rect) {
    let Some(popup) = state.popup else { return };
    let inner = usize::from(area.width.min(72).saturating_sub(FRAME));
    let (title, lines, by) = match popup {
        Popup::Help => (" keys ".to_string(), lines_of(HELP, inner), 0),
        Popup::Cancel => {
            let run = state.open.as_ref().map_or("", |open| open.run.0.as_str());
            (" cancel ".to_string(), lines_of(&format!("cancel run {run}? y/n"), inner), 0)
        }
        Popup::Explain(by) => {
            let detail = state.open.as_ref().and_then(|open| open.model.as_ref()).and_then(|m| m.detail.as_ref());
            let title = detail.map_or(String::new(), |detail| format!(" {} ", shown(&detail.stage.key().0)));
            let text = detail.map_or("reading the stage".to_string(), |detail| detail.explanation.join("\n"));
            (title, lines_of(&text, inner), by)
        }
    };
    let height = (lines.len() as u16).saturating_add(FRAME).min(area.height);
    let by = by.min(lines.len().saturating_sub(usize::from(height.saturating_sub(FRAME))));
    let window = centered(area, inner as u16 + FRAME, height);
    let block = Block::bordered().title(title);
    let text = block.inner(window);
    frame.render_widget(Clear, window);
    frame.render_widget(block, window);
    frame.render_widget(Text::from(lines.into_iter().skip(by).map(Line::from).collect::<Vec<_>>()), text);
}

fn lines_of(text: &str, width: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrapped(line, width)).collect()
}

fn centered(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
    Rect { x, y, width, height }
}
