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
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::units::format_duration;
use trainyard_core::{Result, SystemClock};
use trainyard_engine::forecast::{Forecast, ForecastDecision};
use trainyard_runtime::{NoopObserver, RunOptions};
use trainyard_spec::FileSystem as _;
use trainyard_spec::files::absolute;
use trainyard_spec::plan::{Plan, PlanNode, StageOutput};

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
            let hints = repeated_preparation(&plan, &forecasts);
            print_json(&json!({"workflow": plan.workflow, "digest": plan.digest, "stages": stages, "hints": hints}))?;
        }
        PlanFormat::Text | PlanFormat::Mermaid => {
            let hints = repeated_preparation(&plan, &forecasts);
            let hints: String = hints.iter().map(|hint| format!("\nhint: {hint}")).collect();
            print_text(&(text(&forecasts) + &hints));
        }
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
    let shared = match count(ForecastDecision::Shared) {
        0 => String::new(),
        shared => format!(", {shared} shared"),
    };
    let summary = format!(
        "{} stages: {} hits, {} to run{shared}, {} deferred",
        forecasts.len(),
        count(ForecastDecision::Hit),
        count(ForecastDecision::Run),
        count(ForecastDecision::Deferred)
    );
    format!("{}\n\n{summary}", table(&["stage", "kind", "decision", "digest", "takes", "why"], &rows))
}

/// Stage, its model, and the rows that it encodes.
type RowReader = (String, Vec<StageOutput>, Vec<StageOutput>);

/// Returns a hint for each stage of which several instances would encode the same rows for the same model: they could
/// read them as tokens.
fn repeated_preparation(plan: &Plan, forecasts: &[Forecast]) -> Vec<String> {
    let runs = |node: &PlanNode| {
        let decision = forecasts.iter().find(|f| f.stage == node.key).map(|f| f.decision);
        matches!(decision, Some(ForecastDecision::Run | ForecastDecision::Deferred))
    };
    let from = |node: &'_ PlanNode, port: &str| {
        node.inputs.iter().find(|input| input.port == port).map(|input| input.from.clone())
    };
    let mut readers: BTreeMap<RowReader, usize> = BTreeMap::new();
    for node in plan.nodes.iter().filter(|node| runs(node)) {
        let encodes = from(node, "tokenized").is_some_and(|wired| wired.is_empty());
        let (Some(model), Some(rows)) = (from(node, "model"), from(node, "trajectories")) else { continue };
        if encodes && !rows.is_empty() {
            let stage = node.key.0.split('[').next().unwrap_or_default().to_string();
            *readers.entry((stage, model, rows)).or_default() += 1;
        }
    }
    let hint = |((stage, model, rows), count): (RowReader, usize)| {
        let quoted = |of: &StageOutput| format!("\"${{{{ stages.{}.{} }}}}\"", of.stage, of.output);
        let model: Vec<String> = model.iter().map(quoted).collect();
        let rows: Vec<String> = rows.iter().map(quoted).collect();
        format!(
            "{count} instances of `{stage}` encode the same rows; encode them once with `{stage}_rows: {{uses: \
             data/tokenize, with: {{model: {}, trajectories: [{}]}}}}`, and read `tokenized: \
             [\"${{{{ stages.{stage}_rows.tokenized }}}}\"]` instead of `trajectories`",
            model.join(", "),
            rows.join(", ")
        )
    };
    // Advice is given where it can be pasted: for stages of this file that read whole stages.
    let is_whole = |of: &StageOutput| !of.stage.0.contains(['[', '/']);
    let shown = |((stage, model, rows), count): &(RowReader, usize)| {
        *count > 1 && !stage.contains('/') && model.iter().chain(rows).all(is_whole)
    };
    readers.into_iter().filter(shown).map(hint).collect()
}
