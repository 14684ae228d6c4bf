//! A run that trains is watched until its end without a reload.

use super::enabled;
use super::server::{PageServer, printed_url};
use super::webdriver::Browser;
use crate::kit::{Sandbox, wait_for};
use crate::processes::Killed;
use serde_json::json;
use std::process::Stdio;

const WORKFLOW: &str = r#"
version: 1
name: live
stages:
  slow:
    cache: false
    run: 'n=0; while [ ! -e "$GO" ]; do n=$((n + 1)); echo "line $n" >&2; sleep 0.2; done'
    env: {GO: "@go"}
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {rl: {levels: {1: 4}}, demonstrations: {levels: {1: 4}}}}
  base:
    uses: model/init
    with: {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}
  rl:
    uses: rl
    needs: [slow]
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems_rl }}
      filters: []
      steps: 3
      problems_per_step: 2
      rollout: {group_size: 2, max_turn_tokens: 8}
"#;

#[test]
fn a_run_is_watched_until_its_end_without_a_reload() {
    if !enabled() {
        return;
    }
    let s = Sandbox::new();
    s.write_placed("live.yaml", WORKFLOW);
    let mut command = s.command(&["run", "live.yaml", "--pages-bind", "127.0.0.1:0"]);
    let mut run = Killed(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    // The run prints the address of pages that end with it; another server also shows its end.
    let own = printed_url(&mut run.0);
    let id = own.split("/runs/").nth(1).and_then(|rest| rest.split('?').next()).expect("a run in the address");
    let server = PageServer::pages(&s);
    let browser = Browser::start(&[]);
    browser.open(&own);
    browser.wait_for_text("h1", id, 20);
    server.enter(&browser, &format!("runs/{id}/stages/slow"));
    browser.wait_for_text("#log", "line 1", 60);
    browser.script("window.opened = 'once'", &[]);
    browser.wait_for_text("#log", "line 9", 60);
    assert_eq!(browser.script("return window.opened", &[]), json!("once"), "the log grew without a reload");
    server.open(&browser, &format!("runs/{id}"));
    browser.wait_for_text("[data-run='status']", "running", 20);
    browser.script("window.opened = 'once'", &[]);
    s.write("go", "");
    browser.wait_for_text("[data-run='status']", "succeeded", 120);
    browser.wait_for_text("[data-run='done']", "4 of 4", 20);
    browser.wait_for_text("[data-fragment='curves']", "reward", 20);
    assert_eq!(browser.script("return window.opened", &[]), json!("once"), "the page was loaded again");
    assert_eq!(browser.console_errors(), Vec::<String>::new());
    wait_for("the end of the run", 60, || run.0.try_wait().unwrap().is_some_and(|status| status.success()));
}
