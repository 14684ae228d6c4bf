//! Writes cards of exported data and models in the format of the Hugging Face hub: content, provenance and a reading
//! example. The text depends only on the manifest and the written files.

use std::fmt::Write as _;
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{ArtifactKind, Manifest, Output, Result};
use trainyard_tables::write_complete;
use trainyard_views::find::ResolvedOutput;

const FILE: &str = "README.md";

/// Rows that an export wrote into a folder.
pub struct ExportSummary<'a> {
    /// Name of the file of rows.
    pub file: String,
    pub format: &'a str,
    /// Purpose of the rows, if the format has several forms.
    pub form: Option<&'a str>,
    pub rows: Option<u64>,
    /// Features that the format cannot represent, and their number of occurrences.
    pub lost: &'a [(&'static str, u64)],
}

/// Writes a card, unless the folder already has one. Returns the path of a written card. Errors: those of the disk.
pub fn write(folder: &Path, card: &str) -> Result<Option<String>> {
    let path = folder.join(FILE);
    if path.exists() {
        return Ok(None);
    }
    write_complete(&path, |partial| std::fs::write(partial, card).map_err(|e| io_error(partial, &e)))?;
    Ok(Some(path.display().to_string()))
}

/// Returns the card of rows in the format of another program.
pub fn rows_card(found: &ResolvedOutput, written: &ExportSummary<'_>) -> String {
    let form = written.form.map(|form| format!(" in the form `{form}`")).unwrap_or_default();
    let tags = [written.format, written.form.unwrap_or("rows")];
    let is_log = written.file.ends_with(".eval");
    // `datasets` has no reader of logs.
    let mut text = if is_log { tag_head(&tags) } else { data_head(&written.file, &tags) };
    let _ = writeln!(text, "# {} of {}\n", title(found.output().kind), found.manifest.provenance.workflow);
    let rows = written.rows.map(|rows| format!("{rows} rows")).unwrap_or_else(|| "Rows".into());
    let _ = writeln!(text, "{rows} as `{}` reads them{form}, in `{}`.", written.format, written.file);
    let read = match written.file.rsplit_once('.') {
        _ if is_log => format!("inspect_ai.log.read_eval_log(\"{}\")", written.file),
        Some((_, kind @ ("csv" | "parquet"))) => load_dataset(kind, &written.file),
        _ => load_dataset("json", &written.file),
    };
    let _ = writeln!(text, "\n```python\n{read}\n```");
    if !written.lost.is_empty() {
        text.push_str("\n## Left out\n\n| what | count |\n|---|---|\n");
        written.lost.iter().for_each(|(what, count)| {
            let _ = writeln!(text, "| {what} | {count} |");
        });
    }
    provenance(&mut text, &found.manifest, &found.port, found.output());
    text
}

/// Returns the card of an artifact's own files.
pub fn artifact_card(found: &ResolvedOutput) -> String {
    let output = found.output();
    let mut text = match output.kind {
        ArtifactKind::Model => model_head(output),
        _ => match output.files.iter().find(|file| file.path.ends_with(".parquet")) {
            Some(file) => data_head(&file.path, &[output.kind.name()]),
            None => String::new(),
        },
    };
    let _ = writeln!(text, "# {} of {}", title(output.kind), found.manifest.provenance.workflow);
    provenance(&mut text, &found.manifest, &found.port, output);
    text
}

fn title(kind: ArtifactKind) -> &'static str {
    match kind {
        ArtifactKind::Problems => "Problems",
        ArtifactKind::Trajectories => "Trajectories",
        ArtifactKind::Model => "A model",
        ArtifactKind::Report => "A report",
        ArtifactKind::Table => "A table",
        ArtifactKind::Files => "Files",
    }
}

fn load_dataset(reader: &str, file: &str) -> String {
    format!("datasets.load_dataset(\"{reader}\", data_files=\"{file}\")")
}

fn tag_head(tags: &[&str]) -> String {
    let tags: String = tags.iter().map(|tag| format!("- {tag}\n")).collect();
    format!("---\ntags:\n- trainyard\n{tags}---\n\n")
}

fn data_head(file: &str, tags: &[&str]) -> String {
    let tags: String = tags.iter().map(|tag| format!("- {tag}\n")).collect();
    format!(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: \"{file}\"\n\
         tags:\n- trainyard\n{tags}---\n\n"
    )
}

fn model_head(output: &Output) -> String {
    let has = |name: &str| output.files.iter().any(|file| file.path == name);
    let library = if has("adapter_config.json") { "peft" } else { "transformers" };
    format!("---\nlibrary_name: {library}\ntags:\n- trainyard\n---\n\n")
}

fn provenance(text: &mut String, manifest: &Manifest, port: &str, output: &Output) {
    let by = &manifest.provenance;
    let mut rows = vec![
        ("artifact", format!("`{port}` of a stage `{}`, version {}", manifest.kind, manifest.kind_version)),
        ("content digest", format!("`{}`", output.digest)),
        ("stage digest", format!("`{}`", manifest.stage_digest)),
        ("generation", manifest.generation.to_string()),
        ("workflow", cell(&by.workflow)),
        ("run", format!("`{}`", by.run)),
        ("stage", format!("`{}`, attempt {}", by.stage, by.attempt)),
        ("written by", format!("Trainyard {}", env!("CARGO_PKG_VERSION"))),
    ];
    rows.extend(output.metadata.iter().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), ToString::to_string);
        (name.as_str(), format!("`{}`", cell(&value)))
    }));
    text.push_str("\n## Provenance\n\n| | |\n|---|---|\n");
    for (name, value) in rows {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let inputs = manifest.inputs.iter().flat_map(|(name, inputs)| inputs.iter().map(move |input| (name, input)));
    for (name, input) in inputs {
        let _ = writeln!(text, "| input `{name}` | `{}` of stage `{}` |", input.output, input.stage_digest);
    }
    if !manifest.metrics.is_empty() {
        text.push_str("\n## Metrics of the stage\n\n| metric | value |\n|---|---|\n");
        for (name, value) in &manifest.metrics {
            let _ = writeln!(text, "| `{name}` | {value} |");
        }
    }
    if let Ok(config) = serde_json::to_string_pretty(&manifest.config) {
        let _ = write!(text, "\n## Configuration of the stage\n\n```json\n{config}\n```\n");
    }
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
