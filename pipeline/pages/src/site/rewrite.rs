//! Changes the addresses of a rendered page into those of files.
//!
//! The templates write every tag with attributes in double quotes, and escape `<`, `>`, `&` and `"` in texts and
//! values, so a `<` always begins a tag.

use super::map::SiteMap;
use std::fmt::Write as _;

/// Attributes with an address.
const ADDRESSES: [&str; 2] = ["href", "src"];
/// Attributes of scripts that need the server or follow a link.
const DYNAMIC: [&str; 2] = ["data-events", "data-key"];

/// Returns the page at `page` with addresses of files. A link to a page that the site does not have loses its address,
/// which leaves its text. Forms are left out, since they need the server.
pub fn rewrite(html: &str, page: &str, map: &SiteMap) -> String {
    let mut written = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        written.push_str(&rest[..at]);
        rest = &rest[at..];
        if is_tag(rest, "<form") {
            rest = after(rest, "</form>");
            continue;
        }
        let (tag, behind) = split_tag(rest);
        write_tag(&mut written, tag, page, map);
        rest = behind;
    }
    written.push_str(rest);
    written
}

fn is_tag(text: &str, begin: &str) -> bool {
    text.strip_prefix(begin).is_some_and(|rest| rest.starts_with([' ', '>']))
}

fn after<'t>(text: &'t str, end: &str) -> &'t str {
    text.find(end).map_or("", |at| &text[at + end.len()..])
}

/// Splits a text that begins with a tag after it.
fn split_tag(text: &str) -> (&str, &str) {
    let mut is_quoted = false;
    let end = text.bytes().position(|byte| {
        is_quoted ^= byte == b'"';
        byte == b'>' && !is_quoted
    });
    text.split_at(end.map_or(text.len(), |end| end + 1))
}

fn write_tag(written: &mut String, tag: &str, page: &str, map: &SiteMap) {
    let Some(mut rest) = tag.find(' ').filter(|_| !tag.starts_with("<!")).map(|at| &tag[at..]) else {
        written.push_str(tag);
        return;
    };
    written.push_str(&tag[..tag.len() - rest.len()]);
    while let Some((name, value, behind)) = attribute(rest) {
        rest = behind;
        if DYNAMIC.contains(&name) {
            continue;
        }
        let Some(value) = value else {
            let _ = write!(written, " {name}");
            continue;
        };
        if !ADDRESSES.contains(&name) {
            let _ = write!(written, " {name}=\"{value}\"");
        } else if let Some(address) = map.address(page, &unescaped(value)) {
            let _ = write!(written, " {name}=\"{}\"", escaped(&address));
        }
    }
    written.push_str(rest);
}

/// Returns the first attribute (name, value) and the text after it.
fn attribute(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let text = text.trim_start();
    let end = text.find([' ', '=', '>'])?;
    let (name, rest) = text.split_at(end);
    if name.is_empty() || name == "/" {
        return None;
    }
    match rest.strip_prefix("=\"") {
        Some(value) => value.split_once('"').map(|(value, rest)| (name, Some(value), rest)),
        None => Some((name, None, rest)),
    }
}

fn unescaped(value: &str) -> String {
    value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn escaped(value: &str) -> String {
    value.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use maud::html;

    fn rewritten(markup: maud::Markup) -> String {
        let mut map = SiteMap::default();
        map.add("/");
        map.add("/runs/r");
        map.add_list("/artifacts/d/o/rollouts");
        map.add_asset("script.js");
        rewrite(&markup.into_string(), "/runs/r", &map)
    }

    #[test]
    fn links_lead_to_files_or_are_text() {
        let list = "../artifacts/d/o/rollouts?step=1&problem=x";
        let page = html! {
            script src="../assets/script.js" defer {}
            a .mono href="../" title="a > b" { "All" } a href=(list) { "of step 1" }
            a data-row href="../runs/gone" data-key="j" { "gone" }
            div #live data-events="r/events" { "x" }
        };
        assert_eq!(
            rewritten(page),
            "<script src=\"../../assets/script.js\" defer></script>\
             <a class=\"mono\" href=\"../../index.html\" title=\"a &gt; b\">All</a>\
             <a href=\"../../artifacts/d/o/rollouts/index.html?step=1&amp;problem=x\">of step 1</a>\
             <a data-row>gone</a><div id=\"live\">x</div>"
        );
    }

    #[test]
    fn forms_are_left_out_and_texts_stay() {
        let page = html! {
            (maud::DOCTYPE)
            p { "<form> a=\"b\" " br; "ü" }
            form method="get" { label { "Find" input name="find" value="</form>"; } }
            footer { "end" }
        };
        let expected = "<!DOCTYPE html><p>&lt;form&gt; a=&quot;b&quot; <br>ü</p><footer>end</footer>";
        assert_eq!(rewritten(page), expected);
    }

    #[test]
    fn hostile_addresses_lose_their_link() {
        let page = html! { a href="javascript:alert(1)" { "x" } a href="\"><script>" { "y" } };
        assert_eq!(rewritten(page), "<a>x</a><a>y</a>");
    }
}
