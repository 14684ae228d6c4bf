//! What a running workflow shows: on a terminal one line for each running stage with rate, time left and its main metric; piped,
//! plain lines when something happens.
//!
//! Reads the same events and messages as every other observer. Refuses: deciding anything.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::attempt::{AttemptMessage, LogLevel};
use trainyard_core::event::{AttemptOutcome, CheckResult, Event, Record};
use trainyard_core::metric::address;
use trainyard_core::units::format_duration;
use trainyard_core::{AttemptNumber, Clock, Comparison, StageKey};
use trainyard_runtime::Observer;

/// Piped output shows progress at most this often for each stage.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// Runs with more stages than this show totals instead of a line for each finished stage.
const MANY_STAGES: usize = 200;

/// Shows a run on stderr.
pub struct Progress {
    clock: Arc<dyn Clock>,
    bars: Option<MultiProgress>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stages: usize,
    ended: usize,
    running: BTreeMap<StageKey, Running>,
    /// The metric that a stage showed while it ran; told first when it is done.
    main_metrics: BTreeMap<StageKey, String>,
}

struct Running {
    bar: Option<ProgressBar>,
    started: Duration,
    /// What is counted, and the first progress seen of it: a resumed stage's rate is its own, and each part of a stage (rollouts,
    /// then steps) has its own.
    origin: Option<Origin>,
    last_plain: Duration,
}

struct Origin {
    unit: String,
    total: u64,
    at: Duration,
    done: u64,
}

impl Progress {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { clock, bars, state: Mutex::default() }
    }

    fn say(&self, line: &str) {
        match &self.bars {
            // A closed terminal is noticed elsewhere.
            Some(bars) => drop(bars.println(line)),
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    fn start(&self, state: &mut State, stage: &StageKey, attempt: AttemptNumber) {
        let now = self.clock.monotonic();
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(
                ProgressStyle::with_template("{spinner} {prefix:18} {wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar.set_prefix(stage.to_string());
            bar.set_message("starting");
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            let again = if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
            self.say(&format!("{stage}: started{again}"));
        }
        state.running.insert(stage.clone(), Running { bar, started: now, origin: None, last_plain: now });
    }

    fn end(&self, state: &mut State, stage: &StageKey) -> Option<Duration> {
        let running = state.running.remove(stage)?;
        if let Some(bar) = running.bar {
            bar.finish_and_clear();
        }
        Some(self.clock.monotonic() - running.started)
    }

    fn progress(&self, stage: &StageKey, done: u64, total: u64, unit: &str, metric: Option<&(String, f64)>) {
        let now = self.clock.monotonic();
        let Ok(mut state) = self.state.lock() else { return };
        if let Some((name, _)) = metric {
            state.main_metrics.entry(stage.clone()).or_insert_with(|| name.clone());
        }
        let Some(running) = state.running.get_mut(stage) else { return };
        let same = |o: &Origin| o.unit == unit && o.total == total;
        let origin = match running.origin.take().filter(same) {
            Some(origin) => origin,
            None => Origin { unit: unit.to_string(), total, at: now, done },
        };
        let text =
            progress_text(done, total, unit, metric, (now - origin.at).as_secs_f64(), done.saturating_sub(origin.done));
        running.origin = Some(origin);
        match &running.bar {
            Some(bar) => bar.set_message(text),
            None if now - running.last_plain >= PLAIN_EVERY => {
                running.last_plain = now;
                self.say(&format!("{stage}: {text}"));
            }
            None => {}
        }
    }
}

/// `120/400 steps  12.5 steps/s  22.4s left  loss 0.4312`.
fn progress_text(
    done: u64,
    total: u64,
    unit: &str,
    metric: Option<&(String, f64)>,
    seconds: f64,
    since: u64,
) -> String {
    let mut text = if total > 0 { format!("{done}/{total} {unit}") } else { format!("{done} {unit}") };
    if since > 0 && seconds > 0.0 {
        let rate = since as f64 / seconds;
        text.push_str(&format!(
            "  {} {unit}/s",
            if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
        ));
        if total > done {
            text.push_str(&format!(
                "  {} left",
                format_duration(Duration::from_secs_f64((total - done) as f64 / rate))
            ));
        }
    }
    if let Some((name, value)) = metric {
        text.push_str(&format!("  {name} {value:.4}"));
    }
    text
}

impl Observer for Progress {
    fn event(&self, record: &Record) {
        let Ok(mut state) = self.state.lock() else { return };
        match &record.event {
            Event::RunCreated { stages, .. } => state.stages = stages.len(),
            Event::StageExpanded { instances, .. } => state.stages += instances.len(),
            Event::AttemptStarted { stage, attempt, pool, .. } if pool != "in_process" => {
                self.start(&mut state, stage, *attempt)
            }
            Event::AttemptEnded { stage, attempt, outcome, error } => {
                self.end(&mut state, stage);
                if *outcome != AttemptOutcome::Succeeded {
                    let why = error.as_ref().map_or_else(|| format!("{outcome:?}").to_lowercase(), ToString::to_string);
                    self.say(&format!("{stage}: attempt {attempt} failed: {why}"));
                } else if let Some(why) = error {
                    self.say(&format!("{stage}: attempt {attempt} is done, but not published: {why}"));
                }
            }
            Event::CacheHit { stage, digest, metrics, comparisons, .. } => {
                state.ended += 1;
                if state.stages <= MANY_STAGES {
                    self.say(&format!("{stage}: hit {}{}", digest.short(), reported(metrics, comparisons, None)));
                }
            }
            Event::Published { stage, digest, metrics, comparisons, adopted, .. } => {
                state.ended += 1;
                if state.stages <= MANY_STAGES {
                    let adopted = if *adopted { " (another run published it first)" } else { "" };
                    let main = state.main_metrics.get(stage).map(String::as_str);
                    let told = reported(metrics, comparisons, main);
                    self.say(&format!("{stage}: done {}{adopted}{told}", digest.short()));
                }
            }
            // A check with a role is told whatever came of it: a recipe claims that both roles behave.
            Event::ChecksEvaluated { stage, results } => {
                let told = results.iter().filter(|r| !r.passed || r.role.is_some());
                told.for_each(|r| self.say(&format!("{stage}: {}", check_text(r))));
            }
            Event::RetryScheduled { stage, attempt, .. } => {
                self.say(&format!("{stage}: attempt {attempt} will follow"))
            }
            Event::Skipped { stage, why } => self.say(&format!("{stage}: skipped: {why}")),
            Event::Blocked { stage, by } => self.say(&format!("{stage}: blocked by {by}")),
            Event::StageFailed { stage, error } => self.say(&format!("{stage}: failed: {error}")),
            Event::CancelRequested { why } => self.say(&format!("stopping: {why}")),
            _ => {}
        }
    }

    fn message(&self, stage: &StageKey, _: AttemptNumber, message: &AttemptMessage) {
        match message {
            AttemptMessage::Progress { done, total, unit, metric } => {
                self.progress(stage, *done, *total, unit, metric.as_ref())
            }
            AttemptMessage::Log { level: LogLevel::Warn | LogLevel::Error, text } => {
                self.say(&format!("{stage}: {text}"))
            }
            _ => {}
        }
    }

    fn note(&self, text: &str) {
        self.say(text);
    }
}

/// Up to four metrics, the main one first, as `  accuracy 0.7312`.
fn metrics_text(metrics: &BTreeMap<String, f64>, main: Option<&str>) -> String {
    let first = main.and_then(|name| metrics.get_key_value(name));
    let others = metrics.iter().filter(|(name, _)| Some(name.as_str()) != main);
    first.into_iter().chain(others).take(4).map(|(name, value)| format!("  {name} {}", short(*value))).collect()
}

/// The metrics of a stage; of one that compares, its first rows: `  accuracy 0.5000 → 0.7000 [0.1000, 0.3000]`.
fn reported(metrics: &BTreeMap<String, f64>, comparisons: &[Comparison], main: Option<&str>) -> String {
    if comparisons.is_empty() || main.is_some() {
        return metrics_text(metrics, main);
    }
    comparisons.iter().take(4).map(|row| format!("  {}", row_text(row))).collect()
}

/// `accuracy 0.5000 → 0.7000 [0.1000, 0.3000]`: b, a, and the interval of the difference.
pub fn row_text(row: &Comparison) -> String {
    let side = |value: Option<f64>| value.map_or_else(|| "none".to_string(), short);
    let interval = row.low.zip(row.high).map(|(low, high)| format!(" [{}, {}]", short(low), short(high)));
    format!("{} {} → {}{}", row.metric, side(row.b), side(row.a), interval.unwrap_or_default())
}

fn short(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value}") } else { format!("{value:.4}") }
}

/// `mechanism check failed: void is 0.25, must be at most 0`.
fn check_text(check: &CheckResult) -> String {
    let value = check.value.map_or_else(|| "missing".to_string(), short);
    let bound = match (check.min, check.max) {
        (Some(min), Some(max)) if check.passed => format!("from {min} to {max}"),
        (Some(min), max) if max.is_none() || check.value.is_none_or(|v| v < min) => format!("at least {min}"),
        (_, Some(max)) => format!("at most {max}"),
        _ => "a value".into(),
    };
    let grade = match (check.passed, check.gates) {
        (true, _) => "check holds",
        (false, true) => "check failed",
        (false, false) => "warning",
    };
    let role = check.role.as_ref().map(|role| format!("{role} ")).unwrap_or_default();
    format!("{role}{grade}: {} is {value}, must be {bound}", address(&check.metric, check.of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_rate_time_left_and_metric() {
        let text = progress_text(120, 400, "steps", Some(&("loss".into(), 0.43)), 10.0, 100);
        assert_eq!(text, "120/400 steps  10.0 steps/s  28.0s left  loss 0.4300");
        assert_eq!(progress_text(5, 0, "rows", None, 0.0, 0), "5 rows");
    }

    #[test]
    fn a_check_is_told_with_its_role_value_and_bound() {
        let check = |value: Option<f64>, min: Option<f64>, max: Option<f64>, passed: bool| CheckResult {
            metric: "void".into(),
            of: None,
            value,
            min,
            max,
            gates: true,
            role: Some("mechanism".into()),
            passed,
        };
        assert_eq!(
            check_text(&check(Some(0.25), None, Some(0.0), false)),
            "mechanism check failed: void is 0.2500, must be at most 0"
        );
        assert_eq!(
            check_text(&check(Some(0.0), Some(0.0), None, true)),
            "mechanism check holds: void is 0, must be at least 0"
        );
        assert_eq!(
            check_text(&check(Some(1.0), Some(0.0), Some(2.0), true)),
            "mechanism check holds: void is 1, must be from 0 to 2"
        );
        let plain = CheckResult { role: None, ..check(None, Some(1.0), None, false) };
        assert_eq!(check_text(&plain), "check failed: void is missing, must be at least 1");
    }

    #[test]
    fn the_main_metric_comes_first() {
        let metrics: BTreeMap<String, f64> =
            ["a", "b", "c", "d", "loss"].iter().map(|n| ((*n).to_string(), 1.5)).collect();
        assert_eq!(metrics_text(&metrics, Some("loss")), "  loss 1.5000  a 1.5000  b 1.5000  c 1.5000");
        assert_eq!(metrics_text(&metrics, Some("absent")), "  a 1.5000  b 1.5000  c 1.5000  d 1.5000");
    }
}
