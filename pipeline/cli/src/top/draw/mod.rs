//! Draws the screens of `trainyard top`. Only rows that are visible are formatted.

mod detail;
mod list;
mod log;
mod popup;
mod stages;
#[cfg(test)]
mod tests;
mod text;
mod theme;

pub use theme::Theme;

use super::model::RunLine;
use super::state::{OpenRun, TopState};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use text::{elapsed, shown, symbol};
use theme::bold;

/// Minimum width at which the selected stage is shown next to the list of stages.
const MIN_SPLIT: u16 = 64;

/// Draws the present screen.
pub fn draw(state: &TopState, theme: Theme, frame: &mut Frame<'_>) {
    let bars = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1), Constraint::Length(1)];
    let [header, body, status, keys] = Layout::vertical(bars).areas(frame.area());
    frame.render_widget(header_line(state, theme), header);
    match &state.open {
        None => list::draw(state, theme, frame, body),
        Some(open) => draw_run(open, theme, frame, body),
    }
    frame.render_widget(status_line(state, theme), status);
    frame.render_widget(Line::from(key_hints(state)), keys);
    popup::draw(state, frame, body);
}

fn draw_run(open: &OpenRun, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let Some(model) = &open.model else {
        frame.render_widget(Line::from("reading the run"), area);
        return;
    };
    if let Some(by) = open.log_scroll {
        log::draw(model, by, frame, area);
    } else if area.width < MIN_SPLIT {
        stages::draw(open, model, theme, frame, area);
    } else {
        let panes = [Constraint::Percentage(56), Constraint::Length(1), Constraint::Min(0)];
        let [left, _, right] = Layout::horizontal(panes).areas(area);
        stages::draw(open, model, theme, frame, left);
        detail::draw(open, model, theme, frame, right);
    }
}

fn header_line(state: &TopState, theme: Theme) -> Line<'static> {
    let Some(open) = &state.open else {
        let count = state.runs.as_ref().map_or(0, Vec::len);
        let live = state.runs.iter().flatten().filter(|line| line.is_live()).count();
        return Line::from(vec![
            Span::styled("trainyard top", bold()),
            Span::raw(format!("  {count} runs, {live} live")),
        ]);
    };
    let title = Span::styled(format!("run {}", shown(&open.run.0)), bold());
    match &open.model {
        None => Line::from(title),
        Some(model) => {
            let RunLine { workflow, status, done, total, .. } = &model.line;
            let word = Span::styled(format!("{} {status}", symbol(status)), theme.status(status));
            let rest = format!("  {}  {done}/{total} stages", elapsed(model.line.elapsed));
            Line::from(vec![title, Span::raw(format!(" of {}: ", shown(workflow))), word, Span::raw(rest)])
        }
    }
}

fn status_line(state: &TopState, theme: Theme) -> Line<'static> {
    let removed = state.open.as_ref().and_then(|open| open.model.as_ref()).filter(|model| model.is_removed);
    if let Some(failure) = &state.failure {
        return Line::styled(shown(failure).into_owned(), theme.failure());
    }
    if let Some(note) = &state.note {
        return Line::from(shown(note).into_owned());
    }
    if removed.is_some() {
        return Line::styled("this run was removed from the store; the last data is shown", theme.failure());
    }
    match &state.open {
        Some(open) if open.is_filtering => Line::from(format!("filter: {}_", shown(&open.filter))),
        Some(open) if !open.filter.is_empty() => Line::from(format!("filter: {} (Esc clears it)", shown(&open.filter))),
        _ => Line::default(),
    }
}

/// Names the most important keys of the present screen.
fn key_hints(state: &TopState) -> &'static str {
    match &state.open {
        None => "j/k move  Enter open  ? help  q quit",
        Some(open) if open.is_filtering => "Enter keep  Esc clear",
        Some(open) if open.log_scroll.is_some() => "j/k scroll  G follow  Esc back  q quit",
        Some(_) => "Space expand  e explain  l logs  m curve  / filter  c cancel  ? help  q quit",
    }
}
