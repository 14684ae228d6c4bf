//! Lists all published outputs of a run.

use crate::args::OutputFormat;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use crate::session::AppSession;
use serde::Serialize;
use trainyard_core::units::format_size;
use trainyard_core::{ArtifactKind, Digest, Result};
use trainyard_views::find;

#[derive(Serialize)]
struct ArtifactListRow {
    artifact: String,
    kind: ArtifactKind,
    rows: Option<u64>,
    bytes: u64,
    stage_digest: Option<Digest>,
    digest: Digest,
    /// Number of notes about the artifact and its rows.
    notes: usize,
}

/// Prints every output that the stages of a run published or took from the cache.
pub fn run(session: &AppSession, run: &str, format: OutputFormat) -> Result<CliExit> {
    let rows = session.block_on(async {
        let run = find::run(&session.store, run).await?;
        let view = find::view(&session.store, &run).await?;
        let notes = session.store.notes().await?;
        let rows = view.stages.iter().flat_map(|stage| {
            stage.outputs.iter().map(|(port, output)| ArtifactListRow {
                artifact: format!("{run}/{}/{port}", stage.stage.0),
                kind: output.kind,
                rows: output.rows,
                bytes: output.size,
                stage_digest: stage.digest.clone(),
                digest: output.digest.clone(),
                notes: notes.get(&output.digest).map_or(0, Vec::len),
            })
        });
        Ok(rows.collect::<Vec<_>>())
    })?;
    match format {
        OutputFormat::Json => print_json(&rows)?,
        OutputFormat::Text => {
            let cells = |r: &ArtifactListRow| {
                vec![
                    r.artifact.clone(),
                    r.kind.to_string(),
                    r.rows.map_or_else(|| "-".into(), |n| n.to_string()),
                    format_size(r.bytes),
                    r.digest.short().into(),
                ]
            };
            let mut header = vec!["artifact", "kind", "rows", "size", "digest"];
            let mut lines: Vec<Vec<String>> = rows.iter().map(cells).collect();
            if rows.iter().any(|row| row.notes > 0) {
                header.push("notes");
                let count =
                    |row: &ArtifactListRow| if row.notes == 0 { "-".to_string() } else { row.notes.to_string() };
                lines.iter_mut().zip(&rows).for_each(|(line, row)| line.push(count(row)));
            }
            print_text(&table(&header, &lines));
        }
    }
    Ok(CliExit::Done)
}
