//! One artifact: what made it, from what, its files, columns and a preview; all from the manifest, nothing is downloaded.

use crate::args::Format;
use crate::exit::Exit;
use crate::names::{self, Found};
use crate::output::human::{print_json, print_text, table};
use crate::output::progress::row_text;
use crate::session::Session;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trainyard_core::Result;
use trainyard_core::artifact::TableSummary;
use trainyard_core::units::format_size;

/// Longest cell of a preview, in characters.
const CELL: usize = 60;

/// Prints what the manifest says of an output; `rows` bounds the preview.
pub fn run(session: &Session, artifact: &str, rows: usize, format: Format) -> Result<Exit> {
    let found = session.block_on(names::artifact(&session.store, artifact))?;
    match format {
        Format::Json => {
            let manifest = &found.manifest;
            print_json(&json!({
                "stage_digest": manifest.stage_digest, "generation": manifest.generation, "kind": manifest.kind,
                "config": manifest.config, "inputs": manifest.inputs, "metrics": manifest.metrics,
                "comparisons": manifest.comparisons, "provenance": manifest.provenance, "measured": manifest.measured,
                "output": found.output(),
            }))?;
        }
        Format::Text => print_text(&text(&found, rows)),
    }
    Ok(Exit::Done)
}

fn text(found: &Found, rows: usize) -> String {
    let (manifest, output) = (&found.manifest, found.output());
    let mut text = format!("{} of {} {} ({})\n", found.port, manifest.kind, manifest.stage_digest.short(), output.kind);
    let by = &manifest.provenance;
    let _ = writeln!(text, "made by run {} stage {} attempt {}", by.run, by.stage, by.attempt);
    for (port, inputs) in &manifest.inputs {
        let list: Vec<String> = inputs.iter().map(|i| format!("{}/{}", i.stage_digest.short(), i.output)).collect();
        let _ = writeln!(text, "from {port} = {}", list.join(", "));
    }
    for (name, value) in &manifest.metrics {
        let _ = writeln!(text, "metric {name} = {value}");
    }
    for row in &manifest.comparisons {
        let _ = writeln!(text, "comparison {}", row_text(row));
    }
    for (name, value) in &output.metadata {
        let _ = writeln!(text, "{name} = {value}");
    }
    let files: Vec<Vec<String>> =
        output.files.iter().map(|f| vec![f.path.clone(), format_size(f.size), f.digest.short().into()]).collect();
    let _ = write!(text, "\n{}", table(&["file", "size", "digest"], &files));
    if let Some(summary) = &output.table {
        columns(&mut text, summary);
        preview(&mut text, summary, rows);
    }
    text
}

fn columns(text: &mut String, summary: &TableSummary) {
    let show = |v: &Option<Value>| v.as_ref().map(|v| cut(&cell(v))).unwrap_or_default();
    let rows: Vec<Vec<String>> = summary
        .columns
        .iter()
        .map(|c| {
            vec![
                c.name.clone(),
                cut(&c.r#type),
                c.nulls.to_string(),
                show(&c.min),
                show(&c.max),
                c.mean.map(|m| format!("{m:.4}")).unwrap_or_default(),
            ]
        })
        .collect();
    let _ = write!(
        text,
        "\n\n{} rows\n\n{}",
        summary.rows,
        table(&["column", "type", "nulls", "min", "max", "mean"], &rows)
    );
}

fn preview(text: &mut String, summary: &TableSummary, rows: usize) {
    for (i, row) in summary.preview.iter().take(rows).enumerate() {
        let _ = write!(text, "\n\nrow {i}");
        for (name, value) in row.as_object().into_iter().flatten().filter(|(_, v)| !v.is_null()) {
            let _ = write!(text, "\n  {name}: {}", cut(&cell(value)));
        }
    }
}

fn cell(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToString::to_string).replace('\n', "⏎")
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL { text.to_string() } else { text.chars().take(CELL - 1).chain(['…']).collect() }
}
