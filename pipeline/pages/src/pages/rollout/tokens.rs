//! Tokens of a rollout, colored by a value, or as a table.

use super::page::RowPage;
use super::paging::{self, Paging};
use crate::error::PageError;
use crate::layout::scrolling;
use crate::links::query;
use crate::pages::rollout_parts::place::wrong_parameter;
use crate::state::PageState;
use crate::text::{count, number, visible};
use maud::{Markup, html};
use trainyard_core::ErrorKind;
use trainyard_views::token_text::{RowTokens, row_tokens};
use trainyard_views::tokens::{TokenPage, TokenRow, TokenValue};

/// Maximum tokens of a page as a text.
const TOKENS: usize = 900;
/// Maximum elements of a page: tokens and marks. With everything else that the page may show, it has fewer than 3,000.
const ELEMENTS: usize = 1_200;
/// Elements of a row of the table.
const OF_ROW: usize = 8;
/// Colors: classes `t0` to `t8`.
const LEVELS: usize = 9;

/// Shows the tokens from position `from` on by a value. Errors: 400 (no such value), those of the store.
pub async fn section(
    app: &PageState,
    page: &RowPage,
    (name, as_table): (&str, bool),
    from: usize,
) -> Result<Markup, PageError> {
    let value = TokenValue::named(name)
        .ok_or_else(|| wrong_parameter("tokens", format!("write {}", TokenValue::NAMES.join(", "))))?;
    let place = &page.place;
    let found = match row_tokens(&app.store, &place.name, &place.found, page.row, Some(value), (from, TOKENS)).await {
        Ok(found) => found,
        Err(error) if error.kind == ErrorKind::Invalid => {
            return Ok(html! {
                h2 { "Tokens by " (name) }
                p .empty { (visible(&error.message)) }
                @if let Some(help) = &error.help { p .muted { (visible(help)) } }
            });
        }
        Err(error) => return Err(error.into()),
    };
    let all = &found.page.tokens;
    let from = from.min(all.len().saturating_sub(1));
    let shown = &all[from..from + fitting(all[from..].iter(), as_table)];
    let paging = Paging {
        many: "Tokens",
        one: "Token",
        anchor: "tokens",
        previous: (from > 0).then(|| from - fitting(all[..from].iter().rev(), as_table)),
        next: (from + shown.len() < all.len()).then_some(from + shown.len()),
        last: all.len() - fitting(all.iter().rev(), as_table),
        count: all.len(),
    };
    let kept = [("tokens", name), ("as", if as_table { "table" } else { "text" })];
    let address = |as_table: bool, from: usize| {
        let from = from.to_string();
        let mut parameters = vec![("tokens", name), ("from", from.as_str())];
        parameters.extend(as_table.then_some(("as", "table")));
        format!("{}{}", place.row(&page.request.links, page.row), query(&parameters))
    };
    Ok(html! {
        h2 #tokens { "Tokens by " (name) }
        (legend(&found))
        @if shown.len() < all.len() {
            p { "Tokens " (count(from as u64)) " to " (count((from + shown.len() - 1) as u64)) }
            (paging::form(&paging, &kept))
        }
        p { a href=(address(!as_table, from)) { @if as_table { "Show as a text" } @else { "Show as a table" } } }
        (paging::links(&paging, |from| address(as_table, from)))
        @if as_table { (scrolling("Tokens", &table(shown))) } @else { (text(&found.page, shown)) }
        (paging::links(&paging, |from| address(as_table, from)))
    })
}

/// Counts the tokens that fit on a page.
fn fitting<'a>(tokens: impl Iterator<Item = &'a TokenRow>, as_table: bool) -> usize {
    let mut left = ELEMENTS;
    let fits = |token: &&TokenRow| {
        let marks = usize::from(marks(token, true).is_some()) + usize::from(token.step_ends.is_some());
        let rest = left.checked_sub(if as_table { OF_ROW } else { 1 + marks });
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    tokens.take(TOKENS).take_while(fits).count()
}

fn legend(found: &RowTokens) -> Markup {
    let page = &found.page;
    html! {
        p {
            (count(page.tokens.len() as u64)) " tokens in " (page.contexts)
            @if page.contexts == 1 { " segment" } @else { " segments" } ". "
            @match page.range {
                Some((low, high)) => {
                    (page.value.name()) " from " (number(low)) " "
                    span .swatches aria-hidden="true" {
                        @for level in 0..LEVELS { span .(format!("t{level}")) { " " } }
                    }
                    " to " (number(high)) ". Tokens without a color have no value."
                }
                None => { "No token has a " (page.value.name()) "." }
            }
            @if !found.has_text {
                " No model among the inputs of the artifact has the tokenizer, so tokens are shown by their ids."
            }
        }
    }
}

fn text(page: &TokenPage, shown: &[TokenRow]) -> Markup {
    html! {
        pre .tokens {
            @for token in shown {
                @if let Some(marks) = marks(token, true) { strong .mark { "⟨" (marks) "⟩" } }
                span .(class(token, page.range)) title=(title(token)) { (piece(token)) }
                @if let Some(step) = token.step_ends { strong .mark { "⟨step " (step) " ends⟩" } }
            }
        }
    }
}

/// Returns the text of a token, or its id with a space. A line feed has a symbol.
fn piece(token: &TokenRow) -> String {
    match &token.text {
        Some(text) => visible(text).replace('\n', "⏎\n"),
        None => format!("{} ", token.token),
    }
}

fn title(token: &TokenRow) -> String {
    let value = token.value.map(|value| format!(", value {}", number(value))).unwrap_or_default();
    format!("token {} at {}{value}", token.token, token.position)
}

fn class(token: &TokenRow, range: Option<(f64, f64)>) -> String {
    match token.value.zip(range) {
        Some((value, range)) => format!("t{}", level(value, range)),
        None => "t-none".to_string(),
    }
}

/// Returns the color of a value: the lowest value of the range has 0, the highest the last color.
fn level(value: f64, (low, high): (f64, f64)) -> usize {
    if high <= low || !value.is_finite() {
        return LEVELS - 1;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "0 to 9")]
    let level = ((value - low) / (high - low) * LEVELS as f64) as usize;
    level.min(LEVELS - 1)
}

/// Returns what begins with a token, and in a table also what ends.
fn marks(token: &TokenRow, only_begins: bool) -> Option<String> {
    let context = token.context_starts.map(|context| format!("segment {context} begins"));
    let turn = token.turn.filter(|_| token.turn_starts).map(|turn| format!("turn {turn}"));
    let step = token.step_ends.filter(|_| !only_begins).map(|step| format!("step {step} ends"));
    let marks: Vec<String> = [context, turn, step].into_iter().flatten().collect();
    (!marks.is_empty()).then(|| marks.join(", "))
}

fn table(shown: &[TokenRow]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th .n { "Position" } th .n { "Id" } th { "Text" } th .n { "Turn" } th { "In the loss" }
                    th .n { "Value" } th { "Marks" }
                }
            }
            tbody {
                @for token in shown {
                    tr {
                        td .n { (token.position) }
                        td .n { (token.token) }
                        td .mono { @if let Some(text) = &token.text { (visible(&format!("{text:?}"))) } }
                        td .n { @if let Some(turn) = token.turn { (turn) } }
                        td { @if token.mask { "yes" } @else { "no" } }
                        td .n { @if let Some(value) = token.value { (number(value)) } }
                        td { @if let Some(marks) = marks(token, false) { (marks) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_span_the_range() {
        assert_eq!([level(0.0, (0.0, 1.0)), level(1.0, (0.0, 1.0)), level(3.0, (3.0, 3.0))], [0, 8, 8]);
        assert!((0..=100).map(|n| level(f64::from(n), (0.0, 100.0))).is_sorted());
        assert_eq!(level(f64::NAN, (0.0, 1.0)), 8);
    }
}
