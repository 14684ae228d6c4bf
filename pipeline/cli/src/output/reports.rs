//! Summarizes the reports of a run: title and first table of every report of its last stages. Complete reports would
//! hide the main numbers; `artifacts export` provides them.

use super::table::table;
use std::collections::HashSet;
use trainyard_core::artifact::FileEntry;
use trainyard_core::event::RunOutcome;
use trainyard_core::{ArtifactKind, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_store::Store;

/// Name of the report's file for humans.
const TEXT: &str = "report.md";
/// Maximum number of table rows that are shown.
const ROWS: usize = 14;

/// Summary of a report.
pub struct ReportHeadline {
    /// `RUN/STAGE/OUTPUT`.
    pub artifact: String,
    /// Title and first table.
    pub headline: String,
}

/// Returns the summaries of the reports in plan order. The list is empty for a cancelled run, and for a run that failed
/// before its last stages.
pub async fn of_run(store: &Store, run: &RunId, view: &RunView) -> Result<Vec<ReportHeadline>> {
    if view.finished.is_some_and(|(_, outcome)| outcome == RunOutcome::Cancelled) {
        return Ok(Vec::new());
    }
    let mut texts = Vec::new();
    for stage in last_stages(view) {
        texts.extend(texts_of(store, run, stage).await?);
    }
    Ok(texts)
}

/// Returns the stages on which no other stage of the run depends, in plan order.
fn last_stages(view: &RunView) -> Vec<&StageView> {
    let followed: HashSet<&StageKey> = view.stages.iter().flat_map(|stage| &stage.after).collect();
    view.stages.iter().filter(|stage| !followed.contains(stage.key())).collect()
}

async fn texts_of(store: &Store, run: &RunId, stage: &StageView) -> Result<Vec<ReportHeadline>> {
    let (Some(digest), Some(generation)) = (&stage.digest, stage.generation) else { return Ok(Vec::new()) };
    if stage.outputs.values().all(|o| o.kind != ArtifactKind::Report) {
        return Ok(Vec::new());
    }
    let Some(manifest) = store.manifest_at(digest, generation).await? else { return Ok(Vec::new()) };
    let mut texts = Vec::new();
    for (port, output) in manifest.outputs.iter().filter(|(_, o)| o.kind == ArtifactKind::Report) {
        let file = |name: &str| -> Option<&FileEntry> { output.files.iter().find(|f| f.path == name) };
        let Some(text) = file(TEXT) else { continue };
        let markdown = String::from_utf8_lossy(&store.read_object(&text.digest).await?).into_owned();
        texts.push(ReportHeadline {
            artifact: format!("{run}/{}/{port}", stage.stage.0),
            headline: headline(&markdown),
        });
    }
    Ok(texts)
}

/// Returns the headings and the first table of a report, or its first lines if it has no table.
fn headline(markdown: &str) -> String {
    let lines: Vec<&str> = markdown.lines().collect();
    let is_row = |line: &&str| line.starts_with('|');
    let Some(start) = lines.iter().position(is_row) else {
        return lines.iter().take(ROWS).copied().collect::<Vec<_>>().join("\n").trim_end().to_string();
    };
    let mut shown: Vec<String> = Vec::new();
    let headings = lines[..start].iter().filter(|line| line.starts_with('#'));
    shown.extend(headings.map(|line| line.trim_start_matches('#').trim().to_string()));
    shown.dedup();
    let mut rows: Vec<Vec<String>> =
        lines[start..].iter().take_while(|line| is_row(line)).map(|line| cells(line)).collect();
    if rows.get(1).is_some_and(|row| is_rule(row)) {
        rows.remove(1);
    }
    let Some((header, rows)) = rows.split_first() else { return shown.join(" · ") };
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut text = format!("{}\n\n{}", shown.join(" · "), table(&header, &rows[..rows.len().min(ROWS)]));
    if rows.len() > ROWS {
        text.push_str(&format!("\n… {} more rows", rows.len() - ROWS));
    }
    text
}

/// Returns the cells of a row of a Markdown table.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let mut rest = row.chars();
    while let Some(c) = rest.next() {
        match (c, cells.last_mut()) {
            ('|', _) => cells.push(String::new()),
            // A bar in a cell is escaped.
            ('\\', Some(cell)) if rest.as_str().starts_with('|') => cell.extend(rest.next()),
            (c, Some(cell)) => cell.push(c),
            (_, None) => {}
        }
    }
    // The row ends with a bar.
    cells.pop();
    cells.iter().map(|cell| cell.trim().to_string()).collect()
}

/// Returns whether a row is the rule below the header.
fn is_rule(cells: &[String]) -> bool {
    cells.iter().all(|cell| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Digest;
    use trainyard_core::event::{Event, EventRecord, PlannedStage, Selection};

    fn view(stages: Vec<(String, Vec<StageKey>)>) -> RunView {
        let planned =
            |(name, after)| PlannedStage { stage: StageKey(name), kind: "noop".into(), main_metric: None, after };
        let event = Event::RunCreated {
            format: 1,
            workflow: "w".into(),
            source: "w.yaml".into(),
            plan_digest: Digest::of(b"plan"),
            params: Default::default(),
            selection: Selection::default(),
            stages: stages.into_iter().map(planned).collect(),
        };
        let mut view = RunView::default();
        view.apply(&EventRecord { at: 0, event });
        view
    }

    #[test]
    fn last_stages_have_no_dependents() {
        let key = |name: &str| StageKey(name.into());
        let chain = view(vec![
            ("a".into(), Vec::new()),
            ("b".into(), vec![key("a")]),
            ("c".into(), vec![key("a")]),
            ("d".into(), vec![key("b")]),
        ]);
        let names: Vec<&str> = last_stages(&chain).iter().map(|stage| stage.key().0.as_str()).collect();
        assert_eq!(names, ["c", "d"]);
        let wide = view((0..100_000).map(|n| (format!("n{n}"), Vec::new())).collect());
        assert_eq!(last_stages(&wide).len(), 100_000, "linear time: comparing all pairs would take minutes");
    }

    #[test]
    fn cells_of_markdown_rows() {
        assert_eq!(cells("| a \\| b | | 0.9 [0.8, 1] |"), ["a | b", "", "0.9 [0.8, 1]"]);
        assert!(is_rule(&cells("|---|:--:|")) && !is_rule(&cells("| - x | 1 |")));
    }

    #[test]
    fn headline_is_the_title_and_the_first_table() {
        let report = "# Quickstart\n\n## Evaluation\n\nTexts.\n\n### Models\n\n| metric | rl |\n|---|---|\n\
                      | accuracy | 0.9 |\n\n### Levels\n\n| level |\n|---|\n";
        assert_eq!(headline(report), "Quickstart · Evaluation · Models\n\nmetric     rl\naccuracy  0.9");
        let long: String = (0..20).map(|i| format!("| {i} |\n")).collect();
        assert!(headline(&format!("| n |\n|---|\n{long}")).ends_with("\n13\n… 6 more rows"));
        assert_eq!(headline("# Only words\n\ntext\n"), "# Only words\n\ntext");
    }
}
