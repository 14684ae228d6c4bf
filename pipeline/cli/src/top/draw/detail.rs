//! Draws the selected stage: what it waits for, its attempts, a curve, and the end of its log.

use super::log::{last_lines, wrapped};
use super::text::{cell, shown, symbol};
use super::theme::{Theme, bold};
use crate::output::human::with_causes;
use crate::output::metrics::number;
use crate::output::progress::progress_text;
use crate::top::model::{RunModel, StageDetail};
use crate::top::state::OpenRun;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::Sparkline;
use trainyard_engine::fold::{AttemptView, StageStatus};
use trainyard_views::timeline::outcome_name;

/// Maximum attempts shown.
const MAX_ATTEMPTS: usize = 3;
/// Rows of a curve with its title.
const CURVE: u16 = 4;
/// Minimum height of the panel for a curve.
const MIN_CURVE_PANEL: u16 = 14;
/// Value of the highest point of a sparkline.
const FULL: f64 = 1_000.0;

pub fn draw(open: &OpenRun, model: &RunModel, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let Some(detail) = &model.detail else {
        frame.render_widget(Line::from("reading the stage"), area);
        return;
    };
    let width = usize::from(area.width);
    let facts: Vec<String> = facts(model, detail).iter().flat_map(|line| wrapped(line, width)).collect();
    let has_curve = !detail.curves.is_empty() && area.height >= MIN_CURVE_PANEL;
    let curve = if has_curve { CURVE } else { 0 };
    let fact_rows = (facts.len() as u16 + 2).min(area.height.saturating_sub(curve) * 2 / 3);
    let parts = [Constraint::Length(fact_rows), Constraint::Length(curve), Constraint::Min(0)];
    let [top, middle, bottom] = Layout::vertical(parts).areas(area);
    let word = format!("{} {}", symbol(detail.status), detail.status);
    let mut lines = vec![Line::styled(cell(&shown(&detail.stage.key().0), width), bold())];
    lines.push(Line::styled(format!("{word}, {}", shown(&detail.stage.kind)), theme.status(detail.status)));
    lines.extend(facts.into_iter().map(Line::from));
    frame.render_widget(Text::from(lines), top);
    if has_curve {
        draw_curve(open.curve, detail, frame, middle);
    }
    draw_log(detail, frame, bottom);
}

/// Returns lines on the progress, the reason of the state, and the last attempts.
fn facts(model: &RunModel, detail: &StageDetail) -> Vec<String> {
    let stage = &detail.stage;
    let mut lines: Vec<String> = model.progress.get(stage.key()).map(progress_text).into_iter().collect();
    if stage.status == StageStatus::Pending && !detail.needs.is_empty() {
        lines.push(format!("waits for {}", detail.needs.join(", ")));
    }
    match (&stage.why, stage.status) {
        (Some(why), StageStatus::Waiting | StageStatus::Queued) => lines.push(format!("waits for: {why}")),
        (Some(why), _) => lines.push(why.clone()),
        (None, _) => {}
    }
    lines.extend(stage.error.as_ref().map(with_causes));
    let hidden = stage.attempts.len().saturating_sub(MAX_ATTEMPTS);
    if hidden > 0 {
        lines.push(format!("{hidden} earlier attempts"));
    }
    lines.extend(stage.attempts.iter().skip(hidden).map(attempt_line));
    lines
}

fn attempt_line(attempt: &AttemptView) -> String {
    let outcome = attempt.outcome.map_or_else(|| "runs".to_string(), outcome_name);
    let error = attempt.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
    format!("attempt {} on {}: {outcome}{error}", attempt.number, attempt.pool)
}

fn draw_curve(chosen: usize, detail: &StageDetail, frame: &mut Frame<'_>, area: Rect) {
    let curves = ordered_curves(detail);
    let count = curves.len().max(1);
    let Some((at, (name, points))) = curves.into_iter().enumerate().nth(chosen % count) else { return };
    let finite = points.iter().filter(|(_, value)| value.is_finite());
    let finite: Vec<(u64, f64)> = finite.copied().collect();
    let (low, high) = range(&finite);
    let title = match finite.last() {
        Some((step, last)) => format!(
            "{} {} at {step}, {} to {} ({}/{count})",
            shown(name),
            number(*last),
            number(low),
            number(high),
            at + 1
        ),
        None => format!("{} has no finite value ({}/{count})", shown(name), at + 1),
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Line::from(cell(&title, usize::from(area.width))), head);
    let bars = scaled(&finite, low, high, usize::from(area.width));
    frame.render_widget(Sparkline::default().data(bars).max(FULL as u64), body);
}

/// Returns the curves by name, that of the main metric first.
fn ordered_curves(detail: &StageDetail) -> Vec<(&String, &Vec<(u64, f64)>)> {
    let mut curves: Vec<_> = detail.curves.iter().collect();
    curves.sort_by_key(|(name, _)| detail.stage.main_metric.as_ref() != Some(*name));
    curves
}

fn range(points: &[(u64, f64)]) -> (f64, f64) {
    let fold = |(low, high): (f64, f64), (_, value): &(u64, f64)| (low.min(*value), high.max(*value));
    points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), fold)
}

/// Scales points to bars, at most `width` of them: each bar is the mean of as many points. The lowest value has a
/// visible bar, too.
fn scaled(points: &[(u64, f64)], low: f64, high: f64, width: usize) -> Vec<u64> {
    let per_bar = points.len().div_ceil(width.max(1)).max(1);
    let mean = |part: &[(u64, f64)]| part.iter().map(|(_, value)| value / part.len() as f64).sum::<f64>();
    let height = |value: f64| if high > low { (value - low) / (high - low) } else { 0.5 };
    let bar = |part| (FULL * (0.15 + 0.85 * height(mean(part)))).round() as u64;
    points.chunks(per_bar).map(bar).collect()
}

fn draw_log(detail: &StageDetail, frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    if height < 2 {
        return;
    }
    let title = if detail.log.is_empty() { "no log lines" } else { "log (l: full screen)" };
    let mut lines = vec![Line::styled(title, bold())];
    lines.extend(last_lines(&detail.log, width, height - 1).into_iter().map(Line::from));
    frame.render_widget(Text::from(lines), area);
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn curves_are_scaled_to_the_width() {
        let points: Vec<(u64, f64)> = (0..10).map(|step| (step, step as f64)).collect();
        assert_eq!(scaled(&points, 0.0, 9.0, 5), [197, 386, 575, 764, 953]);
        assert_eq!(scaled(&points[..1], 0.0, 0.0, 5), [575], "a constant is in the middle");
        assert!(scaled(&[], 0.0, 0.0, 0).is_empty());
    }
}
