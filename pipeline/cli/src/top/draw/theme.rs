//! Colors and emphasis of the screens.

use ratatui::style::{Color, Modifier, Style};

/// Appearance of the screens.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    /// Whether statuses are colored. Symbols and words say the same.
    pub has_colors: bool,
}

impl Theme {
    /// Returns the style of a status.
    pub fn status(self, status: &str) -> Style {
        let color = match status {
            _ if !self.has_colors => return Style::default(),
            "done" | "hit" | "succeeded" => Color::Green,
            "failed" | "blocked" | "cancelled" | "damaged" => Color::Red,
            "interrupted" | "queued" | "retrying" | "running" | "unfinished" | "waiting" => Color::Yellow,
            _ => return Style::default(),
        };
        Style::default().fg(color)
    }
    /// Returns the style of an error.
    pub fn failure(self) -> Style {
        if self.has_colors { Style::default().fg(Color::Red).add_modifier(Modifier::BOLD) } else { bold() }
    }
}

/// Returns a bold style.
pub fn bold() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

/// Returns the style of a row; the selected row has a marker, too.
pub fn row_style(is_selected: bool) -> Style {
    if is_selected { Style::default().add_modifier(Modifier::REVERSED) } else { Style::default() }
}
