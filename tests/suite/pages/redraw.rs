//! Sections of a live page are drawn again: what a reader opened, selected and focused stays.

use super::enabled;
use super::server::PageServer;
use super::webdriver::Browser;
use crate::kit::Sandbox;
use serde_json::{Value, json};

/// Functions of the test on the page: `draw` shows a section, `state` returns what a reader sees of it.
const FUNCTIONS: &str = r#"
    const section = document.createElement('section');
    document.body.append(section);
    const content = (count, before, row) => {
      const template = document.createElement('template');
      template.innerHTML = `${before}<table><tbody><tr><td>1</td></tr>${row}</tbody></table>
        <details><summary>${count} more metrics</summary><a href="a/1">one</a></details>
        <details><summary>As JSON</summary><pre>the configuration</pre></details>`;
      return template.content;
    };
    window.draw = (count, before, row) => replaceSection(section, content(count, before, row));
    window.state = () => ({
      open: [...section.querySelectorAll('details')].filter((details) => details.open)
        .map((details) => details.querySelector('summary').textContent),
      focus: document.activeElement.textContent,
      selected: String(getSelection()),
      rows: section.querySelectorAll('tr').length,
    });
    draw(12, '', '');
    for (const details of section.querySelectorAll('details')) details.open = true;
    section.querySelector('summary').focus();
    getSelection().selectAllChildren(section.querySelector('pre'));"#;

/// Returns what a reader should see.
fn state(open: [&str; 2], focus: &str, selected: &str, rows: u32) -> Value {
    json!({"open": open, "focus": focus, "selected": selected, "rows": rows})
}

#[test]
fn open_details_selection_and_focus_stay_when_a_section_is_drawn_again() {
    if !enabled() {
        return;
    }
    let s = Sandbox::new();
    s.write("small.yaml", "version: 1\nname: small\nstages:\n  one: {uses: noop}\n");
    s.run(&["run", "small.yaml", "--no-pages"]).code(0);
    let server = PageServer::pages(&s);
    let browser = Browser::start(&[]);
    server.enter(&browser, "");
    browser.script(FUNCTIONS, &[]);
    let redraw = |count: u32, before: &str, row: &str| {
        let shown = [json!(count), json!(before), json!(row)];
        browser.script("draw(...arguments); return state()", &shown)
    };
    let row = "<tr><td>2</td></tr>";
    let names = ["13 more metrics", "As JSON"];
    let text = "the configuration";
    assert_eq!(redraw(13, "", row), state(names, "13 more metrics", text, 2), "a number and a row are new");
    browser.script("document.querySelector('a[href=\"a/1\"]').focus()", &[]);
    assert_eq!(redraw(13, "", ""), state(names, "one", text, 1));
    // Other details come before them, and everything is replaced.
    let other = "<details><summary>Other</summary></details>";
    assert_eq!(redraw(14, other, row), state(["14 more metrics", "As JSON"], "one", "", 2));
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}
