//! A rollout of 33,000 messages and 66,000 tokens is read from end to end: every part is reached by links and is small.
//! Times of frames are printed, since a test on a busy machine cannot assert them; `benches/pages` records them.

use super::enabled;
use super::server::PageServer;
use super::webdriver::Browser;
use crate::kit::Sandbox;
use serde_json::{Value, json};

/// Messages of the rollout.
const MESSAGES: usize = 33_000;
/// Tokens of the rollout.
const TOKENS: usize = 66_000;
/// Maximum elements of a page.
const ELEMENTS: u64 = 3_000;
/// Key Enter of WebDriver.
const ENTER: &str = "\u{e007}";

/// Imported messages have no tokens: those of the second stage are the numbers of the rows of a table.
const WORKFLOW: &str = r"
version: 1
name: long
stages:
  chats: {uses: data/import, with: {source: long.jsonl}}
  numbers: {uses: data/import, with: {source: numbers.jsonl}}
  long:
    uses: data/frame
    with:
      chats: ${{ stages.chats.trajectories }}
      numbers: ${{ stages.numbers.problems }}
      output: trajectories
      sql: >-
        select chats.* replace (ids as token_ids, mask as loss_mask, turns_of as turn, probabilities as logprobs)
        from chats cross join (
          select array_agg(cast(answer as integer)) as ids,
            array_agg(cast(answer as integer) % 2 = 1) as mask,
            array_agg(cast(floor(cast(answer as integer) / 4) as integer)) as turns_of,
            array_agg(cast(answer as float) / -66000.0) as probabilities
          from numbers) tokens
";

/// Function that scrolls the page and measures the frames.
const SCROLL: &str = include_str!("../../../benches/pages/scroll.js");

#[test]
fn a_rollout_of_33_000_messages_is_read_in_small_parts() {
    if !enabled() {
        return;
    }
    let s = Sandbox::new();
    s.write("long.jsonl", format!("{}\n", json!({"messages": messages()})));
    let number = |n: usize| {
        format!("{}\n", json!({"id": format!("n{n}"), "question": format!("n{n}"), "answer": n.to_string()}))
    };
    s.write("numbers.jsonl", (0..TOKENS).map(number).collect::<String>());
    s.write("long.yaml", WORKFLOW);
    s.run(&["run", "long.yaml", "--no-pages"]).code(0);
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let stages = shown["stages"].as_array().unwrap();
    let long = stages.iter().find(|row| row["stage"] == "long").unwrap();
    let server = PageServer::pages(&s);
    let browser = Browser::start(&[]);
    server.enter(&browser, &format!("artifacts/{}/trajectories/rollouts", long["digest"].as_str().unwrap()));
    browser.find("tbody a[data-row]").click();
    browser.wait_for_text("h1", "Row 0", 20);
    let row = browser.url();
    conversation(&browser);
    found_in_the_artifact(&browser, &row);
    found_in_the_rollout(&browser, &row);
    tokens(&browser, &row);
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

/// Returns a question, calls with their results in turn, and a last answer.
fn messages() -> Vec<Value> {
    let message = |n: usize| match n {
        0 => json!({"role": "user", "content": "Which file has the mistake?"}),
        _ if n == MESSAGES - 1 => json!({"role": "assistant", "content": format!("The answer of message {n}.")}),
        _ if n % 2 == 1 => json!({"role": "assistant", "content": format!("Step {n}."), "tool_calls": [{
            "id": format!("c{n}"), "type": "function",
            "function": {"name": "read_file", "arguments": json!({"path": format!("src/{n}.rs")}).to_string()},
        }]}),
        _ => json!({"role": "tool", "name": "read_file", "tool_call_id": format!("c{}", n - 1),
            "content": format!("The contents of file {n}.\nline two")}),
    };
    (0..MESSAGES).map(message).collect()
}

/// Reads the first and the second part of the messages, the last one and the one before it, and one in the middle.
fn conversation(browser: &Browser) {
    assert_small(browser, "the first messages");
    assert_message(browser, 1, "Step 1.");
    follow(browser, "Messages after");
    assert_small(browser, "the second messages");
    follow(browser, "Last messages");
    assert_message(browser, MESSAGES - 1, "The answer of message 32999.");
    assert_small(browser, "the last messages");
    follow(browser, "Messages before");
    assert_small(browser, "the messages before the last");
    follow(browser, "First messages");
    assert_message(browser, 0, "Which file has the mistake?");
    browser.find("main input[type='number'][name='from']").type_text(&format!("16000{ENTER}"));
    browser.find("#m16000");
    assert_message(browser, 16_000, "The contents of file 16000.");
    assert_small(browser, "messages in the middle");
}

/// Searches all rollouts of the artifact for the text of the last message, and follows the match to it.
fn found_in_the_artifact(browser: &Browser, row: &str) {
    browser.open(row);
    browser.find("#find").type_text(&format!("answer of message 32999{ENTER}"));
    browser.wait_for_text(".found mark", "answer of message 32999", 60);
    assert_small(browser, "rollouts with a text");
    browser.find("tbody a[data-row]").click();
    browser.find("#m32999");
    assert_message(browser, MESSAGES - 1, "The answer of message 32999.");
}

/// Searches this rollout for a text that half of its messages have, and reads the last match.
fn found_in_the_rollout(browser: &Browser, row: &str) {
    browser.open(row);
    browser.find("main form[aria-label='This rollout'] input").type_text(&format!("contents of file{ENTER}"));
    browser.wait_for_text("main", "16,499 messages have the text.", 20);
    assert_small(browser, "the first matches");
    follow(browser, "Last matches");
    assert_small(browser, "the last matches");
    follow(browser, "Message 32998");
    assert_message(browser, 32_998, "The contents of file 32998.");
}

/// Reads the first and the last tokens, as a text and as a table.
fn tokens(browser: &Browser, row: &str) {
    browser.open(row);
    follow(browser, "Tokens by logprob");
    browser.find("span[title^='token 0 at 0']");
    assert_small(browser, "the first tokens");
    follow(browser, "Last tokens");
    browser.find("span[title^='token 65999 at 65999']");
    assert_small(browser, "the last tokens");
    follow(browser, "Show as a table");
    browser.wait_for_text("main th", "Position", 20);
    assert_small(browser, "tokens as a table");
}

/// Follows the first link with this text to another address.
#[track_caller]
fn follow(browser: &Browser, text: &str) {
    let mark = "const wanted = (link) => link.innerText.trim() === arguments[0]; \
        const found = [...document.querySelectorAll('main a')].find(wanted); \
        if (found) found.setAttribute('data-tested', ''); return Boolean(found)";
    let before = browser.url();
    assert_eq!(browser.script(mark, &[json!(text)]), json!(true), "{before} has no link {text:?}");
    browser.find("a[data-tested]").click();
    crate::kit::wait_for(&format!("the page behind {text:?}"), 20, || browser.url() != before);
    browser.find("main");
}

/// Checks that a message of the page has a text.
#[track_caller]
fn assert_message(browser: &Browser, number: usize, text: &str) {
    browser.wait_for_text(&format!("#m{number}"), text, 20);
}

/// Checks the number of elements of the page, and prints the times of its frames.
#[track_caller]
fn assert_small(browser: &Browser, place: &str) {
    let elements = browser.script("return document.querySelectorAll('*').length", &[]);
    let scrolled = browser.async_script(&format!("({SCROLL})(arguments[arguments.length - 1])"), &[]);
    eprintln!(
        "{place}: {elements} elements, {} frames, longest {:.1} ms, tasks over 50 ms: {}",
        scrolled["frames"],
        scrolled["longest"].as_f64().unwrap_or_default(),
        scrolled["tasks"]
    );
    assert!(elements.as_u64().unwrap() <= ELEMENTS, "{place}, {}: {elements} elements", browser.url());
    assert_eq!(scrolled["isAtEnd"], json!(true), "{place}, {}: the end is not reached", browser.url());
}
