//! Every page at two widths and in two themes: no sideways scroll, no error in the console, no serious or critical
//! violation of the rules of accessibility.

use super::enabled;
use super::scene::Scene;
use super::server::PageServer;
use super::webdriver::Browser;
use crate::kit::skipped;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Widths and heights of a desktop and of a telephone.
const SIZES: [(u32, u32); 2] = [(1280, 900), (390, 844)];
/// Passes the violations of a page to the callback: rule, impact, the first elements.
const VIOLATIONS: &str = "const done = arguments[arguments.length - 1];
    const isBad = (violation) => ['serious', 'critical'].includes(violation.impact);
    const shown = (violation) => `${violation.id} (${violation.impact}): ` +
      violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' | ');
    axe.run(document, {resultTypes: ['violations']})
      .then((found) => done(found.violations.filter(isBad).map(shown)), (error) => done([String(error)]));";

/// Returns the paths of all pages: every kind of page, and its states that look different. A new page belongs here.
fn all_pages(scene: &Scene) -> Vec<String> {
    let (run, cached) = (&scene.run, &scene.cached);
    let (rollouts, results) = (scene.artifact("rl", "trajectories"), scene.artifact("evaluate", "results"));
    let (kept, chats) = (scene.artifact("kept", "kept"), scene.artifact("chats", "trajectories"));
    let problem = scene.first("rl/trajectories", "select problem_id from self limit 1");
    let problem = problem.as_str().unwrap();
    let mut pages: Vec<String> =
        ["", "?tag=none", "artifacts", "recipes", "stages", "stages/rl"].into_iter().map(str::to_string).collect();
    pages.extend([
        format!("runs/{run}"),
        format!("runs/{run}?log=1&smooth=0.5&metrics=all"),
        format!("runs/{run}/stages/rl"),
        format!("runs/{run}/stages/sft%5Bseed%3D1%5D"),
        format!("runs/{run}/stages/chats"),
        format!("runs/{cached}/stages/rl"),
        format!("runs/{run}/sweep"),
        format!("runs/{run}/tags"),
        format!("runs/{run}/diff/{cached}"),
        rollouts.clone(),
        scene.artifact("rl", "model"),
        scene.artifact("evaluate", "report"),
        scene.artifact("problems", "problems"),
        format!("{rollouts}/rollouts"),
        format!("{rollouts}/rollouts?verdict=wrong&sort=-reward"),
        format!("{rollouts}/rollouts?find=no+such+text"),
        format!("{rollouts}/rollouts?step=9999"),
        format!("{rollouts}/groups/0"),
        format!("{rollouts}/groups/0?step=0&problem={problem}"),
        format!("{rollouts}/problems/{problem}"),
        format!("{rollouts}/rows/0"),
        format!("{rollouts}/rows/0?find=e"),
        format!("{rollouts}/rows/0?tokens=logprob"),
        format!("{rollouts}/rows/0?tokens=logprob&as=table"),
        format!("{results}/rows/0"),
        format!("{results}/rows"),
        format!("{results}/compare?a=base&b=tuned"),
        format!("{results}/query"),
        format!("{kept}/rows"),
        format!("{kept}/verdicts"),
        format!("{kept}/lineage"),
        format!("{kept}/lineage?row=0"),
        format!("{chats}/lineage?row=0&forward=1"),
    ]);
    pages
}

/// Returns the program of the rules, if `TRAINYARD_TEST_AXE` names it.
fn rules() -> Option<String> {
    let Some(file) = std::env::var_os("TRAINYARD_TEST_AXE") else {
        skipped("TRAINYARD_TEST_AXE names no axe.min.js");
        return None;
    };
    Some(std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", PathBuf::from(&file).display())))
}

#[test]
fn every_page_fits_its_width_in_both_themes_without_errors_and_barriers() {
    if !enabled() {
        return;
    }
    let scene = Scene::create();
    let server = PageServer::pages(&scene.sandbox);
    let browser = Browser::start(&[]);
    server.enter(&browser, "");
    assert_no_problems(&browser, &server, &all_pages(&scene));
}

/// Opens pages at each size and in each theme, and reports all that is wrong with them.
#[track_caller]
pub fn assert_no_problems(browser: &Browser, server: &PageServer, pages: &[String]) {
    let rules = rules();
    let mut problems = Vec::new();
    for page in pages {
        server.open(browser, page);
        let status = browser.script("return performance.getEntriesByType('navigation')[0].responseStatus", &[]);
        if status != json!(200) {
            problems.push(format!("{page}: status {status}: {}", browser.text("main")));
            continue;
        }
        for theme in ["light", "dark"] {
            browser.prefer_scheme(theme);
            for (width, height) in SIZES {
                browser.set_size(width, height);
                let scrolled = browser.script("return document.scrollingElement.scrollWidth", &[]);
                if scrolled.as_u64().unwrap() > u64::from(width) {
                    problems.push(format!("{page}: {scrolled} px wide in {width}: {}", widest(browser, width)));
                }
                keep_picture(browser, page, &format!("{theme}-{width}"));
            }
            problems.extend(browser.console_errors().into_iter().map(|error| format!("{page}: {error}")));
            let violations = violations(browser, rules.as_deref());
            problems.extend(violations.into_iter().map(|violation| format!("{page}, {theme}: {violation}")));
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn the_chosen_theme_precedes_that_of_the_system_and_stays() {
    if !enabled() {
        return;
    }
    let scene = crate::kit::Sandbox::new();
    scene.write("small.yaml", "version: 1\nname: small\nstages:\n  one: {uses: noop}\n");
    scene.run(&["run", "small.yaml", "--no-pages"]).code(0);
    let server = PageServer::pages(&scene);
    let browser = Browser::start(&["--force-dark-mode"]);
    browser.prefer_scheme("dark");
    server.enter(&browser, "");
    let background = || browser.script("return getComputedStyle(document.body).backgroundColor", &[]);
    let dark = background();
    browser.find("#theme").click();
    let light = background();
    assert_ne!(dark, light);
    assert_eq!(browser.script("return document.documentElement.dataset.theme", &[]), json!("light"));
    server.open(&browser, "runs/latest");
    assert_eq!(background(), light, "the choice holds on other pages");
    browser.find("#theme").click();
    assert_eq!(background(), dark);
    browser.prefer_scheme("light");
    server.open(&browser, "");
    assert_eq!(background(), dark, "the choice precedes the system's");
}

/// Names the elements that reach over the right edge outside of a scrolling box.
fn widest(browser: &Browser, width: u32) -> Value {
    let script = "return [...document.querySelectorAll('main *')].filter((element) => !element.closest('.scroll')
        && element.getBoundingClientRect().right > arguments[0] + 1)
      .slice(0, 4).map((element) => element.outerHTML.slice(0, 160))";
    browser.script(script, &[json!(width)])
}

/// Returns the violations of a page, at the size and in the theme that it has.
fn violations(browser: &Browser, rules: Option<&str>) -> Vec<String> {
    let Some(rules) = rules else { return Vec::new() };
    if browser.script("return typeof axe === 'undefined'", &[]) == json!(true) {
        browser.script(rules, &[]);
    }
    let found = browser.async_script(VIOLATIONS, &[]);
    // Errors that the rules themselves cause are dropped.
    browser.console_errors();
    found.as_array().unwrap().iter().map(|violation| violation.as_str().unwrap_or_default().to_string()).collect()
}

/// Writes a picture into the folder of `TRAINYARD_TEST_PICTURES`, if it is set.
fn keep_picture(browser: &Browser, page: &str, state: &str) {
    let Some(folder) = std::env::var_os("TRAINYARD_TEST_PICTURES") else { return };
    let name: String = page.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    // A digest of 64 digits is in the middle; the beginning and the end name the page.
    let name = name.split('-').filter(|part| part.len() < 40).collect::<Vec<_>>().join("-");
    browser.screenshot(&PathBuf::from(folder).join(format!("{}-{state}.png", name.trim_matches('-'))));
}
