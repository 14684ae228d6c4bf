//! Formats cells: cleaned text, status symbols, bars, progress.

use crate::output::clean::{AllowedCodes, clean, without_colors};
use crate::output::metrics::number;
use ratatui::text::Span;
use std::borrow::Cow;
use std::time::Duration;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::units::format_duration;

/// Characters of a progress bar without its brackets.
const BAR: usize = 8;

/// Escapes control characters of text from a store, removes its colors, and joins its lines.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c.is_control() || !c.is_ascii()) {
        return Cow::Borrowed(text);
    }
    let plain = without_colors(text);
    Cow::Owned(clean(&plain, AllowedCodes::Nothing).replace(['\n', '\t'], " "))
}

/// Returns the symbol of a displayed status.
pub fn symbol(status: &str) -> char {
    match status {
        "done" | "succeeded" => '✓',
        "hit" => '=',
        "running" => '>',
        "publishing" => '^',
        "waiting" | "queued" => '~',
        "retrying" => '@',
        "failed" | "damaged" => '✗',
        "blocked" => '#',
        "cancelled" => 'x',
        "interrupted" | "unfinished" => '!',
        "skipped" => '-',
        "expanded" => '+',
        _ => '.',
    }
}

/// Formats a duration in milliseconds; empty if it is unknown.
pub fn elapsed(millis: Option<i64>) -> String {
    millis
        .and_then(|ms| u64::try_from(ms).ok())
        .map_or_else(String::new, |ms| format_duration(Duration::from_millis(ms)))
}

/// Pads or cuts a text to a width. The last character of a cut text is `…`.
pub fn cell(text: &str, width: usize) -> String {
    let total = Span::raw(text).width();
    if total <= width {
        return format!("{text}{}", " ".repeat(width - total));
    }
    let (mut cut, mut used) = (String::new(), 0);
    for c in text.chars() {
        let next = Span::raw(c.to_string()).width();
        if used + next + 1 > width {
            break;
        }
        used += next;
        cut.push(c);
    }
    if width > 0 {
        cut.push('…');
        used += 1;
    }
    format!("{cut}{}", " ".repeat(width.saturating_sub(used)))
}

/// Draws a bar: `[###.....]`.
pub fn bar(done: u64, total: u64) -> String {
    let share = if total == 0 { 0.0 } else { (done as f64 / total as f64).clamp(0.0, 1.0) };
    let full = (share * BAR as f64).floor() as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

/// Shortens a metric, `NAME VALUE`, to a width: the name first. `None` if the value does not fit whole with a character
/// of the name.
fn metric_within(text: &str, width: usize) -> Option<String> {
    let of = |text: &str| Span::raw(text).width();
    if of(text) <= width {
        return Some(text.to_string());
    }
    let (name, value) = text.split_once(' ')?;
    let left = width.checked_sub(of(value) + 1)?;
    let first = of(&name.chars().take(1).collect::<String>());
    (left > first).then(|| format!("{} {value}", cell(name, left).trim_end()))
}

/// Joins a text and as many parts as fit a width: `[####....] 1 done, 2 running`.
pub fn with_parts(mut text: String, parts: &[String], width: usize) -> String {
    for (index, part) in parts.iter().enumerate() {
        let part = format!("{}{part}", if index == 0 { " " } else { ", " });
        if Span::raw(text.as_str()).width() + Span::raw(part.as_str()).width() > width {
            break;
        }
        text.push_str(&part);
    }
    text
}

/// Adds a metric to a text of a width if its value fits whole.
pub fn with_metric(text: String, metric: Option<&str>, width: usize) -> String {
    let gap = if text.is_empty() { 0 } else { 2 };
    let left = width.saturating_sub(Span::raw(text.as_str()).width() + gap);
    match metric.and_then(|metric| metric_within(&shown(metric), left)) {
        Some(metric) => format!("{text}{}{metric}", " ".repeat(gap)),
        None => text,
    }
}

/// Formats progress as the parts that fit a width, the most important first: step of total, bar, time left, rate,
/// metric.
pub fn progress_parts(progress: &ProgressRecord, width: usize) -> String {
    let ProgressRecord { done, total, unit, rate, seconds_left, metric, .. } = progress;
    let step = if *total > 0 { format!("{done}/{total}") } else { format!("{done} {unit}") };
    let left = seconds_left.and_then(|left| Duration::try_from_secs_f64(left).ok());
    let parts = [
        Some(step),
        (*total > 0).then(|| bar(*done, *total)),
        left.map(|left| format!("{} left", format_duration(left))),
        rate.map(|rate| if rate >= 100.0 { format!("{rate:.0}/s") } else { format!("{rate:.1}/s") }),
    ];
    let mut text = String::new();
    for part in parts.into_iter().flatten() {
        let part = shown(&part).into_owned();
        let gap = if text.is_empty() { 0 } else { 2 };
        if Span::raw(text.as_str()).width() + gap + Span::raw(part.as_str()).width() > width {
            return text;
        }
        text.push_str(&" ".repeat(gap));
        text.push_str(&part);
    }
    let metric = metric.as_ref().map(|metric| format!("{} {}", metric.name, number(metric.value)));
    with_metric(text, metric.as_deref(), width)
}

/// Returns the first visible row such that the selected one is visible, near the middle if possible.
pub fn first_visible(selected: usize, total: usize, height: usize) -> usize {
    selected.saturating_sub(height / 2).min(total.saturating_sub(height))
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::top::samples::progress;

    #[test]
    fn cells_are_padded_and_cut_by_display_width() {
        assert_eq!(cell("ab", 4), "ab  ");
        assert_eq!(cell("abcdef", 4), "abc…");
        assert_eq!(cell("数数数", 4), "数… ");
        assert_eq!(cell("ab", 0), "");
    }

    #[test]
    fn progress_leaves_out_what_does_not_fit() {
        assert_eq!(progress_parts(&progress(120), 80), "120/400  [##......]  22.4s left  12.5/s  loss 0.431");
        assert_eq!(progress_parts(&progress(120), 20), "120/400  [##......]".to_string());
        assert_eq!(progress_parts(&progress(120), 3), "");
        assert_eq!(progress_parts(&progress(120), 50), "120/400  [##......]  22.4s left  12.5/s  lo… 0.431");
        assert_eq!(progress_parts(&progress(120), 48), "120/400  [##......]  22.4s left  12.5/s");
        let unknown = ProgressRecord { total: 0, seconds_left: None, ..progress(7) };
        assert_eq!(progress_parts(&unknown, 18), "7 steps  12.5/s");
    }

    #[test]
    fn values_of_metrics_are_whole_or_left_out() {
        let metric = |width| with_metric("1m01s".into(), Some("loss 0.132"), width);
        assert_eq!((metric(17), metric(16)), ("1m01s  loss 0.132".into(), "1m01s  lo… 0.132".into()));
        assert_eq!((metric(15), metric(14)), ("1m01s  l… 0.132".into(), "1m01s".to_string()));
        assert_eq!((metric(3), with_metric("1m01s".into(), None, 80)), ("1m01s".to_string(), "1m01s".to_string()));
        assert_eq!(with_metric(String::new(), Some("数数数 1"), 6), "数… 1", "by display width");
        assert_eq!(with_metric(String::new(), Some("数数数 1"), 4), "");
        assert_eq!(with_metric(String::new(), Some("nothing"), 4), "", "it has no value");
    }

    #[test]
    fn parts_are_left_out_as_a_whole() {
        let parts = ["1 done", "1 running", "1 waiting"].map(str::to_string);
        let text = |width| with_parts("[##......]".into(), &parts, width);
        assert_eq!(text(39), "[##......] 1 done, 1 running, 1 waiting");
        assert_eq!((text(38), text(28)), ("[##......] 1 done, 1 running".into(), text(30)));
        assert_eq!((text(27), text(16)), ("[##......] 1 done".to_string(), "[##......]".to_string()));
    }

    #[test]
    fn bars_stay_in_their_brackets() {
        assert_eq!((bar(0, 0), bar(9, 8)), ("[........]".to_string(), "[########]".to_string()));
    }

    #[test]
    fn text_of_a_store_has_no_control_characters() {
        assert_eq!(shown("\x1b[31mred\x1b[0m\n\x1b[2J\u{202e}x"), r"red \u{1b}[2J\u{202e}x");
    }

    #[test]
    fn selected_row_is_visible() {
        for (selected, total, height) in [(0, 100, 10), (50, 100, 10), (99, 100, 10), (2, 3, 10), (5, 9, 1)] {
            let first = first_visible(selected, total, height);
            assert!(first <= selected && selected < first + height, "{selected} of {total}");
        }
    }
}
