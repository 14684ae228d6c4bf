//! The reports that a run ends with: `report.md` of every report artifact that no other stage of the run reads.

use trainyard_core::artifact::FileEntry;
use trainyard_core::event::RunOutcome;
use trainyard_core::{ArtifactKind, Result, RunId};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_store::Store;

/// The text that people see.
const TEXT: &str = "report.md";
/// The page that they may open.
const PAGE: &str = "report.html";

/// Markdown texts, in plan order; none of a run that failed before its last stage.
pub async fn of_run(store: &Store, run: &RunId, view: &RunView) -> Result<Vec<String>> {
    if view.finished.is_some_and(|(_, outcome)| outcome == RunOutcome::Cancelled) {
        return Ok(Vec::new());
    }
    let mut texts = Vec::new();
    for stage in view.stages.iter().filter(|s| is_last(view, s)) {
        texts.extend(texts_of(store, run, stage).await?);
    }
    Ok(texts)
}

fn is_last(view: &RunView, stage: &StageView) -> bool {
    view.stages.iter().all(|other| !other.after.contains(&stage.stage.0))
}

async fn texts_of(store: &Store, run: &RunId, stage: &StageView) -> Result<Vec<String>> {
    let (Some(digest), Some(generation)) = (&stage.digest, stage.generation) else { return Ok(Vec::new()) };
    if stage.outputs.values().all(|o| o.kind != ArtifactKind::Report) {
        return Ok(Vec::new());
    }
    let Some(manifest) = store.manifest_at(digest, generation).await? else { return Ok(Vec::new()) };
    let mut texts = Vec::new();
    for (port, output) in manifest.outputs.iter().filter(|(_, o)| o.kind == ArtifactKind::Report) {
        let file = |name: &str| -> Option<&FileEntry> { output.files.iter().find(|f| f.path == name) };
        let Some(text) = file(TEXT) else { continue };
        let mut shown = String::from_utf8_lossy(&store.read_object(&text.digest).await?).trim_end().to_string();
        if file(PAGE).is_some() {
            shown.push_str(&format!(
                "\n\nthe same with curves: trainyard artifacts export {run}/{}/{port} report, then open report/{PAGE}",
                stage.stage.0
            ));
        }
        texts.push(shown);
    }
    Ok(texts)
}
