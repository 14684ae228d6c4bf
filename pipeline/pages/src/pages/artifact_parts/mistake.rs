//! Mistakes in queries, and unreadable parts of a page.

use crate::text::visible;
use maud::{Markup, html};
use trainyard_core::Error;

/// Shows an error with its help.
pub fn mistake(error: &Error) -> Markup {
    html! {
        p .failure role="alert" { (visible(&error.message)) }
        @if let Some(help) = &error.help { p { (visible(help)) } }
    }
}
