//! Implements `trainyard recipes run`, which runs every recipe with its mechanism on, then off.
//!
//! A check that holds with and without the mechanism does not test the mechanism. With the mechanism on, every check
//! must hold. With the mechanism off, the arms are one computation, so every mechanism check must fail, every guard
//! must hold, the run must not fail for another reason (checks of the role `sanity` may fail), and no stage may train
//! again.

use super::loaded_recipe::{self, LoadedRecipe, SWITCH};
use crate::args::{OutputFormat, ParamArgs, RecipesArgs, WorkflowArgs};
use crate::compiled;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::output::progress::ProgressObserver;
use crate::session::AppSession;
use serde::Serialize;
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::event::{CheckResult, RunOutcome};
use trainyard_core::{Clock, Error, Result, RunId, StageKinds, SystemClock};
use trainyard_engine::checks::describe;
use trainyard_engine::fold::{StageStatus, StageView};
use trainyard_runtime::{Interrupt, RunEnding, RunOptions, RunSummary};

/// Runs every recipe with its mechanism on, then off, and prints the results. Returns exit code 1 if a recipe does not
/// behave as required.
pub fn run(args: &RecipesArgs, names: &[String], catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let (session, recipes) = loaded_recipe::open(args, names, catalogue)?;
    let interrupt = Interrupt::default();
    interrupt.on_signals()?;
    let runner = AblationRunner {
        session,
        catalogue: catalogue.clone(),
        clock: Arc::new(SystemClock::new()),
        interrupt,
        params: args.params.clone(),
    };
    let mut outcomes = Vec::new();
    for recipe in &recipes {
        let Some(outcome) = runner.run_both(recipe)? else { return Ok(CliExit::Interrupted) };
        if args.format == OutputFormat::Text {
            print_text(&outcome.text());
        }
        outcomes.push(outcome);
    }
    let good = outcomes.iter().filter(|o| o.is_good()).count();
    match args.format {
        OutputFormat::Json => print_json(&outcomes)?,
        OutputFormat::Text => print_text(&format!("{good} of {} recipes behave both ways", outcomes.len())),
    }
    Ok(if good == outcomes.len() { CliExit::Done } else { CliExit::Failed })
}

/// State shared by all runs.
struct AblationRunner {
    session: AppSession,
    catalogue: Arc<Catalogue>,
    clock: Arc<dyn Clock>,
    interrupt: Interrupt,
    params: Vec<String>,
}

/// One run of a recipe.
#[derive(Debug, Serialize)]
struct AblationRun {
    run: RunId,
    seconds: f64,
    /// Number of evaluated checks with a role.
    checks: usize,
    /// Violated requirements; empty if the run is as required.
    problems: Vec<String>,
}

/// Both runs of a recipe.
#[derive(Debug, Serialize)]
struct AblationResult {
    recipe: String,
    on: AblationRun,
    /// `None` if the run with the mechanism on failed for another reason than a check.
    off: Option<AblationRun>,
}

impl AblationRunner {
    /// Runs a recipe with its mechanism on, then off. Returns `None` if interrupted.
    fn run_both(&self, recipe: &LoadedRecipe) -> Result<Option<AblationResult>> {
        let Some((on, sound)) = self.run_one(recipe, "on", enabled_problems)? else { return Ok(None) };
        let judge = |outcome: RunOutcome, stages: &[StageView]| disabled_problems(outcome, stages, &*self.catalogue);
        let off = if sound {
            let Some((off, _)) = self.run_one(recipe, "off", judge)? else { return Ok(None) };
            Some(off)
        } else {
            None
        };
        Ok(Some(AblationResult { recipe: recipe.name.clone(), on, off }))
    }

    /// Runs a recipe once with its mechanism switched to `switch`. Returns the run, with the problems that `judge`
    /// finds, and whether no stage failed for another reason than its checks. Returns `None` if interrupted.
    fn run_one(
        &self,
        recipe: &LoadedRecipe,
        switch: &str,
        judge: impl Fn(RunOutcome, &[StageView]) -> Vec<String>,
    ) -> Result<Option<(AblationRun, bool)>> {
        let mut params = self.params.clone();
        params.push(format!("{SWITCH}={switch}"));
        let workflow = WorkflowArgs { file: recipe.path.clone(), params: ParamArgs { params } };
        let plan = compiled::plan(&workflow, &*self.catalogue, &self.session.site)?;
        let context = wiring::run_context(
            &self.session,
            &self.catalogue,
            self.clock.clone(),
            Arc::new(ProgressObserver::new(self.clock.clone())),
        )?;
        let options = RunOptions { interrupt: self.interrupt.clone(), ..RunOptions::default() };
        let started = self.clock.monotonic();
        let RunSummary { run, ending, view, .. } =
            self.session.block_on(trainyard_runtime::run(options, plan, context))?;
        let outcome = match ending {
            RunEnding::Finished(RunOutcome::Cancelled) => return Ok(None),
            RunEnding::Finished(outcome) => outcome,
            RunEnding::Fenced { by } => {
                return Err(Error::lost(format!("run {run} belongs to another writer now: {by}")));
            }
        };
        let checks = view.stages.iter().flat_map(|s| &s.checks).filter(|c| c.role.is_some()).count();
        let sound = view.stages.iter().all(|s| stage_failure(s).is_none());
        let seconds = (self.clock.monotonic() - started).as_secs_f64();
        Ok(Some((AblationRun { run, seconds, checks, problems: judge(outcome, &view.stages) }, sound)))
    }
}

/// Returns the problems of a run with the mechanism on.
fn enabled_problems(outcome: RunOutcome, stages: &[StageView]) -> Vec<String> {
    let failed = |c: &&CheckResult| c.gates && !c.passed;
    let mut problems: Vec<String> = stages.iter().filter_map(stage_failure).collect();
    problems.extend(stages.iter().flat_map(|s| s.checks.iter().filter(failed).map(move |c| check_text(s, c))));
    if outcome == RunOutcome::Succeeded && !stages.iter().flat_map(|s| &s.checks).any(|c| c.role.is_some()) {
        problems.push("no check with a role was evaluated: its stage was skipped".into());
    }
    problems
}

/// Returns the problems of a run with the mechanism off.
fn disabled_problems(outcome: RunOutcome, stages: &[StageView], kinds: &dyn StageKinds) -> Vec<String> {
    let mut problems: Vec<String> = stages.iter().filter_map(stage_failure).collect();
    for (stage, check) in stages.iter().flat_map(|s| s.checks.iter().map(move |c| (s, c))) {
        let wrong = match check.role.as_deref() {
            Some("mechanism") => check.passed,
            // Such a check follows from the configuration, which differs when the mechanism is off.
            Some("sanity") => false,
            _ => check.gates && !check.passed,
        };
        if wrong {
            problems.push(check_text(stage, check));
        }
    }
    if !stages.iter().flat_map(|s| &s.checks).any(|c| c.role.as_deref() == Some("mechanism")) {
        problems.push("no mechanism check was evaluated".into());
    }
    let trains = |s: &StageView| kinds.kind(&s.kind).is_some_and(|info| info.trains);
    let again = stages.iter().filter(|s| s.status == StageStatus::Done && trains(s));
    problems.extend(
        again.map(|s| format!("{}: was trained again, so the arms are not equal with the mechanism off", s.key())),
    );
    if outcome == RunOutcome::Succeeded && problems.is_empty() {
        problems.push("the run succeeds".into());
    }
    problems
}

fn check_text(stage: &StageView, check: &CheckResult) -> String {
    format!("{}: {}", stage.key(), describe(check))
}

/// Returns the reason why a stage failed, or `None` if it did not fail or its checks are the reason.
pub(super) fn stage_failure(stage: &StageView) -> Option<String> {
    let by_checks = stage.checks.iter().any(|c| c.gates && !c.passed);
    let failed = stage.status == StageStatus::Failed && !by_checks;
    failed.then(|| {
        let why = stage.error.as_ref().map_or_else(|| "failed".to_string(), ToString::to_string);
        format!("{}: {why}", stage.key())
    })
}

impl AblationResult {
    fn is_good(&self) -> bool {
        self.on.problems.is_empty() && self.off.as_ref().is_some_and(|d| d.problems.is_empty())
    }

    /// Formats `simpletir: on ok (3 checks, 41.2 s), off ok (3 checks, 0.6 s)`, and a line for each problem.
    fn text(&self) -> String {
        let one = |d: &AblationRun| {
            let verdict = if d.problems.is_empty() { "ok" } else { "WRONG" };
            format!("{verdict} ({} checks, {:.1} s)", d.checks, d.seconds)
        };
        let off = self.off.as_ref().map_or_else(|| "not run".to_string(), one);
        let mut text = format!("{}: on {}, off {off}", self.recipe, one(&self.on));
        let off = self.off.iter().flat_map(|d| &d.problems).map(|p| ("off", p));
        for (direction, problem) in self.on.problems.iter().map(|p| ("on", p)).chain(off) {
            text.push_str(&format!("\n  {direction}: {problem}"));
        }
        text
    }
}

#[cfg(test)]
#[path = "ablation_tests.rs"]
mod tests;
