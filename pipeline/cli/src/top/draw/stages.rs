//! Draws the stages of a run as an indented list in layers.

use super::text::{bar, cell, elapsed, first_visible, progress_parts, shown, symbol, with_metric, with_parts};
use super::theme::{Theme, row_style};
use crate::top::model::RunModel;
use crate::top::state::OpenRun;
use crate::top::tree::{self, RowKind, TreeRow};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span, Text};

/// Columns of a status: symbol, space, word, space.
const STATUS: usize = 14;
/// Maximum columns of an indentation; deeper layers are not indented further.
const MAX_INDENT: usize = 12;

pub fn draw(open: &OpenRun, model: &RunModel, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let rows = open.rows();
    if rows.is_empty() {
        let text = if open.filter.is_empty() { "the run has no stages yet" } else { "no stage matches the filter" };
        frame.render_widget(Line::from(text), area);
        return;
    }
    let height = usize::from(area.height);
    let selected = open.position(&rows);
    let first = first_visible(selected, rows.len(), height);
    let visible: Vec<(usize, &TreeRow)> = rows.iter().enumerate().skip(first).take(height).collect();
    let width = usize::from(area.width);
    let names: Vec<String> = visible.iter().map(|(_, row)| name(model, row)).collect();
    let longest = names.iter().map(|name| Span::raw(name.as_str()).width()).max().unwrap_or(0);
    let name_width = (longest + 1).min(width.saturating_sub(STATUS) / 2 + 4);
    let lines = visible.iter().zip(&names).map(|((at, row), name)| {
        let is_selected = *at == selected;
        let marker = if is_selected { "> " } else { "  " };
        let start = Span::raw(format!("{marker}{} ", cell(name, name_width.saturating_sub(1))));
        let rest = width.saturating_sub(2 + name_width);
        let mut spans = vec![start];
        match row.kind {
            RowKind::Stage => spans.extend(stage_spans(model, row, theme, rest)),
            RowKind::Collapsed | RowKind::Expanded => spans.push(Span::raw(fan_out_text(model, row.node, rest))),
        }
        Line::from(spans).style(row_style(is_selected))
    });
    frame.render_widget(Text::from(lines.collect::<Vec<_>>()), area);
}

/// Returns the indented name of a row. A fan-out has a sign and its number of instances; an instance shows only its
/// axes.
fn name(model: &RunModel, row: &TreeRow) -> String {
    let indent = " ".repeat((2 * row.depth).min(MAX_INDENT));
    let node = model.graph.nodes.get(row.node);
    let node_name = node.map_or("", |node| node.name.as_str());
    let count = node.map_or(0, |node| node.instances.len());
    let text = match row.kind {
        RowKind::Collapsed => format!("+ {node_name} x{count}"),
        RowKind::Expanded => format!("- {node_name} x{count}"),
        RowKind::Stage => {
            let key = tree::stage_of(model, row).map_or("", |stage| stage.key.0.as_str());
            key.strip_prefix(node_name).filter(|axes| !axes.is_empty()).unwrap_or(key).to_string()
        }
    };
    format!("{indent}{}", shown(&text))
}

fn stage_spans(model: &RunModel, row: &TreeRow, theme: Theme, width: usize) -> Vec<Span<'static>> {
    let Some(stage) = tree::stage_of(model, row) else { return Vec::new() };
    let status = cell(&format!("{} {}", symbol(stage.status), stage.status), STATUS);
    let left = width.saturating_sub(STATUS);
    let rest = match model.progress.get(&stage.key) {
        Some(progress) => progress_parts(progress, left),
        None => with_metric(elapsed(stage.took), stage.metric.as_deref(), left),
    };
    vec![Span::styled(status, theme.status(stage.status)), Span::raw(rest)]
}

/// Formats the instances of a fan-out, as far as they fit a width: `[####....] 1 done, 2 running`.
fn fan_out_text(model: &RunModel, node: usize, width: usize) -> String {
    let (done, total) = tree::totals(tree::instances(model, node));
    let counts = tree::counts(model, node);
    let words: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    with_parts(bar(done as u64, total as u64), &words, width)
}
