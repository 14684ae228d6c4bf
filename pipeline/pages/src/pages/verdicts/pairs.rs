//! Near-duplicates side by side: the rejected row and the one that it repeats, with the words in which they differ.

use crate::links::{Links, query};
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::text::{count, cut, visible};
use maud::{Markup, html};
use trainyard_views::near_duplicates::{NearDuplicates, NearPair, PairRow};
use trainyard_views::word_diff::{WordPart, word_diff};

/// Characters of a text that are compared.
const TEXT: usize = 12_000;
/// Characters of an id.
const ID: usize = 120;

/// Side of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Rejected,
    Kept,
}

/// Shows a page of pairs.
pub fn section(links: &Links, place: &ArtifactPlace, found: &NearDuplicates, from: u64) -> Markup {
    let address = |from: u64| {
        let here = place.within(links, &["verdicts"]);
        format!("{here}{}#pairs", query(&[("from", &from.to_string())]))
    };
    html! {
        h2 #pairs { "Near-duplicates" }
        @if found.pairs.is_empty() { p .empty { "There are no near-duplicates among these rejected rows." } }
        @for pair in &found.pairs { (shown(links, place, pair)) }
        nav .pages aria-label="More near-duplicates" {
            @if from > 0 { a href=(address(0)) { "First" } }
            @if let Some(next) = found.next {
                a rel="next" href=(address(next)) { "Next" }
                span .muted { (count(found.rejected.saturating_sub(next))) " more rejected rows" }
            }
        }
    }
}

fn shown(links: &Links, place: &ArtifactPlace, pair: &NearPair) -> Markup {
    let limited = |row: &PairRow| row.text.char_indices().nth(TEXT).map_or(row.text.len(), |(end, _)| end);
    let rejected = &pair.rejected.text[..limited(&pair.rejected)];
    let kept = pair.kept.as_ref().map(|kept| &kept.text[..limited(kept)]);
    let parts = word_diff(rejected, kept.unwrap_or(rejected));
    html! {
        section .pair {
            h3 {
                (cut(&pair.rejected.id, ID).0) " repeats " (cut(&pair.kept_id, ID).0)
                @if !pair.similarity.is_empty() { ", similarity " (cut(&pair.similarity, 20).0) }
            }
            div .panels {
                div {
                    h4 { "Dropped: " (link(links, place, &pair.rejected)) }
                    (text(&parts, Side::Rejected))
                    (more(&pair.rejected, rejected))
                }
                div {
                    @match &pair.kept {
                        Some(kept) => {
                            h4 { "Repeated: " (link(links, place, kept)) }
                            (text(&parts, Side::Kept))
                            (more(kept, &kept.text[..limited(kept)]))
                        }
                        None => p .muted { "The repeated row is in no output of the stage." },
                    }
                }
            }
        }
    }
}

fn link(links: &Links, place: &ArtifactPlace, row: &PairRow) -> Markup {
    html! {
        a href=(links.row(&place.digest, &row.output, row.row)) { "row " (row.row) " of " (visible(&row.output)) }
    }
}

/// Shows one side, with the words that the other does not have marked.
fn text(parts: &[WordPart], side: Side) -> Markup {
    html! {
        pre {
            @for part in parts {
                @match (part, side) {
                    (WordPart::Both(text), _) => (visible(text)),
                    (WordPart::First(text), Side::Rejected) => del { (visible(text)) },
                    (WordPart::Second(text), Side::Kept) => ins { (visible(text)) },
                    _ => {}
                }
            }
        }
    }
}

fn more(row: &PairRow, shown: &str) -> Markup {
    let hidden = row.text.len() - shown.len();
    html! { @if hidden > 0 { p .muted { (count(hidden as u64)) " more bytes" } } }
}
