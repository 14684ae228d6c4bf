//! Text of artifacts, logs and names: which characters may not be shown as they are.

use std::borrow::Cow;

/// Returns whether a character may move the cursor, hide text, or change the reading order of a line. Line feeds and
/// tabs may not.
pub fn must_be_escaped(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // Marks, embeddings, overrides and isolates of bidirectional text.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// Escapes such characters, as in `\u{1b}`; carriage returns before line feeds are removed.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(must_be_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            c if must_be_escaped(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_visible() {
        assert_eq!(visible("a\r\nb\tc\rd\u{1b}[31m\u{202e}"), "a\nb\tc\\u{d}d\\u{1b}[31m\\u{202e}");
        assert!(matches!(visible("plain ü\n"), Cow::Borrowed(_)));
    }
}
