//! Messages of a rollout that have a text.

use super::page::RowPage;
use super::paging::{self, Paging};
use crate::links::query;
use crate::text::{count, visible};
use maud::{Markup, html};
use trainyard_core::{Error, Result};
use trainyard_views::rollouts::RolloutDetail;
use trainyard_views::search::{MessageMatches, PatternKind, search_messages};

/// Messages of one page.
const PAGE: usize = 100;

/// Searches the messages of this rollout; `found` is the text of the page.
pub fn form(found: Option<&str>) -> Markup {
    html! {
        form .filters method="get" action="#matches" role="search" aria-label="This rollout" {
            label { "Text in this rollout" input type="search" name="find" value=[found] required; }
            button type="submit" { "Find" }
        }
    }
}

/// Lists the messages with the text, without the first `from` of them. Errors: invalid (an empty text).
pub async fn section(page: &RowPage, detail: RolloutDetail, text: &str, from: usize) -> Result<Markup> {
    let pattern = text.to_string();
    let search = tokio::task::spawn_blocking(move || {
        search_messages(&detail.rollout.messages, (&pattern, PatternKind::Text), (from, PAGE))
    });
    let found = search.await.map_err(|e| Error::bug(format!("searching messages ended early: {e}")))??;
    Ok(list(page, &found, text, from))
}

fn list(page: &RowPage, found: &MessageMatches, text: &str, from: usize) -> Markup {
    let row = page.place.row(&page.request.links, page.row);
    let paging = Paging {
        many: "Matches",
        one: "Match",
        anchor: "matches",
        previous: (from > 0).then(|| from.saturating_sub(PAGE)),
        next: (from + found.shown.len() < found.total).then_some(from + found.shown.len()),
        last: found.total.saturating_sub(1) / PAGE * PAGE,
        count: found.total,
    };
    let address = |from: usize| format!("{row}{}", query(&[("find", text), ("from", &from.to_string())]));
    html! {
        h2 #matches { "Messages with the text" }
        (form(Some(text)))
        p {
            (count(found.total as u64)) @if found.total == 1 { " message has" } @else { " messages have" } " the text."
        }
        (paging::links(&paging, address))
        ul .matches {
            @for (number, excerpt) in &found.shown {
                li {
                    a href=(format!("{row}{}#m{number}", query(&[("from", &number.to_string())]))) {
                        "Message " (number)
                    }
                    " " span .found {
                        (visible(&excerpt.before)) mark { (visible(&excerpt.found)) } (visible(&excerpt.after))
                    }
                }
            }
        }
        (paging::links(&paging, address))
    }
}
