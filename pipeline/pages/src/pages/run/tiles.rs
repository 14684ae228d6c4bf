//! Tiles of a run: status, time, stages done, and the progress of the running stage.

use crate::layout::status;
use crate::live::LiveTexts;
use crate::progress::{ProgressText, metric};
use crate::text;
use maud::{Markup, html};
use std::collections::BTreeMap;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::{Clock, StageKey};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_views::status::{elapsed_millis, stages_over, state};

/// Returns the tiles. The script updates the elements with `data-run`.
pub fn tiles(view: &RunView, progress: &BTreeMap<StageKey, ProgressRecord>, clock: &dyn Clock) -> Markup {
    let texts = texts(view, progress, clock);
    let last = last_metric(view).filter(|_| texts.progress.metric.is_empty());
    let metric = last.unwrap_or_else(|| texts.progress.metric.clone());
    html! {
        dl .tiles {
            div { dt { "Status" } dd data-run="status" { (status(&texts.status)) } }
            div {
                dt { "Elapsed" }
                dd data-run="elapsed" data-seconds=(texts.seconds) { (text::seconds(texts.seconds)) }
            }
            div { dt { "Stages ended" } dd data-run="done" { (texts.done) } }
            @if view.finished.is_none() {
                (tile("Running stage", "stage", &texts.stage))
                (tile("Step", "step", &texts.progress.step))
                (tile("Rate", "rate", &texts.progress.rate))
                (tile("Time left", "left", &texts.progress.left))
            }
            (tile("Main metric", "metric", &metric))
        }
        @if view.finished.is_none() {
            progress .share data-run="share" max="1" value=[texts.progress.share]
                aria-label="Share of the running stage" {}
        }
    }
}

fn tile(name: &str, part: &str, value: &str) -> Markup {
    html! {
        div .long[part == "metric"] {
            dt { (name) }
            dd data-run=(part) { (if value.is_empty() { "–" } else { value }) }
        }
    }
}

fn texts(view: &RunView, progress: &BTreeMap<StageKey, ProgressRecord>, clock: &dyn Clock) -> LiveTexts {
    let running = || view.stages.iter().filter(|stage| stage.status == StageStatus::Running);
    let current = running().find(|stage| progress.contains_key(stage.key())).or_else(|| running().next());
    let (over, all) = stages_over(view);
    #[expect(clippy::cast_precision_loss, reason = "a time is shown")]
    let seconds = elapsed_millis(view, clock) as f64 / 1_000.0;
    LiveTexts {
        status: state(view, clock).to_string(),
        seconds,
        done: format!("{over} of {all}"),
        stage: current.map(|stage| text::cut(&stage.key().0, 120).0.into_owned()).unwrap_or_default(),
        progress: current.and_then(|stage| progress.get(stage.key())).map(ProgressText::of).unwrap_or_default(),
    }
}

/// Returns the main metric of the stage that ended last.
fn last_metric(view: &RunView) -> Option<String> {
    let main = |stage: &StageView| {
        let name = stage.main_metric.clone()?;
        Some((stage.ended?, metric(&name, *stage.metrics.get(&name)?)))
    };
    view.stages.iter().filter_map(main).max_by_key(|(ended, _)| *ended).map(|(_, text)| text)
}
