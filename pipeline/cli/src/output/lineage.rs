//! Draws lineages as trees.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainyard_views::lineage::{Ancestor, Lineage};
use trainyard_views::row_lineage::{CountedInput, Descendants, LineageNode, Relation};

/// Draws a row with its sources below it.
pub fn tree(node: &LineageNode) -> String {
    let mut text = label(node);
    branches(&mut text, node, "");
    text
}

fn branches(text: &mut String, node: &LineageNode, indent: &str) {
    let branches = node.inputs.len() + node.sources.len();
    for (at, input) in node.inputs.iter().enumerate() {
        let is_last = at + 1 == branches;
        let _ = write!(text, "\n{indent}{}{}", corner(is_last), input_label(input));
    }
    for (at, source) in node.sources.iter().enumerate() {
        let is_last = node.inputs.len() + at + 1 == branches;
        let _ = write!(text, "\n{indent}{}{}", corner(is_last), label(source));
        branches_below(text, source, indent, is_last);
    }
}

fn branches_below(text: &mut String, node: &LineageNode, indent: &str, is_last: bool) {
    branches(text, node, &format!("{indent}{}", if is_last { "   " } else { "│  " }));
}

fn corner(is_last: bool) -> &'static str {
    if is_last { "└─ " } else { "├─ " }
}

fn label(node: &LineageNode) -> String {
    let mut label = match node.relation {
        Relation::Row => String::new(),
        Relation::Kept => "kept from ".to_string(),
        Relation::Parent => "made from ".to_string(),
        Relation::Problem => "answers ".to_string(),
        Relation::Rollout => "judges ".to_string(),
        Relation::Fork => "forked from ".to_string(),
        Relation::Model => "model ".to_string(),
        Relation::Source => "read from ".to_string(),
    };
    if let Some(artifact) = &node.artifact {
        label.push_str(artifact);
    }
    if let Some(row) = node.row {
        let _ = write!(label, " row {row}");
    }
    match (&node.artifact, &node.id) {
        (Some(_), Some(id)) => {
            let _ = write!(label, ", id {id}");
        }
        (None, Some(place)) => label.push_str(place),
        (_, None) => {}
    }
    if let Some(kind) = node.stage_kind.as_ref().filter(|_| node.relation == Relation::Model) {
        let _ = write!(label, ", made by {kind}");
    }
    if let Some(excerpt) = &node.text {
        let _ = write!(label, ": {excerpt}");
    }
    if let Some(note) = &node.note {
        let _ = write!(label, " ({note})");
    }
    label
}

fn input_label(input: &CountedInput) -> String {
    let rows = input.rows.map(|rows| format!(", {rows} rows")).unwrap_or_default();
    format!("{}: {}{rows}", input.input, input.artifact)
}

/// Lists the artifacts that were made from a row.
pub fn descendants(made: &Descendants) -> String {
    if made.artifacts.is_empty() {
        return "no artifact of this run has rows that name this one".to_string();
    }
    let line = |found: &trainyard_views::row_lineage::DescendantTable| {
        let Some(rows) = found.rows else { return format!("{} ({}, from such rows)", found.artifact, found.kind) };
        let shown: Vec<String> = found.first.iter().map(|row| row.row.to_string()).collect();
        let more = if rows > found.first.len() as u64 { ", …" } else { "" };
        let word = if rows == 1 { "row" } else { "rows" };
        format!("{}: {rows} {word} ({}{more})", found.artifact, shown.join(", "))
    };
    made.artifacts.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Draws the stages that an artifact was made by.
pub fn stages(lineage: &Lineage) -> String {
    let by_digest: BTreeMap<&str, &Ancestor> =
        lineage.stages.iter().map(|stage| (stage.stage_digest.as_str(), stage)).collect();
    let mut text = String::new();
    let mut drawn = std::collections::BTreeSet::new();
    if let Some(first) = lineage.stages.first() {
        text.push_str(&stage_label(first));
        inputs(&mut text, first, &by_digest, "", &mut drawn);
    }
    if lineage.truncated {
        text.push_str("\n(there are more stages)");
    }
    text
}

fn inputs<'a>(
    text: &mut String,
    stage: &'a Ancestor,
    known: &BTreeMap<&str, &'a Ancestor>,
    indent: &str,
    drawn: &mut std::collections::BTreeSet<&'a str>,
) {
    for (at, input) in stage.inputs.iter().enumerate() {
        let is_last = at + 1 == stage.inputs.len();
        let below = known.get(input.stage_digest.as_str()).copied();
        let label = below.map_or_else(|| format!("{:.12}", input.stage_digest), stage_label);
        let is_first = drawn.insert(input.stage_digest.as_str());
        let again = if is_first || below.is_none_or(|below| below.inputs.is_empty()) { "" } else { " (shown above)" };
        let _ = write!(text, "\n{indent}{}{}: {label}{again}", corner(is_last), input.output);
        if let Some(below) = below.filter(|_| is_first) {
            inputs(text, below, known, &format!("{indent}{}", if is_last { "   " } else { "│  " }), drawn);
        }
    }
}

fn stage_label(stage: &Ancestor) -> String {
    let name = match (&stage.run, &stage.stage) {
        (Some(run), Some(stage)) => format!("{run}/{stage}"),
        _ => format!("{:.12} (no longer in the store)", stage.stage_digest),
    };
    match &stage.kind {
        Some(kind) => format!("{name}, {kind}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(relation: Relation, artifact: Option<&str>, id: &str, sources: Vec<LineageNode>) -> LineageNode {
        LineageNode {
            relation,
            artifact: artifact.map(str::to_string),
            stage_digest: None,
            stage_kind: None,
            row: artifact.map(|_| 3),
            id: Some(id.to_string()),
            text: None,
            inputs: Vec::new(),
            sources,
            note: None,
        }
    }

    #[test]
    fn sources_are_drawn_below_their_row() {
        let file = node(Relation::Source, None, "demos.jsonl:12", Vec::new());
        let problem = node(Relation::Problem, Some("r/data/problems"), "p", vec![file]);
        let model = LineageNode {
            row: None,
            id: None,
            stage_kind: Some("sft".into()),
            inputs: vec![CountedInput {
                input: "trajectories".into(),
                artifact: "r/filter/kept".into(),
                stage_digest: String::new(),
                kind: "trajectories".into(),
                rows: Some(40),
            }],
            ..node(Relation::Model, Some("r/sft/model"), "", Vec::new())
        };
        let drawn = tree(&node(Relation::Row, Some("r/evaluate/trajectories"), "a", vec![problem, model]));
        assert_eq!(
            drawn,
            "r/evaluate/trajectories row 3, id a\n\
             ├─ answers r/data/problems row 3, id p\n\
             │  └─ read from demos.jsonl:12\n\
             └─ model r/sft/model, made by sft\n   \
                └─ trajectories: r/filter/kept, 40 rows"
        );
    }

    #[test]
    fn a_stage_is_drawn_once_with_its_inputs() {
        let input = |digest: &str, output: &str| trainyard_views::artifacts::InputRow {
            stage_digest: digest.into(),
            output: output.into(),
            digest: String::new(),
        };
        let stage = |digest: &str, inputs: Vec<_>| Ancestor {
            stage_digest: digest.into(),
            kind: Some("noop".into()),
            run: Some(trainyard_core::RunId("r".into())),
            stage: Some(trainyard_core::StageKey(digest.into())),
            inputs,
        };
        let stages_of = vec![
            stage("c", vec![input("b", "x"), input("a", "y"), input("b", "z")]),
            stage("b", vec![input("a", "y")]),
            stage("a", Vec::new()),
        ];
        let drawn = stages(&Lineage { stages: stages_of, truncated: false });
        let expected = "r/c, noop\n├─ x: r/b, noop\n│  └─ y: r/a, noop\n├─ y: r/a, noop\n└─ z: r/b, noop (shown above)";
        assert_eq!(drawn, expected);
    }
}
