//! Implements `trainyard recipes run NAME --seeds 41..45`, which runs a recipe on several seeds and judges its claim on
//! all of them.
//!
//! Every seed is one run with the mechanism on, whose comparisons are written to `FOLDER/NAME/SEED.json`. A seed whose
//! file belongs to the present plan is not computed again, so an interrupted command can be repeated.

pub mod judge;
pub mod list;
pub mod page;
pub mod pooled;
pub mod result;
pub mod text;

use super::loaded_recipe::{self, LoadedRecipe};
use crate::args::{OutputFormat, ParamArgs, RecipesArgs, SeedArgs, WorkflowArgs};
use crate::compiled;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::session::AppSession;
use judge::SeedJudgment;
use result::SeedResult;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use trainyard_app::{Catalogue, wiring};
use trainyard_core::error::Context as _;
use trainyard_core::event::RunOutcome;
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_runtime::{Interrupt, NoopObserver, RunEnding, RunOptions};
use trainyard_spec::Plan;

/// Name of the parameter with the seed.
const SEED: &str = "seed";

/// Runs the recipes on all seeds and prints their outcome. Returns exit code 1 if a recipe does not have the result
/// that it declares, or a run failed.
pub fn run(args: &RecipesArgs, names: &[String], seeds: &SeedArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let list = list::parse(seeds.seeds.as_deref().unwrap_or_default())?;
    let (session, recipes) = loaded_recipe::open(args, names, catalogue)?;
    let judged: Vec<&LoadedRecipe> = recipes.iter().filter(|r| r.recipe.result.is_some()).collect();
    if let Some(other) = recipes.iter().find(|r| r.recipe.result.is_none() && names.contains(&r.name)) {
        return Err(Error::invalid(format!("recipe `{}` declares no `result`", other.name))
            .help("only its mechanism is judged, on one seed: leave `--seeds` out"));
    }
    let interrupt = Interrupt::default();
    interrupt.on_signals()?;
    let runner = SeedRunner {
        session,
        catalogue: catalogue.clone(),
        clock: Arc::new(SystemClock::new()),
        interrupt,
        params: args.params.clone(),
        folder: seeds.results.clone(),
        jobs: seeds.jobs.max(1),
    };
    let mut outcomes = Vec::new();
    for recipe in judged {
        let Some(results) = runner.seeds(recipe, &list)? else { return Ok(CliExit::Interrupted) };
        let judgment = judge::judge(&recipe.plan, &results);
        if args.format == OutputFormat::Text {
            print_text(&text::outcome(recipe, &results, &judgment));
        }
        outcomes.push((recipe, judgment));
    }
    let good = outcomes.iter().filter(|(recipe, judgment)| is_declared(recipe, judgment)).count();
    match args.format {
        OutputFormat::Json => print_json(&outcomes.iter().map(|(r, j)| as_json(r, j)).collect::<Vec<Value>>())?,
        OutputFormat::Text => {
            print_text(&format!("{good} of {} recipes have the result that they declare", outcomes.len()))
        }
    }
    Ok(if good == outcomes.len() { CliExit::Done } else { CliExit::Failed })
}

/// Returns whether the pooled seeds have the result that the recipe declares.
pub fn is_declared(recipe: &LoadedRecipe, judgment: &SeedJudgment) -> bool {
    judgment.result.is_some() && judgment.result == recipe.recipe.result
}

fn as_json(recipe: &LoadedRecipe, judgment: &SeedJudgment) -> Value {
    json!({
        "recipe": recipe.name, "declared": recipe.recipe.result, "result": judgment.result,
        "reasons": judgment.reasons, "checks": judgment.checks, "rows": judgment.rows,
    })
}

/// State shared by all runs.
struct SeedRunner {
    session: AppSession,
    catalogue: Arc<Catalogue>,
    clock: Arc<dyn Clock>,
    interrupt: Interrupt,
    params: Vec<String>,
    /// Folder of the result files.
    folder: PathBuf,
    /// Number of concurrent seeds.
    jobs: usize,
}

impl SeedRunner {
    /// Computes the results of all seeds, in their order. Returns `None` if interrupted.
    fn seeds(&self, recipe: &LoadedRecipe, seeds: &[u64]) -> Result<Option<Vec<SeedResult>>> {
        let waiting = Mutex::new(seeds.iter().copied().enumerate().collect::<VecDeque<(usize, u64)>>());
        let done = Mutex::new(Vec::new());
        let next = || waiting.lock().ok().and_then(|mut list| list.pop_front());
        let work = || {
            while let Some((place, seed)) = next() {
                let result = self.seed(recipe, seed).at(format!("{}, seed {seed}", recipe.name));
                let ended = !matches!(result, Ok(Some(_)));
                if let Ok(mut done) = done.lock() {
                    done.push((place, result));
                }
                if ended {
                    return;
                }
            }
        };
        std::thread::scope(|scope| (0..self.jobs).for_each(|_| drop(scope.spawn(work))));
        let mut done = done.into_inner().map_err(|_| Error::bug("a thread of `--jobs` panicked"))?;
        done.sort_by_key(|(place, _)| *place);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Returns the result of one seed. It is read from the seed's file if that belongs to the present plan, and
    /// otherwise computed and written. Returns `None` if interrupted.
    fn seed(&self, recipe: &LoadedRecipe, seed: u64) -> Result<Option<SeedResult>> {
        let plan = self.plan(&recipe.path, seed)?;
        let path = result::path(&self.folder, &recipe.name, seed);
        if let Some(known) = SeedResult::read(&path)?.filter(|known| known.plan == plan.digest) {
            return Ok(Some(known));
        }
        let started = self.clock.monotonic();
        if !self.compute(self.reduced(plan.clone()))? {
            return Ok(None);
        }
        let context = self.run_context()?;
        let result = self.session.block_on(result::of_store(recipe, seed, &plan, &context))?;
        result.write(&path)?;
        let seconds = (self.clock.monotonic() - started).as_secs_f64();
        eprintln!("{}, seed {seed}: {seconds:.1} s, {}", recipe.name, path.display());
        Ok(Some(result))
    }

    fn plan(&self, file: &Path, seed: u64) -> Result<Plan> {
        let params = self.params.iter().cloned().chain([format!("{SEED}={seed}")]).collect();
        let workflow = WorkflowArgs { file: file.to_path_buf(), params: ParamArgs { params } };
        compiled::plan(&workflow, &*self.catalogue, &self.session.site)
    }

    /// Limits each stage to one CPU if several seeds run concurrently, so that their runs share the machine instead of
    /// waiting for each other. No digest contains resources.
    fn reduced(&self, mut plan: Plan) -> Plan {
        if self.jobs > 1 {
            plan.nodes.iter_mut().flat_map(|node| &mut node.resources).for_each(|request| request.cpus = Some(1));
        }
        plan
    }

    /// Runs a plan. Returns false if interrupted. Failed checks are not an error, since they are part of the result.
    fn compute(&self, plan: Plan) -> Result<bool> {
        let options = RunOptions { interrupt: self.interrupt.clone(), ..RunOptions::default() };
        let summary = self.session.block_on(trainyard_runtime::run(options, plan, self.run_context()?))?;
        match summary.ending {
            RunEnding::Finished(RunOutcome::Cancelled) => return Ok(false),
            RunEnding::Finished(_) => {}
            RunEnding::Fenced { by } => {
                return Err(Error::lost(format!("run {} belongs to another writer now: {by}", summary.run)));
            }
        }
        let broken: Vec<String> = summary.view.stages.iter().filter_map(super::ablation::stage_failure).collect();
        if broken.is_empty() { Ok(true) } else { Err(Error::data(broken.join("; "))) }
    }

    fn run_context(&self) -> Result<trainyard_runtime::RunContext> {
        wiring::run_context(&self.session, &self.catalogue, self.clock.clone(), Arc::new(NoopObserver))
    }
}
