//! Implements `trainyard runs show RUN --curves STAGE`, which shows the learning curves of a stage.

use crate::args::OutputFormat;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, table};
use crate::output::metrics::number;
use crate::session::AppSession;
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_views::curves::{self, StoredCurves};
use trainyard_views::explain::HitOrigin;
use trainyard_views::find;

/// Prints a line for each curve, or all points as JSON.
pub fn show(session: &AppSession, run: &str, stage: &str, format: OutputFormat) -> Result<CliExit> {
    let (key, found) = session.block_on(async {
        let run = find::run(&session.store, run).await?;
        let view = find::view(&session.store, &run).await?;
        let stage = find::stage(&view, stage)?;
        let found = curves::of_stage(&session.store, &run, stage).await?;
        Ok((stage.key().clone(), found))
    })?;
    let StoredCurves { origin, curves: found } = found;
    match format {
        OutputFormat::Json => {
            let points = |(name, curve): (&String, &BTreeMap<u64, f64>)| {
                (name.clone(), curve.iter().map(|(step, value)| json!([step, value])).collect::<Vec<_>>())
            };
            let points: BTreeMap<_, _> = found.iter().map(points).collect();
            print_json(&json!({"stage": key, "origin": origin, "curves": points}))?;
        }
        OutputFormat::Text if found.is_empty() => print_text(&match origin {
            Some(HitOrigin { run, stage, .. }) => {
                format!("{key} was taken from the cache; the store has no curves of stage {stage} of run {run}")
            }
            None => format!("{key} reported no curves in this run"),
        }),
        OutputFormat::Text => {
            if let Some(HitOrigin { run, stage, .. }) = origin {
                print_text(&format!(
                    "{key} was taken from the cache; these are the curves of stage {stage} of run {run}"
                ));
            }
            let rows: Vec<Vec<String>> = found.iter().map(|(name, curve)| row(name, curve)).collect();
            print_text(&table(&["curve", "points", "last step", "first", "last", "min", "max"], &rows));
        }
    }
    Ok(CliExit::Done)
}

fn row(name: &str, curve: &BTreeMap<u64, f64>) -> Vec<String> {
    let values = || curve.values().copied();
    let cell = |value: Option<f64>| value.map(number).unwrap_or_default();
    vec![
        name.to_string(),
        curve.len().to_string(),
        curve.keys().next_back().map(u64::to_string).unwrap_or_default(),
        cell(values().next()),
        cell(values().next_back()),
        cell(values().reduce(f64::min)),
        cell(values().reduce(f64::max)),
    ]
}
