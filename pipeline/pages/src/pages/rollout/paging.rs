//! Links and a form that lead to the other parts of a long row.

use maud::{Markup, html};

/// Part of a row that a page shows.
pub struct Paging {
    /// Name of the counted parts: `Messages` or `Tokens`.
    pub many: &'static str,
    /// One of them, for the form.
    pub one: &'static str,
    /// Id of the heading above the part, which links and the form lead to.
    pub anchor: &'static str,
    /// First of the page before; `None` on the first page.
    pub previous: Option<usize>,
    /// First of the page after; `None` on the last page.
    pub next: Option<usize>,
    /// First of the last page.
    pub last: usize,
    /// Number of all.
    pub count: usize,
}

impl Paging {
    fn is_paged(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}

/// Links to the first, previous, next and last part; `address` is that of the part from a number on, without anchor.
pub fn links(paging: &Paging, address: impl Fn(usize) -> String) -> Markup {
    let lower = paging.many.to_lowercase();
    let address = |from: usize| format!("{}#{}", address(from), paging.anchor);
    html! {
        @if paging.is_paged() {
            nav .pages aria-label=(paging.many) {
                @if paging.previous.is_some_and(|from| from > 0) { a href=(address(0)) { "First " (lower) } }
                @if let Some(from) = paging.previous { a href=(address(from)) { (paging.many) " before" } }
                @if let Some(from) = paging.next { a href=(address(from)) { (paging.many) " after" } }
                @if paging.next.is_some_and(|from| from < paging.last) {
                    a href=(address(paging.last)) { "Last " (lower) }
                }
            }
        }
    }
}

/// Leads to a number, with these other parameters in the address.
pub fn form(paging: &Paging, kept: &[(&str, &str)]) -> Markup {
    html! {
        @if paging.is_paged() {
            form .filters method="get" action=(format!("#{}", paging.anchor)) {
                @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
                label {
                    (paging.one) " number"
                    input type="number" name="from" min="0" max=(paging.count - 1) required;
                }
                button type="submit" { "Go to" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(previous: Option<usize>, next: Option<usize>) -> String {
        let paging = Paging { many: "Messages", one: "Message", anchor: "a", previous, next, last: 90, count: 100 };
        links(&paging, |from| format!("?from={from}")).into_string()
    }

    #[test]
    fn every_part_is_one_link_away_from_the_ends() {
        let middle = shown(Some(20), Some(60));
        let links = ["0#a\">First messages", "20#a\">Messages before", "60#a\">Messages after", "90#a\">Last messages"];
        for link in links {
            assert!(middle.contains(&format!("?from={link}<")), "{link} is not in {middle}");
        }
        let first = shown(None, Some(90));
        assert!(!first.contains("First") && !first.contains("Last"), "the next part is the last: {first}");
        let second = shown(Some(0), None);
        assert!(second.contains("Messages before") && !second.contains("First"), "{second}");
        assert_eq!(shown(None, None), "", "one part");
    }

    #[test]
    fn the_form_keeps_the_other_parameters() {
        let paging = Paging {
            many: "Tokens",
            one: "Token",
            anchor: "tokens",
            previous: None,
            next: Some(9),
            last: 9,
            count: 12,
        };
        let html = form(&paging, &[("tokens", "<b>")]).into_string();
        assert!(html.contains(r#"name="tokens" value="&lt;b&gt;""#) && html.contains(r#"max="11""#), "{html}");
    }
}
