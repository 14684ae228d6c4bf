//! Adds, removes and lists pins, which `gc` must keep.

use crate::args::OutputFormat;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use crate::session::AppSession;
use serde::Serialize;
use serde_json::json;
use trainyard_core::units::{format_size, format_time};
use trainyard_core::{Digest, Manifest, Result};
use trainyard_store::Pin;
use trainyard_views::find;

#[derive(Serialize)]
struct PinRow {
    /// `None` if the manifest cannot be read.
    workflow: Option<String>,
    run: Option<String>,
    stage: Option<String>,
    stage_digest: Digest,
    generation: u32,
    /// Size of the outputs.
    bytes: Option<u64>,
    /// Time of the pin, in RFC 3339 and UTC.
    since: String,
    note: Option<String>,
}

/// Pins the manifest of an artifact.
pub fn pin(session: &AppSession, artifact: &str, note: Option<String>, format: OutputFormat) -> Result<CliExit> {
    print_pin(session, artifact, true, note, format)
}

/// Removes the pin of an artifact's manifest. If the name has a complete digest, removes the pins of all its
/// generations, even if their manifests cannot be read.
pub fn unpin(session: &AppSession, artifact: &str, format: OutputFormat) -> Result<CliExit> {
    let digest = artifact.split('/').next().and_then(|name| Digest::try_from(name.to_string()).ok());
    let Some(digest) = digest else { return print_pin(session, artifact, false, None, format) };
    let count = session.block_on(async {
        let mut count = 0;
        for pin in session.store.pins().await?.iter().filter(|pin| pin.stage_digest == digest) {
            count += u32::from(session.store.set_pin(&digest, pin.generation, false, None).await?);
        }
        Ok(count)
    })?;
    match format {
        OutputFormat::Json => print_json(&json!({"stage_digest": digest, "pinned": false, "changed": count > 0}))?,
        OutputFormat::Text => print_text(&format!("removed {count} pins of {}", digest.short())),
    }
    Ok(CliExit::Done)
}

fn print_pin(
    session: &AppSession,
    artifact: &str,
    pinned: bool,
    note: Option<String>,
    format: OutputFormat,
) -> Result<CliExit> {
    let store = &session.store;
    let (manifest, changed) = session.block_on(async {
        let manifest = find::artifact(store, artifact).await?.manifest;
        let changed = store.set_pin(&manifest.stage_digest, manifest.generation, pinned, note).await?;
        // A concurrent collection may have missed the pin, so this verifies that the manifest still exists.
        store.manifest_at(&manifest.stage_digest, manifest.generation).await?;
        Ok((manifest, changed))
    })?;
    let (stage, digest) = (&manifest.provenance.stage, &manifest.stage_digest);
    match format {
        OutputFormat::Json => print_json(&json!({
            "stage_digest": digest, "generation": manifest.generation, "pinned": pinned, "changed": changed,
        }))?,
        OutputFormat::Text => {
            let what = format!("stage `{stage}` ({}, generation {})", digest.short(), manifest.generation);
            print_text(&match (pinned, changed) {
                (true, true) => format!("pinned {what}"),
                (true, false) => format!("{what} was already pinned"),
                (false, true) => format!("unpinned {what}"),
                (false, false) => format!("{what} has no pin"),
            });
        }
    }
    Ok(CliExit::Done)
}

pub fn list(session: &AppSession, format: OutputFormat) -> Result<CliExit> {
    let rows = session.block_on(async {
        let mut rows = Vec::new();
        for pin in session.store.pins().await? {
            let manifest = session.store.manifest_at(&pin.stage_digest, pin.generation).await.ok().flatten();
            rows.push(PinRow::new(pin, manifest));
        }
        Ok(rows)
    })?;
    match format {
        OutputFormat::Json => print_json(&rows)?,
        OutputFormat::Text if rows.is_empty() => print_text("no pins"),
        OutputFormat::Text => {
            let header = ["stage", "run", "digest", "generation", "size", "since (UTC)", "note"];
            print_text(&table(&header, &rows.iter().map(PinRow::cells).collect::<Vec<_>>()));
        }
    }
    Ok(CliExit::Done)
}

impl PinRow {
    fn new(pin: Pin, manifest: Option<Manifest>) -> Self {
        let provenance = manifest.as_ref().map(|manifest| &manifest.provenance);
        Self {
            workflow: provenance.map(|provenance| provenance.workflow.clone()),
            run: provenance.map(|provenance| provenance.run.0.clone()),
            stage: provenance.map(|provenance| provenance.stage.0.clone()),
            bytes: manifest.as_ref().map(|manifest| manifest.outputs.values().map(|output| output.size()).sum()),
            stage_digest: pin.stage_digest,
            generation: pin.generation,
            since: format_time(pin.at),
            note: pin.note,
        }
    }
    fn cells(&self) -> Vec<String> {
        let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_string());
        vec![
            or(&self.stage),
            or(&self.run),
            self.stage_digest.short().to_string(),
            self.generation.to_string(),
            self.bytes.map_or_else(|| "-".to_string(), format_size),
            self.since.get(..19).unwrap_or_default().replace('T', " "),
            self.note.clone().unwrap_or_default(),
        ]
    }
}
