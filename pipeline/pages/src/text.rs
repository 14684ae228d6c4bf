//! Formats text of artifacts, logs and names: shortened, with control and direction characters made visible.
//! The templates escape HTML.

use std::borrow::Cow;
use trainyard_views::untrusted;

/// Maximum characters of a text that a page shows at once; longer texts are cut with a note.
pub const MAX_CHARS: usize = 20_000;

/// Returns the text with control and direction characters as `\u{…}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    untrusted::visible(text)
}

/// Returns the first `limit` characters of a text, made visible, and the number of characters after them.
pub fn cut(text: &str, limit: usize) -> (Cow<'_, str>, usize) {
    match text.char_indices().nth(limit) {
        None => (visible(text), 0),
        Some((end, _)) => (visible(&text[..end]), text[end..].chars().count()),
    }
}

/// Formats a number with up to 4 significant digits; scientific below 0.001 and from a million on.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = value.abs().log10().floor();
    if !(-3.0..6.0).contains(&digits) {
        return format!("{value:.2e}");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 6")]
    let places = (3.0 - digits).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Formats a duration of seconds, as in `1h02m`, `3m05s`, `7.2s`.
pub fn seconds(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1}s");
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a duration in seconds")]
    let whole = seconds.max(0.0) as u64;
    if whole < 3_600 {
        return format!("{}m{:02}s", whole / 60, whole % 60);
    }
    format!("{}h{:02}m", whole / 3_600, whole % 3_600 / 60)
}

/// Formats a size in bytes, as in `1.5 MB`.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1_000.0 && unit + 1 < units.len() {
        size /= 1_000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{size:.1} {}", units[unit]) }
}

/// Formats a count with commas, as in `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the symbol of a status of a run, stage or attempt.
pub fn status_symbol(status: &str) -> &'static str {
    match status {
        "succeeded" | "done" => "✓",
        "failed" | "damaged" | "lost" | "timedout" => "✗",
        "running" => "▶",
        "publishing" => "⇪",
        "cached" | "hit" => "≡",
        "cancelled" | "skipped" | "blocked" => "⊘",
        "waiting" | "queued" | "retrying" => "◷",
        "interrupted" | "unfinished" | "paused" => "‖",
        "active" => "●",
        "expanded" => "⋔",
        _ => "·",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let cases = [(0.87346, "0.8735"), (1234.56, "1235"), (0.5, "0.5"), (12.0, "12"), (3e-5, "3.00e-5"), (0.0, "0")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(f64::NAN), "NaN");
    }

    #[test]
    fn units_fit_the_size() {
        assert_eq!((bytes(999), bytes(1_500_000)), ("999 B".to_string(), "1.5 MB".to_string()));
        assert_eq!((seconds(7.21), seconds(185.0), seconds(3_720.0)), ("7.2s".into(), "3m05s".into(), "1h02m".into()));
        assert_eq!((count(7), count(1_234_567)), ("7".to_string(), "1,234,567".to_string()));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aüb", 2), (Cow::Borrowed("aü"), 1));
        assert_eq!(cut("a\u{1b}", 9).0, "a\\u{1b}");
    }
}
