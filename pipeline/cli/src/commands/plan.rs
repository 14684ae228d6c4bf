//! Implements `trainyard plan FILE`, which shows the stages that a run would compute, with reasons. It writes nothing
//! to the store; a missing store counts as empty.

use super::recipes::show::{merged_text, write_text};
use crate::args::{PlanArgs, PlanFormat};
use crate::compiled::{self, WorkflowSource};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_lines, print_text, table};
use crate::session::{self, Access};
use crate::shipped::ShippedFiles;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::units::format_duration;
use trainyard_core::{Result, SystemClock};
use trainyard_engine::forecast::{Forecast, ForecastDecision};
use trainyard_runtime::{NoopObserver, RunOptions};
use trainyard_spec::FileSystem as _;
use trainyard_spec::files::absolute;

/// Compiles the file, looks up every stage in the store and prints the plan. A stage that would fail does not affect
/// the exit code.
pub fn run(args: &PlanArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    if args.show_file {
        return show_file(args, catalogue);
    }
    let session = session::open(&args.site, Access::ReadOrEmpty, catalogue)?;
    let json = args.format == PlanFormat::Json;
    let plan = compiled::plan_or_json(&args.workflow, WorkflowSource::PLAIN, &**catalogue, &session.site, json)?;
    if args.format == PlanFormat::Mermaid {
        print_lines(&trainyard_spec::draw::mermaid(&plan));
        return Ok(CliExit::Done);
    }
    let context = wiring::run_context(&session, catalogue, Arc::new(SystemClock::new()), Arc::new(NoopObserver))?;
    let forecasts = session.block_on(trainyard_runtime::forecast::forecast(&RunOptions::default(), &plan, &context))?;
    match args.format {
        PlanFormat::Json => {
            let stages: Vec<Value> = forecasts.iter().map(stage_json).collect();
            print_json(&json!({"workflow": plan.workflow, "digest": plan.digest, "stages": stages}))?;
        }
        PlanFormat::Text | PlanFormat::Mermaid => print_text(&text(&forecasts)),
    }
    Ok(CliExit::Done)
}

/// Prints the file with its parents merged in, even if it has mistakes. The mistakes go to stderr and are an error
/// (exit code 2).
fn show_file(args: &PlanArgs, catalogue: &Catalogue) -> Result<CliExit> {
    let site = session::site(&args.site, catalogue)?;
    let path = absolute(&compiled::working_directory()?, &args.workflow.file.to_string_lossy());
    let header = ShippedFiles
        .read(&path)?
        .lines()
        .next()
        .filter(|l| l.contains("yaml-language-server"))
        .map(|l| l.to_string() + "\n");
    write_text(&(header.unwrap_or_default() + &merged_text(&path, catalogue)?));
    compiled::plan(&args.workflow, catalogue, &site).map(|_| CliExit::Done)
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
            .filter(|_| f.decision == ForecastDecision::Run)
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
        count(ForecastDecision::Hit),
        count(ForecastDecision::Run),
        count(ForecastDecision::Deferred)
    );
    format!("{}\n\n{summary}", table(&["stage", "kind", "decision", "digest", "takes", "why"], &rows))
}
