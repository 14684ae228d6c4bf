//! Pages in a real browser: tasks of readers, widths, themes, keys, accessibility, hostile text, and the static site.
//!
//! `TRAINYARD_TEST_BROWSER=1` turns these tests on, and `TRAINYARD_TEST_AXE=axe.min.js` the rules of accessibility. The
//! step `browser` of `.ci/run` sets both. `TRAINYARD_TEST_PICTURES=FOLDER` keeps a picture of every page.

mod hostile;
mod live;
mod long;
mod reading;
mod redraw;
mod scene;
mod served;
mod server;
mod site;
mod sweep;
mod webdriver;

use crate::kit::skipped;

/// Returns whether these tests run here. Otherwise reports a skip.
#[track_caller]
fn enabled() -> bool {
    let is_on = std::env::var_os("TRAINYARD_TEST_BROWSER").is_some_and(|value| value == "1");
    if !is_on {
        skipped("TRAINYARD_TEST_BROWSER is not 1");
    }
    is_on
}
