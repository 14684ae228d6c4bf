//! Formats the differences of two artifacts, or of two runs.

mod content;
mod manifests;
mod runs;

pub use runs::runs;

use content::{columns, files, rows, tensors};
use manifests::{changes, comparisons, inputs, metrics};
use trainyard_core::units::format_size;
use trainyard_views::diff::{ArtifactDiff, ArtifactSide};

/// Formats the differences of two artifacts: a section for each part that differs.
pub fn artifacts(diff: &ArtifactDiff) -> String {
    if diff.is_same {
        return format!("{} and {} are the same artifact", diff.a.artifact, diff.b.artifact);
    }
    let mut sections = vec![format!("A  {}\nB  {}\n{}", side(&diff.a), side(&diff.b), summary(diff))];
    sections.extend(changes("config", &diff.config));
    sections.extend(inputs(&diff.inputs));
    sections.extend(metrics("metrics", &diff.metrics, None));
    sections.extend(comparisons(&diff.comparisons));
    sections.extend(changes("metadata", &diff.metadata));
    sections.extend(diff.columns.as_ref().and_then(columns));
    sections.extend(diff.rows.as_ref().map(rows));
    sections.extend(diff.tensors.as_ref().map(tensors));
    sections.extend(diff.files.as_ref().and_then(files));
    sections.join("\n\n")
}

fn side(side: &ArtifactSide) -> String {
    let rows = side.rows.map(|rows| format!(", {rows} rows")).unwrap_or_default();
    let again = if side.generation > 0 { format!(" generation {}", side.generation) } else { String::new() };
    let ArtifactSide { artifact, kind, stage_kind, kind_version, .. } = side;
    format!("{artifact}: {kind} of {stage_kind} version {kind_version}{again}, {}{rows}", format_size(side.bytes))
}

fn summary(diff: &ArtifactDiff) -> String {
    if diff.a.kind != diff.b.kind {
        return format!("the kinds differ, {} and {}: only the stages are compared", diff.a.kind, diff.b.kind);
    }
    if diff.is_equal { "the content is equal" } else { "the content differs" }.to_string()
}

#[cfg(test)]
mod tests;
