//! Formats the differences of two runs.

use super::manifests::{changes, metrics, sides};
use crate::output::table::table;
use std::fmt::Write as _;
use trainyard_core::StageKey;
use trainyard_views::diff::{ChangedStage, Reason, RunSide, RunsDiff, StageResult};

/// Maximum stages of a list on one line.
const MAX_STAGES: usize = 20;

/// Maximum characters of two values on one line.
const MAX_VALUES: usize = 60;

/// Formats the differences of two runs.
pub fn runs(diff: &RunsDiff) -> String {
    if diff.is_same {
        return format!("both names are the same run, {}", diff.a.run);
    }
    let mut sections = vec![format!("A  {}\nB  {}", side(&diff.a), side(&diff.b))];
    sections.extend(changes("parameter", &diff.params));
    sections.extend(stages(diff));
    if !diff.results.is_empty() {
        sections.push(table(
            &["stage", "A", "B", "seconds A", "seconds B"],
            &diff.results.iter().map(row).collect::<Vec<_>>(),
        ));
    }
    let results = diff.results.iter().filter(|result| !diff.equal.contains(&result.stage));
    sections.extend(results.filter_map(|result| {
        let main = result.metrics.first().map(|metric| metric.name.as_str());
        metrics(&format!("metrics of {}", result.stage), &result.metrics, main)
    }));
    sections.join("\n\n")
}

fn side(side: &RunSide) -> String {
    format!("{} of {}: {} after {} s", side.run, side.workflow, side.status, format_args!("{:.1}", side.seconds))
}

fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_string(), |seconds| format!("{seconds:.1}"))
}

fn row(result: &StageResult) -> Vec<String> {
    vec![
        result.stage.to_string(),
        result.status_a.clone(),
        result.status_b.clone(),
        seconds(result.seconds_a),
        seconds(result.seconds_b),
    ]
}

/// Formats the stages of one run alone, the equal ones, and the differing ones with the reasons.
fn stages(diff: &RunsDiff) -> Option<String> {
    let mut lines = Vec::new();
    for (what, stages) in [("stages only in A", &diff.only_a), ("stages only in B", &diff.only_b)] {
        lines.extend((!stages.is_empty()).then(|| format!("{what}: {}", list(stages))));
    }
    lines.extend(diff.changed.iter().map(changed));
    lines.extend((!diff.equal.is_empty()).then(|| format!("equal stages: {}", list(&diff.equal))));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn list(stages: &[StageKey]) -> String {
    let shown: Vec<String> = stages.iter().take(MAX_STAGES).map(ToString::to_string).collect();
    let hidden = stages.len() - shown.len();
    let more = if hidden > 0 { format!(" and {hidden} more") } else { String::new() };
    shown.join(", ") + &more
}

fn changed(stage: &ChangedStage) -> String {
    let mut text = format!("{} differs", stage.stage);
    for reason in &stage.reasons {
        if let Reason::Config { changes } = reason {
            for change in changes {
                let (a, b) = sides(change);
                let is_short = a.chars().count() + b.chars().count() <= MAX_VALUES;
                let _ = match is_short {
                    true => write!(text, "\n  config {}: {a} → {b}", change.path),
                    false => write!(text, "\n  config {}\n    A  {a}\n    B  {b}", change.path),
                };
            }
        } else {
            let _ = write!(text, "\n  {}", reason_text(reason));
        }
    }
    text
}

fn reason_text(reason: &Reason) -> String {
    match reason {
        Reason::Unpublished { a, b } => format!("published in one run only: it is {a} in A, {b} in B"),
        Reason::NoManifest { stage_digest } => format!("the manifest of {stage_digest:.12} is no longer in the store"),
        Reason::Kind { a, b } => format!("kind: {a} → {b}"),
        Reason::Config { changes } => format!("{} config keys differ", changes.len()),
        Reason::Input { input, stages } if stages.is_empty() => format!("input `{input}` has other content"),
        Reason::Input { input, stages } => {
            let names: Vec<String> = stages.iter().map(|stage| format!("`{stage}`")).collect();
            let verb = if names.len() == 1 { "differs" } else { "differ" };
            format!("input `{input}`, because {} {verb}", names.join(" and "))
        }
        Reason::KindVersion { a, b } => format!("version of the kind: {a} → {b}"),
        Reason::Generation { a, b } => format!("computed again: generation {a} → {b}"),
        Reason::NotInManifest => {
            "source files, environment, declared outputs or salt, which manifests do not have".into()
        }
    }
}
