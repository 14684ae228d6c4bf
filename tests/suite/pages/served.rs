//! The pages of `serve` change things: a run is cancelled, and a schedule is paused and resumed.

use super::enabled;
use super::server::PageServer;
use super::sweep::assert_no_problems;
use super::webdriver::Browser;
use crate::kit::{Sandbox, wait_for};
use serde_json::Value;

const WORKFLOW: &str = "version: 1\nname: slow\nschedule: {cron: \"0 0 1 1 *\"}\nstages:\n  one:\n    \
    cache: false\n    run: 'while [ ! -e \"$GO\" ]; do echo waiting >&2; sleep 0.1; done'\n    env: {GO: \"@go\"}\n";

fn schedule(s: &Sandbox) -> Value {
    let shown = s.run(&["schedules", "show", "slow", "--format", "json"]);
    if shown.code == 0 { shown.json() } else { Value::Null }
}

#[test]
fn a_run_is_cancelled_and_a_schedule_paused_on_their_pages() {
    if !enabled() {
        return;
    }
    let s = Sandbox::new();
    s.write_placed("workflows/slow.yaml", WORKFLOW);
    let server = PageServer::daemon(&s);
    wait_for("the schedule", 60, || !schedule(&s).is_null());
    let run = s.run(&["schedules", "trigger", "slow", "--format", "json"]).code(0).json()["run"].clone();
    let run = run.as_str().unwrap();
    let status = || s.run(&["runs", "list", "--format", "json"]).json()[0]["status"].clone();
    wait_for("the run", 60, || status() == "running");
    let browser = Browser::start(&[]);
    server.enter(&browser, &format!("runs/{run}"));
    browser.wait_for_text("[data-run='status']", "running", 60);
    press(&browser, "Cancel");
    wait_for("the end of the run", 60, || status() == "cancelled");
    browser.wait_for_text("[data-run='status']", "cancelled", 20);
    server.open(&browser, "schedules/slow");
    press(&browser, "Pause");
    wait_for("the pause", 60, || schedule(&s)["status"] == "paused");
    browser.wait_for_text("main", "paused", 20);
    press(&browser, "Resume the schedule");
    wait_for("the end of the pause", 60, || schedule(&s)["status"] == "active");
    assert_eq!(browser.console_errors(), Vec::<String>::new());
    let pages = ["", "schedules", "schedules/slow", "workflows", "workflows/slow.yaml"].map(str::to_string);
    assert_no_problems(&browser, &server, &pages);
}

/// Clicks a button, and accepts the question that it asks, if any.
fn press(browser: &Browser, button: &str) {
    browser.script("window.confirm = () => true", &[]);
    browser.button(button).click();
}
