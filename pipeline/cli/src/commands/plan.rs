//! `trainyard plan FILE`: what a run would do, stage by stage, and why. Writes nothing; a store that is not there yet holds nothing.

use crate::args::{PlanArgs, PlanFormat};
use crate::compiled;
use crate::exit::Exit;
use crate::output::human::{print_json, print_text, table};
use crate::session::{self, Access};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::units::format_duration;
use trainyard_core::{Result, SystemClock};
use trainyard_engine::forecast::{Forecast, Verdict};
use trainyard_runtime::{RunOptions, Silent};

/// Compiles the file and asks the store about every stage; a stage that would fail leaves the exit code at 0.
pub fn run(args: &PlanArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let session = session::open(&args.site, Access::LookOrEmpty, catalogue)?;
    let plan = compiled::plan(&args.workflow, &**catalogue, &session.site)?;
    if args.format == PlanFormat::Mermaid {
        print_text(&trainyard_spec::draw::mermaid(&plan));
        return Ok(Exit::Done);
    }
    let world = wiring::outside(&session, catalogue, Arc::new(SystemClock::new()), Arc::new(Silent))?;
    let forecasts = session.block_on(trainyard_runtime::forecast::forecast(&RunOptions::default(), &plan, &world))?;
    match args.format {
        PlanFormat::Json => print_json(
            &json!({"workflow": plan.workflow, "stages": forecasts.iter().map(stage_json).collect::<Vec<_>>()}),
        )?,
        PlanFormat::Text | PlanFormat::Mermaid => print_text(&text(&forecasts)),
    }
    Ok(Exit::Done)
}

fn stage_json(forecast: &Forecast) -> Value {
    json!({
        "stage": forecast.stage, "kind": forecast.kind, "decision": forecast.verdict, "why": forecast.why,
        "digest": forecast.digest, "generation": forecast.generation, "seconds": forecast.seconds,
    })
}

fn text(forecasts: &[Forecast]) -> String {
    let row = |f: &Forecast| {
        let estimate = f
            .seconds
            .filter(|_| f.verdict == Verdict::Run)
            .map(|s| format!("~{}", format_duration(Duration::from_secs_f64(s))));
        let digest = f.digest.as_ref().map(|d| d.short().to_string());
        vec![
            f.stage.to_string(),
            f.kind.clone(),
            f.verdict.name().into(),
            digest.unwrap_or_default(),
            estimate.unwrap_or_default(),
            f.why.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = forecasts.iter().map(row).collect();
    let count = |verdict| forecasts.iter().filter(|f| f.verdict == verdict).count();
    let summary = format!(
        "{} stages: {} hits, {} to run, {} deferred",
        forecasts.len(),
        count(Verdict::Hit),
        count(Verdict::Run),
        count(Verdict::Deferred)
    );
    format!("{}\n\n{summary}", table(&["stage", "kind", "decision", "digest", "takes", "why"], &rows))
}
