//! Links to other rows, and to other views of a row.

use super::page::RowPage;
use crate::links::query;
use crate::text::count;
use maud::{Markup, html};
use trainyard_views::tokens::TokenValue;

/// Links to the row before and after.
pub fn rows(page: &RowPage, rows: u64) -> Markup {
    let links = &page.request.links;
    html! {
        nav .pages aria-label="Rows" {
            @if page.row > 0 {
                a rel="prev" data-key="k" href=(page.place.row(links, page.row - 1)) { "Row " (page.row - 1) }
            }
            @if page.row + 1 < rows {
                a rel="next" data-key="j" href=(page.place.row(links, page.row + 1)) { "Row " (page.row + 1) }
            }
            span .muted { "of " (count(rows)) " rows" }
            @let number = page.row.to_string();
            @let lineage = page.place.within(links, &["lineage"]);
            a href=(format!("{lineage}{}", query(&[("row", &number)]))) { "Lineage" }
        }
    }
}

/// Searches the rollouts of the artifact.
pub fn search(page: &RowPage) -> Markup {
    html! {
        form .filters method="get" role="search" action=(page.place.rollouts(&page.request.links)) {
            label { "Text in the rollouts" input #find type="search" name="find" required; }
            button type="submit" { "Search" }
        }
    }
}

/// Links to the views of a rollout: the conversation, and tokens by each value if the row has any.
pub fn views(page: &RowPage, tokens: Option<&str>, has_tokens: bool) -> Markup {
    let address = page.place.row(&page.request.links, page.row);
    if tokens.is_none() && !has_tokens {
        return html! { p .muted { "No tokens are stored with this row, since no model of the run sampled it." } };
    }
    html! {
        nav .pages aria-label="Views of the rollout" {
            a href=(address) aria-current=[tokens.is_none().then_some("page")] { "Conversation" }
            @for name in TokenValue::NAMES {
                a href=(format!("{address}{}", query(&[("tokens", name)])))
                    aria-current=[(tokens == Some(name)).then_some("page")] { "Tokens by " (name) }
            }
        }
    }
}
