//! Colors text if the output is a terminal and `NO_COLOR` is not set.

use std::io::IsTerminal as _;

/// All codes that [`Style`] uses.
pub const CODES: [&str; 10] = [RESET, BOLD, RED, YELLOW, GREEN, SCALE[0], SCALE[1], SCALE[2], SCALE[3], SCALE[4]];

/// Colors of a scale from low to high: red, orange, yellow, green, blue.
pub const SCALE: [&str; 5] = ["\x1b[38;5;196m", "\x1b[38;5;208m", "\x1b[38;5;220m", "\x1b[38;5;40m", "\x1b[38;5;39m"];

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31;1m";
const YELLOW: &str = "\x1b[33;1m";
const GREEN: &str = "\x1b[32m";

/// Colors texts, or leaves them unchanged if colors are disabled.
#[derive(Debug, Clone, Copy)]
pub struct Style(bool);

impl Style {
    /// Enables colors for any output.
    #[cfg(test)]
    pub const ON: Self = Self(true);

    pub fn of_stdout() -> Self {
        Self(std::io::stdout().is_terminal() && is_allowed())
    }
    pub fn of_stderr() -> Self {
        Self(std::io::stderr().is_terminal() && is_allowed())
    }
    /// Returns whether colors are enabled.
    pub fn is_on(self) -> bool {
        self.0
    }
    pub fn bold(self, text: &str) -> String {
        self.paint(BOLD, text)
    }
    pub fn red(self, text: &str) -> String {
        self.paint(RED, text)
    }
    pub fn yellow(self, text: &str) -> String {
        self.paint(YELLOW, text)
    }
    pub fn green(self, text: &str) -> String {
        self.paint(GREEN, text)
    }
    /// Colors a text by its place in [`SCALE`].
    pub fn scale(self, level: usize, text: &str) -> String {
        self.paint(SCALE[level], text)
    }
    /// Colors a status: `done` green, `failed` red, `waiting` yellow.
    pub fn status(self, text: &str) -> String {
        match text.trim() {
            "done" | "hit" | "ok" | "succeeded" => self.green(text),
            "BAD" | "blocked" | "cancelled" | "damaged" | "failed" => self.red(text),
            "interrupted" | "queued" | "retrying" | "running" | "unfinished" | "waiting" | "warning" => {
                self.yellow(text)
            }
            _ => text.to_string(),
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("{code}{text}{RESET}") } else { text.to_string() }
    }
}

/// Returns whether `NO_COLOR` permits colors: it is unset or empty (<https://no-color.org>).
fn is_allowed() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_unchanged_without_color() {
        assert_eq!(Style(false).status("failed"), "failed");
        assert_eq!(Style(true).status("failed"), "\x1b[31;1mfailed\x1b[0m");
        assert_eq!(Style(true).status("rl"), "rl", "a word without a color");
    }
}
