//! Shows one artifact: its producer, inputs, files, columns under their names in SQL, and a preview, all from the
//! manifest; of models and reports also their content.

use super::content::Content;
use crate::args::OutputFormat;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use crate::output::metrics::row_text;
use crate::output::notes::below;
use crate::session::AppSession;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use trainyard_core::artifact::{ColumnStats, TableSummary};
use trainyard_core::units::format_size;
use trainyard_core::{Comparison, Result};
use trainyard_views::annotations;
use trainyard_views::find::{self, ResolvedOutput};

/// Column with further columns of imported rows, as JSON text.
const META: &str = "meta";
/// Maximum characters of a cell in the preview.
const CELL: usize = 60;

/// Parts of an artifact's page.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Maximum number of rows in the preview.
    pub rows: usize,
    /// Whether the metrics and comparisons of the stage are listed.
    pub metrics: bool,
}

/// Prints an output as its manifest describes it, and the content of a model or report.
pub fn run(session: &AppSession, artifact: &str, shown: Shown, format: OutputFormat) -> Result<CliExit> {
    let (found, content, notes) = session.block_on(async {
        let found = find::artifact(&session.store, artifact).await?;
        let content = Content::read(&session.store, &found).await?;
        let notes = annotations::notes_of(&session.store, &found.output().digest).await?;
        Ok((found, content, notes))
    })?;
    match format {
        OutputFormat::Json => {
            let manifest = &found.manifest;
            let mut document = json!({
                "stage_digest": manifest.stage_digest, "generation": manifest.generation, "kind": manifest.kind,
                "config": manifest.config, "inputs": manifest.inputs, "metrics": manifest.metrics,
                "comparisons": manifest.comparisons, "provenance": manifest.provenance, "measured": manifest.measured,
                "output": found.output(), "notes": notes,
            });
            if let Some(document) = document.as_object_mut() {
                content.add_to(document);
            }
            print_json(&document)?;
        }
        OutputFormat::Text => print_text(&format!("{}{}", text(&found, &content, shown), below(&notes))),
    }
    Ok(CliExit::Done)
}

/// Formats the page of an artifact, with its rows or its content first.
fn text(found: &ResolvedOutput, content: &Content, shown: Shown) -> String {
    let (manifest, output) = (&found.manifest, found.output());
    let mut text = format!("{} of {} {} ({})", found.port, manifest.kind, manifest.stage_digest.short(), output.kind);
    if let Some(summary) = &output.table {
        preview(&mut text, summary, shown.rows);
        text.push_str("\n\n`--row N`, `--id ID` and `--where EXPRESSION` print rows in full");
        columns(&mut text, summary);
        text.push('\n');
    }
    if let Some(content) = content.text().filter(|content| !content.is_empty()) {
        let _ = writeln!(text, "\n\n{content}");
    }
    let by = &manifest.provenance;
    let _ = writeln!(text, "\nmade by run {} stage {} attempt {}", by.run, by.stage, by.attempt);
    for (port, inputs) in &manifest.inputs {
        let list: Vec<String> = inputs.iter().map(|i| format!("{}/{}", i.stage_digest.short(), i.output)).collect();
        let _ = writeln!(text, "from {port} = {}", list.join(", "));
    }
    for (name, value) in &output.metadata {
        let _ = writeln!(text, "{name} = {value}");
    }
    let files: Vec<Vec<String>> =
        output.files.iter().map(|f| vec![f.path.clone(), format_size(f.size), f.digest.short().into()]).collect();
    let _ = write!(text, "\n{}", table(&["file", "size", "digest"], &files));
    measured(&mut text, &manifest.metrics, &manifest.comparisons, shown.metrics);
    text
}

/// Lists the metrics and comparisons of the stage, or says how many there are.
fn measured(text: &mut String, metrics: &BTreeMap<String, f64>, comparisons: &[Comparison], is_listed: bool) {
    let counted = |count: usize, name: &str| (count > 0).then(|| format!("{count} {name}{}", plural(count)));
    let counts: Vec<String> =
        [counted(metrics.len(), "metric"), counted(comparisons.len(), "comparison")].into_iter().flatten().collect();
    if counts.is_empty() {
        return;
    }
    let _ = write!(text, "\n\n{} of the stage", counts.join(" and "));
    if !is_listed {
        text.push_str(": `--metrics` lists them");
        return;
    }
    text.push(':');
    for (name, value) in metrics {
        let _ = write!(text, "\n  {name} = {value}");
    }
    for row in comparisons {
        let _ = write!(text, "\n  {}", row_text(row));
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn columns(text: &mut String, summary: &TableSummary) {
    let show = |v: &Option<Value>| v.as_ref().map(|v| cut(&cell(v))).unwrap_or_default();
    let rows: Vec<Vec<String>> = summary
        .columns
        .iter()
        .flat_map(|c| sql_names(c, &summary.preview).into_iter().map(move |name| (c, name)))
        .map(|(c, name)| {
            if c.name == META && name != META {
                return [name.as_str(), "in meta", "", "", "", ""].map(String::from).to_vec();
            }
            let mean = c.mean.map(|m| format!("{m:.4}")).unwrap_or_default();
            vec![name, sql_type(&c.r#type), c.nulls.to_string(), show(&c.min), show(&c.max), mean]
        })
        .collect();
    let table = table(&["column", "type", "nulls", "min", "max", "mean"], &rows);
    let _ = write!(text, "\n\n{} rows, for SQL:\n\n{table}", summary.rows);
}

/// Returns the names of a column in SQL. Fields of structs and maps, and items of lists of names and values, are
/// separate columns. Only those in the preview are known.
fn sql_names(column: &ColumnStats, preview: &[Value]) -> Vec<String> {
    if is_named(&column.r#type) {
        let items = preview.iter().filter_map(|row| row.get(&column.name)?.as_array()).flatten();
        let names: BTreeSet<&str> = items.filter_map(|item| item.get("name")?.as_str()).collect();
        let names: Vec<String> = names.into_iter().map(|name| format!("{}_{name}", column.name)).collect();
        return if names.is_empty() { vec![column.name.clone()] } else { names };
    }
    if column.name == META {
        let objects = preview.iter().filter_map(|row| serde_json::from_str(row.get(META)?.as_str()?).ok());
        let keys: BTreeSet<String> = objects.flat_map(|object: BTreeMap<String, Value>| object.into_keys()).collect();
        return std::iter::once(META.to_string()).chain(keys.iter().map(|key| format!("{META}_{key}"))).collect();
    }
    if !column.r#type.starts_with("Struct") && !column.r#type.starts_with("Map") {
        return vec![column.name.clone()];
    }
    let objects = preview.iter().filter_map(|row| row.get(&column.name)?.as_object());
    let parts: BTreeSet<&String> = objects.flat_map(|object| object.keys()).collect();
    if parts.is_empty() {
        return vec![column.name.clone()];
    }
    parts.into_iter().map(|part| format!("{}_{part}", column.name)).collect()
}

/// Returns whether an Arrow type is a list of names and values, with any nullability.
fn is_named(arrow: &str) -> bool {
    let plain = arrow.replace("non-null ", "");
    plain.starts_with("List(Struct(")
        && plain.contains(r#""name": Utf8, "value": "#)
        && plain.matches("\": ").count() == 2
}

/// Describes the SQL type of a column.
fn sql_type(arrow: &str) -> String {
    let is = |starts: &[&str]| starts.iter().any(|start| arrow.starts_with(start));
    let word = match arrow {
        _ if is(&["Struct", "Map"]) || is_named(arrow) => "by part",
        _ if is(&["List", "LargeList", "FixedSizeList"]) && arrow.contains("Struct") => "text (JSON)",
        _ if is(&["List", "LargeList", "FixedSizeList"]) => "list",
        _ if is(&["Utf8", "LargeUtf8"]) => "text",
        _ if is(&["Boolean"]) => "bool",
        _ if is(&["Int", "UInt"]) => "integer",
        _ if is(&["Float"]) => "number",
        other => other,
    };
    cut(word)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_listed_on_request() {
        let metrics = BTreeMap::from([("accuracy".to_string(), 0.5), ("rows".to_string(), 4.0)]);
        let rows = [Comparison { a: Some(0.7), b: Some(0.5), ..Comparison::of("accuracy") }];
        let text = |rows: &[Comparison], is_listed| {
            let mut text = String::new();
            measured(&mut text, &metrics, rows, is_listed);
            text
        };
        assert_eq!(text(&[], false), "\n\n2 metrics of the stage: `--metrics` lists them");
        assert_eq!(
            text(&rows, true),
            "\n\n2 metrics and 1 comparison of the stage:\n  accuracy = 0.5\n  rows = 4\n  accuracy 0.500 → 0.700"
        );
        let mut none = String::new();
        measured(&mut none, &BTreeMap::new(), &[], true);
        assert_eq!(none, "");
    }

    #[test]
    fn sql_names_and_types_of_columns() {
        let column = |name: &str, kind: &str| ColumnStats {
            name: name.into(),
            r#type: kind.into(),
            nulls: 0,
            min: None,
            max: None,
            mean: None,
        };
        let preview = [json!({"rewards": {"answer": 1, "format": 0}})];
        assert_eq!(sql_names(&column("rewards", "Map(…)"), &preview), ["rewards_answer", "rewards_format"]);
        let named = "List(non-null Struct(\"name\": non-null Utf8, \"value\": non-null Float64))";
        let listed = [json!({"rewards": [{"name": "answer", "value": 1}, {"name": "format", "value": 0}]})];
        assert_eq!(sql_names(&column("rewards", named), &listed), ["rewards_answer", "rewards_format"]);
        assert_eq!(sql_names(&column("rewards", named), &[]), ["rewards"]);
        assert_eq!(sql_type(named), "by part");
        assert_eq!(sql_names(&column("messages", "List(Struct(…))"), &preview), ["messages"]);
        let further = [json!({"meta": null}), json!({"meta": r#"{"lang": "de", "n": 1}"#}), json!({"meta": "{\"cut…"})];
        assert_eq!(sql_names(&column("meta", "Utf8"), &further), ["meta", "meta_lang", "meta_n"]);
        assert_eq!(sql_type("List(Struct(role Utf8))"), "text (JSON)");
        assert_eq!(sql_type("List(Float32)"), "list");
    }
}
