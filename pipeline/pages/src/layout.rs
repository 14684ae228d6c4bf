//! Frame of all pages: head, navigation, path to the page, footer.

use crate::areas::{self, Area};
use crate::links::Links;
use crate::text::{status_symbol, visible};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Content security policy of a page that is a file. Browsers do not count files of a disk as of one origin.
const STATIC_POLICY: &str = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; \
    img-src 'self' file: data:; form-action 'none'; base-uri 'none'";

/// A complete page.
#[derive(Debug, Clone)]
pub struct Document(pub Markup);

/// Title of a page and the pages above it.
#[derive(Debug, Clone, Default)]
pub struct Heading {
    /// Name of the page.
    pub title: String,
    /// Name in the navigation that is marked; empty for none.
    pub area: &'static str,
    /// Pages above, from the root: address and name.
    pub above: Vec<(String, String)>,
}

impl Heading {
    /// Returns the heading of a page of an area of the navigation.
    pub fn new(area: &Area, title: impl Into<String>) -> Self {
        Self { title: title.into(), area: area.name, above: Vec::new() }
    }
    /// Adds a page above, below those added before.
    #[must_use]
    pub fn below(mut self, address: impl Into<String>, name: impl Into<String>) -> Self {
        self.above.push((address.into(), name.into()));
        self
    }
}

/// Puts the content of a page into its frame.
pub fn document(links: &Links, heading: &Heading, content: &Markup) -> Document {
    Document(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                @if links.is_static() { meta http-equiv="Content-Security-Policy" content=(STATIC_POLICY); }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (visible(&heading.title)) " · Trainyard" }
                link rel="icon" href=(links.asset("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(links.asset("style.css"));
                script src=(links.asset("theme.js")) {}
                script src=(links.asset("script.js")) defer {}
                script src=(links.asset("rollout.js")) defer {}
                script src=(links.asset("live.js")) defer {}
                @if links.is_static() { script src=(links.asset("site.js")) defer {} }
            }
            body {
                a .skip href="#content" { "Skip to the content" }
                (navigation(links, heading.area))
                main #content tabindex="-1" {
                    (path(heading))
                    h1 { (visible(&heading.title)) }
                    (content)
                }
                footer {
                    "Trainyard " (env!("CARGO_PKG_VERSION"))
                    @if links.is_static() { ", static copy" }
                    ". Times without a zone are UTC."
                }
            }
        }
    })
}

fn navigation(links: &Links, area: &str) -> Markup {
    html! {
        header .top {
            nav aria-label="Areas" {
                ul {
                    li .brand { a href=(links.to(&[])) { "Trainyard" } }
                    @let of_daemon = areas::OF_DAEMON.into_iter().filter(|_| links.has_daemon);
                    @for Area { name, path } in areas::ALL.into_iter().chain(of_daemon).filter(|_| !links.is_static()) {
                        li { a href=(links.to(path)) aria-current=[(name == area).then_some("page")] { (name) } }
                    }
                }
            }
            button #theme type="button" aria-label="Switch between light and dark" title="Light or dark" hidden { "◐" }
        }
    }
}

fn path(heading: &Heading) -> Markup {
    html! {
        @if !heading.above.is_empty() {
            nav .path aria-label="Path" {
                ol {
                    @for (address, name) in &heading.above {
                        li { a href=(address) { (visible(name)) } }
                    }
                }
            }
        }
    }
}

/// Returns a status as a word with a symbol, so that its color is only an addition.
pub fn status(status: &str) -> Markup {
    let symbol = status_symbol(status);
    html! { span .status data-status=(status) { span aria-hidden="true" { (symbol) " " } (visible(status)) } }
}

/// Returns a note about an empty list.
pub fn empty(text: &str) -> Markup {
    html! { p .empty { (text) } }
}

/// Wraps a table, so that a wide one scrolls by itself and the page does not.
pub fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div .scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        let Self(PreEscaped(html)) = self;
        let mut response = html.into_response();
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
