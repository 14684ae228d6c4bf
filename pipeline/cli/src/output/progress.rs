//! Shows the progress of a running workflow on stderr.
//!
//! A terminal has a live line for each running stage (rate, time left, main metric) below one line for each ended
//! stage. A workflow of many stages has a line of totals instead, so that a run never fills more than a screen. Piped
//! output has a plain line for each event.

mod words;

pub use words::progress_text;

use crate::output::clean::{AllowedCodes, clean, without_colors};
use crate::output::human::{sanitize, with_causes};
use crate::output::metrics;
use crate::output::style::Style;
use crate::output::width;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::attempt::{AttemptMessage, LogLevel};
use trainyard_core::event::{AttemptOutcome, Event, EventRecord};
use trainyard_core::progress::ProgressMeter;
use trainyard_core::{AttemptNumber, Clock, Comparison, Error, RunId, StageKey};
use trainyard_runtime::{Observer, OpenedRun};
use trainyard_spec::plan::Plan;
use trainyard_spec::{Template, run_stage};
use words::check_text;

/// Minimum interval between progress lines of a stage in piped output.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of stages of a piped run at which successes are printed.
const MANY_PIPED: usize = 200;
/// Maximum number of stages on a terminal at which successes are printed. A larger workflow has a line of totals
/// instead.
const MANY_SHOWN: usize = 18;
/// Maximum number of log lines of a failed command that are shown.
const LAST_LINES: usize = 8;

/// Function that returns the address of a run's page.
pub type PageOfRun = Box<dyn Fn(&RunId) -> String + Send + Sync>;

/// Observer that shows a run on stderr.
pub struct ProgressObserver {
    clock: Arc<dyn Clock>,
    bars: Option<MultiProgress>,
    /// Names of the models that each evaluation compares, by stage id.
    models: BTreeMap<String, Vec<String>>,
    /// Address of a run's page.
    page: Option<PageOfRun>,
    state: Mutex<ProgressState>,
}

#[derive(Default)]
struct ProgressState {
    stages: usize,
    ended: usize,
    hits: usize,
    totals: Option<ProgressBar>,
    running: BTreeMap<StageKey, RunningStage>,
    /// Kind and main metric by stage id.
    kinds: BTreeMap<String, (String, Option<String>)>,
    /// Last log lines of running commands.
    logs: BTreeMap<StageKey, VecDeque<String>>,
    /// Failed attempts that may still be retried.
    failures: BTreeMap<StageKey, (AttemptNumber, String)>,
}

struct RunningStage {
    bar: Option<ProgressBar>,
    meter: ProgressMeter,
    last_plain: Duration,
}

/// Metrics and comparisons of a stage.
type StageMetrics<'a> = (&'a BTreeMap<String, f64>, &'a [Comparison]);

impl ProgressObserver {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { clock, bars, models: BTreeMap::new(), page: None, state: Mutex::default() }
    }
    /// Makes evaluations of this plan show the accuracy of each compared model.
    #[must_use]
    pub fn comparing(mut self, plan: &Plan) -> Self {
        let named = plan.nodes.iter().map(|node| (&node.key, compared_models(&node.config)));
        let named = named.filter(|(_, models)| !models.is_empty());
        self.models = named.map(|(key, models)| (key.stage_id().to_string(), models)).collect();
        self
    }
    /// Makes the first line name the page of the run.
    #[must_use]
    pub fn with_page(mut self, page: Option<PageOfRun>) -> Self {
        self.page = page;
        self
    }

    fn print_line(&self, line: &str) {
        let line = sanitize(line, Style::of_stderr());
        match &self.bars {
            // Another output detects a closed terminal.
            Some(bars) => drop(bars.println(width::hang(&line, width::of_stderr().unwrap_or(usize::MAX)))),
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// Returns whether each stage that succeeds gets a line.
    fn is_detailed(&self, state: &ProgressState) -> bool {
        state.stages <= if self.bars.is_some() { MANY_SHOWN } else { MANY_PIPED }
    }

    fn start(&self, state: &mut ProgressState, stage: &StageKey, attempt: AttemptNumber) {
        let now = self.clock.monotonic();
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(template("{spinner} {prefix:18} {wide_msg}"));
            bar.set_prefix(foreign(&stage.0));
            bar.set_message("starting");
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            let again = if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
            self.print_line(&format!("{stage}: started{again}"));
        }
        state.running.insert(stage.clone(), RunningStage { bar, meter: ProgressMeter::default(), last_plain: now });
    }

    fn end(&self, state: &mut ProgressState, stage: &StageKey) {
        if let Some(bar) = state.running.remove(stage).and_then(|running| running.bar) {
            bar.finish_and_clear();
        }
    }

    /// Counts an ended stage, and shows the totals of a workflow of many stages.
    fn count(&self, state: &mut ProgressState) {
        state.ended += 1;
        let Some(bars) = self.bars.as_ref().filter(|_| !self.is_detailed(state)) else { return };
        let bar = state.totals.get_or_insert_with(|| {
            let bar = bars.insert(0, ProgressBar::new_spinner());
            bar.set_style(template("  {wide_msg}"));
            bar
        });
        bar.set_message(format!("{} of {} stages ended, {} hits", state.ended, state.stages, state.hits));
        if state.ended == state.stages {
            bar.finish();
        }
    }

    fn progress(&self, stage: &StageKey, message: &AttemptMessage) {
        let now = self.clock.monotonic();
        let Ok(mut state) = self.state.lock() else { return };
        let Some(running) = state.running.get_mut(stage) else { return };
        let Some(progress) = running.meter.measure(message, now, self.clock.unix_millis()) else { return };
        let text = progress_text(&progress);
        match &running.bar {
            Some(bar) => bar.set_message(foreign(&text)),
            None if now - running.last_plain >= PLAIN_EVERY => {
                running.last_plain = now;
                self.print_line(&format!("{stage}: {text}"));
            }
            None => {}
        }
    }

    /// Prints the line of a published stage: `rl: done 1a2b3c  reward_mean 0.749 …`.
    fn published(&self, state: &ProgressState, stage: &StageKey, word: &str, note: &str, reported: StageMetrics<'_>) {
        if !self.is_detailed(state) {
            return;
        }
        let id = stage.stage_id();
        let main = state.kinds.get(id).and_then(|(_, main)| main.as_deref());
        let models = self.models.get(id).map_or(&[][..], Vec::as_slice);
        let word = Style::of_stderr().status(word);
        let (values, comparisons) = reported;
        self.print_line(&format!("{stage}: {word} {note}{}", metrics::line(values, comparisons, main, models)));
    }

    fn failed(&self, state: &mut ProgressState, stage: &StageKey, error: &Error) {
        let attempts = state.failures.remove(stage).map_or(0, |(attempt, _)| attempt);
        let after = if attempts > 1 { format!(" after {attempts} attempts") } else { String::new() };
        self.print_line(&format!("{stage}: {}{after}: {}", Style::of_stderr().red("failed"), with_causes(error)));
        let is_command = state.kinds.get(stage.stage_id()).is_some_and(|(kind, _)| kind == run_stage::KIND);
        for line in state.logs.remove(stage).filter(|_| is_command).into_iter().flatten() {
            self.print_line(&format!("  | {line}"));
        }
    }

    fn buffer_line(&self, stage: &StageKey, text: &str) {
        let Ok(mut state) = self.state.lock() else { return };
        let lines = state.logs.entry(stage.clone()).or_default();
        lines.extend(foreign(&without_colors(text)).lines().map(str::to_string));
        while lines.len() > LAST_LINES {
            lines.pop_front();
        }
    }
}

/// Escapes text from outside this program, including colors.
fn foreign(text: &str) -> String {
    clean(text, AllowedCodes::Nothing).into_owned()
}

fn template(text: &str) -> ProgressStyle {
    ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Returns the option `names` of an evaluation, or an empty list for another stage.
fn compared_models(config: &Template) -> Vec<String> {
    let names = match config {
        Template::Literal(config) => config.get("names").cloned(),
        Template::Map(entries) => entries.get("names").and_then(Template::as_literal),
        _ => None,
    };
    let names = names.as_ref().and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_string)).collect()
}

impl Observer for ProgressObserver {
    fn opened(&self, run: &OpenedRun<'_>) {
        if let Some(page) = &self.page {
            self.print_line(&format!("pages: {}", page(run.run)));
        }
    }
    fn event(&self, record: &EventRecord) {
        let Ok(mut state) = self.state.lock() else { return };
        match &record.event {
            Event::RunCreated { stages, .. } => {
                state.stages = stages.len();
                let kinds =
                    stages.iter().map(|s| (s.stage.stage_id().to_string(), (s.kind.clone(), s.main_metric.clone())));
                state.kinds = kinds.collect();
            }
            Event::StageExpanded { instances, .. } => state.stages += instances.len(),
            Event::AttemptStarted { stage, attempt, pool, .. } if pool != "in_process" => {
                self.start(&mut state, stage, *attempt)
            }
            // A resumed run continues this attempt, which an earlier engine started.
            Event::AttemptSubmitted { stage, attempt, handle } if !state.running.contains_key(stage) => {
                self.print_line(&format!("{stage}: attempt {attempt} continues as {handle}"));
                self.start(&mut state, stage, *attempt);
            }
            Event::AttemptWaiting { stage, why, .. } => {
                if let Some(bar) = state.running.get(stage).and_then(|running| running.bar.as_ref()) {
                    bar.set_message(foreign(&format!("waiting: {why}")));
                }
            }
            Event::AttemptWorking { stage, .. } => {
                if let Some(bar) = state.running.get(stage).and_then(|running| running.bar.as_ref()) {
                    bar.set_message("starting");
                }
            }
            Event::AttemptEnded { stage, attempt, outcome, error } => {
                self.end(&mut state, stage);
                if *outcome != AttemptOutcome::Succeeded {
                    let why = error.as_ref().map_or_else(|| format!("{outcome:?}").to_lowercase(), ToString::to_string);
                    state.failures.insert(stage.clone(), (*attempt, why));
                } else if let Some(why) = error {
                    self.print_line(&format!("{stage}: attempt {attempt} is done, but not published: {why}"));
                }
            }
            Event::CacheHit { stage, digest, metrics, comparisons, .. } => {
                state.hits += 1;
                self.count(&mut state);
                self.published(&state, stage, "hit", digest.short(), (metrics, comparisons));
            }
            Event::Published { stage, digest, metrics, comparisons, adopted, .. } => {
                state.logs.remove(stage);
                self.count(&mut state);
                let adopted = if *adopted { " (another run published it first)" } else { "" };
                let note = format!("{}{adopted}", digest.short());
                self.published(&state, stage, "done", &note, (metrics, comparisons));
            }
            // A check with a role is shown with any result, since a recipe depends on both results. Another failed
            // check is already the error of its stage.
            Event::ChecksEvaluated { stage, results } => {
                let shown = results.iter().filter(|r| r.role.is_some() || (!r.passed && !r.gates));
                shown.for_each(|r| self.print_line(&format!("{stage}: {}", check_text(r))));
            }
            // The stage waits for its inputs or another run, not for a pool.
            Event::Queued { stage, why } => {
                if let Some((failed, error)) = state.failures.remove(stage) {
                    self.print_line(&format!("{stage}: attempt {failed} ended: {error}; {why}"));
                }
            }
            Event::RetryScheduled { stage, attempt, .. } => {
                if let Some((failed, why)) = state.failures.remove(stage) {
                    self.print_line(&format!("{stage}: attempt {failed} failed: {why}; attempt {attempt} follows"));
                }
            }
            Event::Skipped { stage, why } => {
                self.count(&mut state);
                self.print_line(&format!("{stage}: skipped: {why}"));
            }
            Event::Blocked { stage, by } => {
                self.count(&mut state);
                self.print_line(&format!("{stage}: blocked by {by}"));
            }
            Event::StageFailed { stage, error } => {
                self.count(&mut state);
                self.failed(&mut state, stage, error);
            }
            Event::StageCancelled { stage } if state.failures.remove(stage).is_some() => {
                self.print_line(&format!("{stage}: stopped"));
            }
            Event::CancelRequested { why } => self.print_line(&format!("stopping: {why}")),
            _ => {}
        }
    }

    fn message(&self, stage: &StageKey, _: AttemptNumber, message: &AttemptMessage) {
        match message {
            AttemptMessage::Progress { .. } => self.progress(stage, message),
            AttemptMessage::Log { level: LogLevel::Warn | LogLevel::Error, text } => {
                self.print_line(&foreign(&format!("{stage}: {}", without_colors(text))))
            }
            AttemptMessage::Log { level: LogLevel::Info, text } => self.buffer_line(stage, text),
            _ => {}
        }
    }

    fn waits(&self, stage: &StageKey, why: &str) {
        let Ok(state) = self.state.lock() else { return };
        let text = foreign(&format!("waiting: {why}"));
        match state.running.get(stage).and_then(|running| running.bar.as_ref()) {
            // The live line stays on the screen.
            Some(bar) => bar.set_message(text),
            None => self.print_line(&format!("{stage}: {text}")),
        }
    }

    fn note(&self, text: &str) {
        self.print_line(text);
    }
}
