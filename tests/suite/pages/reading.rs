//! Tasks of readers on a finished run: from a curve to a rollout, a search, a comparison, and the lineage of a row.

use super::enabled;
use super::scene::Scene;
use super::server::PageServer;
use super::webdriver::Browser;
use serde_json::json;

/// Key Enter of WebDriver.
const ENTER: &str = "\u{e007}";

#[test]
fn readers_reach_what_they_look_for() {
    if !enabled() {
        return;
    }
    let scene = Scene::create();
    let server = PageServer::pages(&scene.sandbox);
    let browser = Browser::start(&[]);
    server.enter(&browser, "");
    browser.find(&format!("a[href$='runs/{}']", scene.run)).click();
    browser.wait_for_text("h1", &scene.run, 20);
    curve_to_rollout(&scene, &server, &browser);
    search(&scene, &server, &browser);
    compare(&scene, &server, &browser);
    lineage(&scene, &server, &browser);
    keys(&scene, &server, &browser);
    assert_eq!(browser.console_errors(), Vec::<String>::new());
}

/// Clicks the first and the last point of a curve, and reads a rollout of that step.
fn curve_to_rollout(scene: &Scene, server: &PageServer, browser: &Browser) {
    for which in ["first", "last"] {
        server.open(browser, &format!("runs/{}/stages/rl", scene.run));
        let mark = format!(
            "const points = [...document.querySelectorAll('svg.chart a circle')].filter((point) => \
               point.ownerSVGElement === document.querySelector('svg.chart')); \
             const point = points[{}]; point.setAttribute('data-tested', ''); \
             point.scrollIntoView({{block: 'center'}})",
            if which == "first" { "0" } else { "points.length - 1" }
        );
        browser.find("svg.chart a circle");
        browser.script(&mark, &[]);
        browser.find("circle[data-tested]").click();
        browser.wait_for_text("h1", "Rollouts of", 20);
        let address = browser.url();
        let step = address.split("step=").nth(1).unwrap_or_else(|| panic!("no step in {address}")).to_string();
        browser.find("tbody a[data-row]").click();
        browser.wait_for_text("h1", "Row ", 20);
        browser.wait_for_text("main", &format!("step {step}"), 20);
    }
}

/// Searches a text in the messages of an artifact.
fn search(scene: &Scene, server: &PageServer, browser: &Browser) {
    server.open(browser, &format!("{}/rollouts", scene.artifact("evaluate", "trajectories")));
    browser.find("#find").type_text(&format!("degrees in Lima{ENTER}"));
    browser.wait_for_text(".found mark", "degrees in Lima", 20);
    assert!(browser.url().contains("find=degrees"), "the search is in the address: {}", browser.url());
    browser.find("tbody a[data-row]").click();
    browser.wait_for_text("main", "It is 3 degrees in Lima.", 20);
}

/// Compares two models: the problem that one answers right and the other wrong, side by side.
fn compare(scene: &Scene, server: &PageServer, browser: &Browser) {
    let page = format!("{}/compare", scene.artifact("evaluate", "results"));
    for (flip, right, wrong) in [("right-wrong", "Bergen", "Lima"), ("wrong-right", "Lima", "Bergen")] {
        server.open(browser, &format!("{page}?a=base&b=tuned&flip={flip}"));
        browser.wait_for_text("main", &format!("in {right}?"), 20);
        assert!(!browser.text("main").contains(&format!("in {wrong}?")), "{flip}: {}", browser.text("main"));
    }
    server.open(browser, &format!("{page}?a=base&b=tuned&flip=right-wrong"));
    browser.find("tbody a[href*='problem=']").click();
    browser.wait_for_text("main", "It is 0 degrees in Bergen.", 20);
    browser.wait_for_text("main", "It is 1 degree in Bergen.", 20);
}

/// Follows a kept row to the file and line that it was read from.
fn lineage(scene: &Scene, server: &PageServer, browser: &Browser) {
    server.open(browser, &scene.artifact("kept", "kept"));
    browser.find("main a[href$='/lineage']").click();
    browser.find("input[name='row']").type_text(&format!("3{ENTER}"));
    browser.wait_for_text("main", "2.jsonl:2", 20);
    browser.wait_for_text("main", "read from", 20);
}

/// Reads rollouts by keys alone.
fn keys(scene: &Scene, server: &PageServer, browser: &Browser) {
    server.open(browser, &format!("{}/rows/0", scene.artifact("rl", "trajectories")));
    browser.find("body").type_text("j");
    browser.wait_for_text("h1", "Row 1", 20);
    browser.find("body").type_text("k");
    browser.wait_for_text("h1", "Row 0", 20);
    browser.find("body").type_text("/");
    let focused = browser.script("return document.activeElement.id", &[]);
    assert_eq!(focused, json!("find"));
}
