//! Redraws a page in place on a terminal.

use crate::output::human::sanitize;
use crate::output::style::Style;
use crate::output::width;
use std::io::Write as _;
use terminal_size::{Height, Width, terminal_size_of};

/// Size of a terminal whose size is unknown.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Page on stdout that replaces its earlier version.
#[derive(Debug, Default)]
pub struct LivePage {
    /// Rows of the version on the screen.
    rows: usize,
    text: String,
}

impl LivePage {
    /// Draws the next version of the page, unless nothing changed.
    pub fn draw(&mut self, text: &str) {
        let (width, height) = terminal_size_of(std::io::stdout())
            .map_or(DEFAULT_SIZE, |(Width(width), Height(height))| (width.into(), height.into()));
        let text = width::wrap(&sanitize(text, Style::of_stdout()), width);
        if text == self.text {
            return;
        }
        let mut out = std::io::stdout().lock();
        // A closed terminal is detected by other output.
        let _ = writeln!(out, "{}{text}", erase(self.rows, height)).and_then(|()| out.flush());
        self.rows = rows(&text, width);
        self.text = text;
    }
}

/// Returns the control codes that erase the last `rows` rows. A page that does not fit the screen has scrolled, so the
/// screen is erased instead.
fn erase(rows: usize, height: usize) -> String {
    match rows {
        0 => String::new(),
        rows if rows < height => format!("\x1b[{rows}A\r\x1b[J"),
        _ => "\x1b[2J\x1b[H".to_string(),
    }
}

/// Returns the number of rows that a text takes on a terminal of this width.
fn rows(text: &str, width: usize) -> usize {
    text.lines().map(|line| width::visible(line).div_ceil(width.max(1)).max(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_count_wrapped_lines_without_colors() {
        assert_eq!(rows("ab\n\nabcdef", 5), 4);
        assert_eq!(rows("\x1b[32mabcde\x1b[0m", 5), 1);
        assert_eq!(rows("", 80), 0);
    }

    #[test]
    fn page_is_erased_in_place() {
        assert_eq!(erase(0, 24), "");
        assert_eq!(erase(3, 24), "\x1b[3A\r\x1b[J");
        assert_eq!(erase(24, 24), "\x1b[2J\x1b[H");
    }
}
