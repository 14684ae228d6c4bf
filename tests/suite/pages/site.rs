//! The static site of a run opens from a disk: every page, its links and the selection of rollouts.

use super::enabled;
use super::scene::Scene;
use super::webdriver::Browser;
use crate::kit::Sandbox;
use serde_json::json;
use std::path::Path;

fn address(folder: &Path, file: &str) -> String {
    format!("file://{}/{file}", folder.display())
}

#[test]
fn a_site_opens_from_a_disk() {
    if !enabled() {
        return;
    }
    let scene = Scene::create();
    let s = &scene.sandbox;
    s.run(&["report", &scene.run, "--site", "site"]).code(0).prints(" rollouts; open site/index.html");
    let folder = s.path("site");
    let browser = Browser::start(&[]);
    for file in s.files("site").iter().filter(|file| file.ends_with(".html")) {
        browser.open(&address(&folder, file));
        assert_eq!(browser.console_errors(), Vec::<String>::new(), "{file}");
        let styled = browser.script("return getComputedStyle(document.querySelector('.top')).display", &[]);
        assert_eq!(styled, json!("flex"), "{file} has no style");
    }
    browser.open(&address(&folder, "index.html"));
    browser.find("main a[href*='/rollouts/']").click();
    browser.wait_for_text("#selected-rows", "rows shown", 20);
    browser.find("tbody a[data-row]").click();
    browser.wait_for_text("h1", "Row ", 20);
    let list = s.files("site").into_iter().find(|file| file.ends_with("/rollouts/index.html")).unwrap();
    browser.open(&format!("{}?step=nothing", address(&folder, &list)));
    browser.wait_for_text("#selected-rows", "0 of ", 20);
}

#[test]
fn a_site_is_written_once_and_for_a_run_that_exists() {
    let s = Sandbox::new();
    s.write("small.yaml", "version: 1\nname: small\nstages:\n  one: {uses: noop}\n");
    s.run(&["run", "small.yaml", "--no-pages"]).code(0);
    s.run(&["report", "nope", "--site", "site"]).code(2).says("no run is called `nope`");
    s.run(&["report", "latest", "--site", "site"]).code(0).prints("open site/index.html");
    assert!(s.read("site/index.html").contains("small"));
    s.run(&["report", "latest", "--site", "site"]).code(2).says("is not empty").says("name another folder");
    s.run(&["report", "latest"]).code(2).says("--site <DIR>");
}
