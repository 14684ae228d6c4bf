//! `trainyard plan FILE`: what a run would do, stage by stage, and why. Writes nothing; a store that does not exist is
//! empty.

use crate::args::{PlanArgs, PlanFormat};
use crate::exit::Exit;
use crate::output::human::{print_json, print_raw, print_text, table};
use crate::session::{Access, Session};
use crate::{compiled, wiring, world};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::units::format_duration;
use trainyard_core::{Result, SystemClock};
use trainyard_engine::forecast::{Decision, Forecast};
use trainyard_runtime::{RunOptions, Silent};

/// Compiles the file and asks the store about every stage; a stage that would fail leaves the exit code at 0.
pub fn run(args: &PlanArgs) -> Result<Exit> {
    let session = Session::open(&args.site, Access::LookOrEmpty)?;
    let plan =
        compiled::plan_or_json(&args.workflow, &wiring::registry()?, &session.site, args.format == PlanFormat::Json)?;
    if args.format == PlanFormat::Mermaid {
        print_raw(&trainyard_spec::draw::mermaid(&plan));
        return Ok(Exit::Done);
    }
    let world = world::build(&session, Arc::new(SystemClock::new()), Arc::new(Silent))?;
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
        "stage": forecast.stage, "kind": forecast.kind, "decision": forecast.decision, "why": forecast.why,
        "digest": forecast.digest, "generation": forecast.generation, "seconds": forecast.seconds,
    })
}

fn text(forecasts: &[Forecast]) -> String {
    let row = |f: &Forecast| {
        let estimate = f
            .seconds
            .filter(|_| f.decision == Decision::Run)
            .map(|s| format!("~{}", format_duration(Duration::from_secs_f64(s))));
        let digest = f.digest.as_ref().map(|d| d.short().to_string());
        vec![
            f.stage.to_string(),
            f.kind.clone(),
            f.decision.name().into(),
            digest.unwrap_or_default(),
            estimate.unwrap_or_default(),
            f.why.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = forecasts.iter().map(row).collect();
    let count = |decision| forecasts.iter().filter(|f| f.decision == decision).count();
    let summary = format!(
        "{} stages: {} hits, {} to run, {} deferred",
        forecasts.len(),
        count(Decision::Hit),
        count(Decision::Run),
        count(Decision::Deferred)
    );
    format!("{}\n\n{summary}", table(&["stage", "kind", "decision", "digest", "takes", "why"], &rows))
}
