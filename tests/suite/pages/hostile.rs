//! Rows with scripts, links, terminal codes, direction marks and 10 MB of text stay text.

use super::enabled;
use super::server::PageServer;
use super::webdriver::Browser;
use crate::kit::Sandbox;
use serde_json::json;

const WORKFLOW: &str =
    "version: 1\nname: hostile\nstages:\n  chats: {uses: data/import, with: {source: hostile.jsonl}}\n";
/// Texts that would run, lead elsewhere or change the order of letters if they were more than text.
const TEXTS: [&str; 5] = [
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "[click](javascript:document.title='owned') javascript:document.title='owned'",
    "\u{1b}[31mred\u{1b}]0;owned\u{7}",
    "a\u{202e}b\u{2066}c",
    "\"><svg onload=document.title='owned'> <a href=\"javascript:1\">x</a>",
];
/// Bytes of the long message.
const LONG: usize = 10_000_000;
/// Maximum characters of a page's HTML.
const MAX_PAGE: u64 = 2_000_000;

#[test]
fn hostile_rows_stay_text() {
    if !enabled() {
        return;
    }
    let s = Sandbox::new();
    let chat = |text: &str| {
        let messages = json!([{"role": "user", "content": text}, {"role": "assistant", "content": text}]);
        format!("{}\n", json!({"messages": messages}))
    };
    let long = "x".repeat(LONG);
    s.write("hostile.jsonl", TEXTS.into_iter().chain([long.as_str()]).map(chat).collect::<String>());
    s.write("hostile.yaml", WORKFLOW);
    s.run(&["run", "hostile.yaml", "--no-pages"]).code(0);
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let artifact = format!("artifacts/{}/trajectories", shown["stages"][0]["digest"].as_str().unwrap());
    let server = PageServer::pages(&s);
    let browser = Browser::start(&[]);
    server.enter(&browser, "");
    let rows = (0..=TEXTS.len()).map(|row| format!("{artifact}/rows/{row}"));
    let lists = ["rollouts", "rows"].map(|list| format!("{artifact}/{list}"));
    for page in rows.chain(lists).chain([artifact.clone()]) {
        server.open(&browser, &page);
        let title = browser.script("return document.title", &[]);
        assert!(title.as_str().unwrap().ends_with("Trainyard"), "{page}: a script of a row ran: {title}");
        let elements = "return document.querySelectorAll('main script, main img, main svg[onload], \
            a[href^=\"javascript:\"]').length";
        assert_eq!(browser.script(elements, &[]), json!(0), "{page}");
        let marks = "return /[\\u0000-\\u0008\\u001b\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)";
        assert_eq!(browser.script(marks, &[]), json!(false), "{page} has control or direction characters");
        let size = browser.script("return document.documentElement.outerHTML.length", &[]);
        assert!(size.as_u64().unwrap() < MAX_PAGE, "{page} has {size} characters");
        assert_eq!(browser.console_errors(), Vec::<String>::new(), "{page}");
    }
    for (row, part) in ["<script>document.title", "[click](javascript:", "\\u{1b}[31mred", "a\\u{202e}b\\u{2066}c"]
        .into_iter()
        .enumerate()
    {
        server.open(&browser, &format!("{artifact}/rows/{row}"));
        browser.wait_for_text("main", part, 20);
    }
}
