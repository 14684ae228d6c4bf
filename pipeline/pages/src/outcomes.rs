//! Outcomes of the runs of ticks, as symbols with words.

use maud::{Markup, html};
use trainyard_daemon::schedule::event::TickOutcome;

/// Returns a symbol and the word of an outcome.
pub fn symbol_and_word(outcome: TickOutcome) -> (&'static str, &'static str) {
    match outcome {
        TickOutcome::Succeeded => ("✓", "succeeded"),
        TickOutcome::Failed => ("✗", "failed"),
        TickOutcome::Cancelled => ("⊘", "cancelled"),
        TickOutcome::NotStarted => ("!", "not started"),
        TickOutcome::Superseded => ("↷", "superseded"),
    }
}

/// Renders an outcome as a symbol with its word, so that its color is only an addition.
pub fn mark(outcome: TickOutcome) -> Markup {
    let (symbol, word) = symbol_and_word(outcome);
    let status = if outcome == TickOutcome::NotStarted { "failed" } else { word };
    html! { span .status data-status=(status) { span aria-hidden="true" { (symbol) " " } (word) } }
}
