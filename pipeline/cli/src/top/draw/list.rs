//! Draws the list of runs.

use super::text::{cell, elapsed, first_visible, progress_parts, shown, symbol};
use super::theme::{Theme, bold, row_style};
use crate::top::model::RunLine;
use crate::top::state::TopState;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

/// Widths of the columns: marker, run, minimum of the workflow, status, elapsed, stages.
const MARKER: usize = 2;
const RUN: usize = 24;
const MIN_WORKFLOW: usize = 12;
const STATUS: usize = 14;
const ELAPSED: usize = 8;
const STAGES: usize = 9;
/// Width that stays for the progress if a shown run has any: step of total, bar, time left, rate.
const PROGRESS: usize = 40;

pub fn draw(state: &TopState, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let Some(runs) = &state.runs else {
        frame.render_widget(Line::from("reading the runs"), area);
        return;
    };
    if runs.is_empty() {
        frame.render_widget(Line::from("no runs yet; `trainyard run FILE` starts one"), area);
        return;
    }
    let height = usize::from(area.height).saturating_sub(1);
    let selected = state.run_position();
    let first = first_visible(selected, runs.len(), height);
    let visible = &runs[first.min(runs.len())..runs.len().min(first + height)];
    let width = usize::from(area.width);
    let widths = Widths { all: width, workflow: workflow_width(visible, width) };
    let mut lines = vec![header(widths)];
    let rows = visible.iter().enumerate();
    lines.extend(rows.map(|(at, line)| row(line, first + at == selected, theme, widths)));
    frame.render_widget(ratatui::text::Text::from(lines), area);
}

/// Widths that depend on the terminal and the shown runs.
#[derive(Clone, Copy)]
struct Widths {
    /// Width of a line.
    all: usize,
    /// Width of the column of workflows.
    workflow: usize,
}

/// Returns the width of the column of workflows: that of the longest name, if the line has room for it.
fn workflow_width(visible: &[RunLine], width: usize) -> usize {
    let names = visible.iter().map(|line| Span::raw(shown(&line.workflow)).width() + 1);
    let has_progress = visible.iter().any(|line| line.progress.is_some() || line.why.is_some());
    let others = MARKER + RUN + STATUS + ELAPSED + STAGES + if has_progress { PROGRESS } else { 0 };
    let free = width.saturating_sub(others).max(MIN_WORKFLOW);
    names.max().unwrap_or(0).clamp(MIN_WORKFLOW, free)
}

fn header(widths: Widths) -> Line<'static> {
    let text = format!(
        "{}{}{}{}{}{}progress",
        cell("", MARKER),
        cell("run", RUN),
        cell("workflow", widths.workflow),
        cell("status", STATUS),
        cell("elapsed", ELAPSED),
        cell("stages", STAGES)
    );
    Line::styled(text, bold())
}

fn row(line: &RunLine, is_selected: bool, theme: Theme, widths: Widths) -> Line<'static> {
    let marker = if is_selected { "> " } else { "  " };
    // One column of each cell separates it from the next.
    let column = |text: &str, width: usize| format!("{} ", cell(&shown(text), width - 1));
    let stages = if line.total > 0 { format!("{}/{}", line.done, line.total) } else { String::new() };
    let left = widths.all.saturating_sub(MARKER + RUN + widths.workflow + STATUS + ELAPSED + STAGES);
    let rest = match (&line.progress, &line.why) {
        (Some(progress), _) => progress_parts(progress, left),
        (None, Some(why)) => shown(why).into_owned(),
        (None, None) => String::new(),
    };
    let spans = vec![
        Span::raw(format!("{marker}{}{}", column(&line.run.0, RUN), column(&line.workflow, widths.workflow))),
        Span::styled(column(&format!("{} {}", symbol(line.status), line.status), STATUS), theme.status(line.status)),
        Span::raw(format!("{}{}{rest}", column(&elapsed(line.elapsed), ELAPSED), column(&stages, STAGES))),
    ];
    Line::from(spans).style(row_style(is_selected))
}
