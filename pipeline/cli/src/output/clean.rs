//! Escapes control sequences: text from logs, names and data must not move the cursor, set a window title, hide lines,
//! or change the reading order of a line.
//!
//! All text for humans is escaped, even if it is piped, since piped output is often displayed later. JSON is not
//! escaped, since programs need the exact text.

use super::style;
use std::borrow::Cow;
use trainyard_views::untrusted::must_be_escaped;

/// Terminal codes that are not escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedCodes {
    /// No codes.
    Nothing,
    /// Colors that this program uses.
    AppColors,
    /// Every code for colors, bold or underline.
    Colors,
}

/// Escapes control characters and characters that change the direction of a line, as in `\u{1b}`. Line feeds, tabs and
/// `allowed` codes are unchanged; carriage returns before line feeds are removed.
pub fn clean(text: &str, allowed: AllowedCodes) -> Cow<'_, str> {
    if !text.contains(must_be_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(must_be_escaped) {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        let passing = passing(from, allowed);
        let first = from.chars().next().map_or(0, char::len_utf8);
        if passing > 0 {
            shown.push_str(&from[..passing]);
        } else if !from.starts_with("\r\n") {
            shown.extend(from[..first].chars().flat_map(char::escape_unicode));
        }
        rest = &from[passing.max(first)..];
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Removes codes that set colors. Programs use colors in logs, and their escaped codes would make the text unreadable.
pub fn without_colors(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let code = color_code(from);
        if code == 0 {
            plain.push('\x1b');
        }
        rest = &from[code.max(1)..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Returns the number of bytes of an allowed code at the beginning of a text, or 0.
fn passing(text: &str, allowed: AllowedCodes) -> usize {
    match allowed {
        AllowedCodes::Nothing => 0,
        AllowedCodes::AppColors => {
            style::CODES.iter().find(|code| text.starts_with(**code)).map_or(0, |code| code.len())
        }
        AllowedCodes::Colors => color_code(text),
    }
}

/// Returns the number of bytes of a color code (`ESC [ 31;1 m`) at the beginning of a text, or 0.
fn color_code(text: &str) -> usize {
    let Some(body) = text.strip_prefix("\x1b[") else { return 0 };
    let numbers = body.len() - body.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';' || c == ':').len();
    if body[numbers..].starts_with('m') { 2 + numbers + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_and_bidi_marks_are_escaped() {
        let escaped = clean("\x1b]0;title\x07 a\u{202e}b \u{9b}2J\x08 c\rd", AllowedCodes::Nothing);
        assert_eq!(escaped, r"\u{1b}]0;title\u{7} a\u{202e}b \u{9b}2J\u{8} c\u{d}d");
        assert_eq!(clean(&escaped, AllowedCodes::Nothing), escaped, "escaping is idempotent");
    }

    #[test]
    fn plain_text_is_unchanged() {
        let text = "grüße\t→ 数\n  مرحبا 👩‍🔬\n";
        assert!(matches!(clean(text, AllowedCodes::Nothing), Cow::Borrowed(same) if same == text));
        assert_eq!(clean("dos\r\nlines\r\n", AllowedCodes::Nothing), "dos\nlines\n");
    }

    #[test]
    fn only_allowed_codes_pass() {
        let painted = format!("{} \x1b[8mhidden\x1b[2J", style::Style::ON.red("failed"));
        assert_eq!(clean(&painted, AllowedCodes::AppColors), "\x1b[31;1mfailed\x1b[0m \\u{1b}[8mhidden\\u{1b}[2J");
        assert_eq!(clean(&painted, AllowedCodes::Colors), "\x1b[31;1mfailed\x1b[0m \x1b[8mhidden\\u{1b}[2J");
        assert_eq!(clean("\x1b[31", AllowedCodes::Colors), "\\u{1b}[31", "cut off");
    }

    #[test]
    fn colors_of_logs_are_removed() {
        assert_eq!(without_colors("\x1b[1;38:5:9mred\x1b[0m \x1b[2J\x1b"), "red \x1b[2J\x1b");
    }
}
