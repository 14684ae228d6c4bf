//! Implements `trainyard runs show RUN`. With `--watch`, the page is redrawn in place on a terminal; a pipe gets a line
//! for each change, and the page at the end.

use crate::args::OutputFormat;
use crate::exit::CliExit;
use crate::output::human::{json, print_raw, print_text};
use crate::output::live::LivePage;
use crate::output::runs::{self, StageProgress, state_text};
use crate::session::AppSession;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;
use trainyard_core::{Clock, Result, RunId, StageKey, SystemClock};
use trainyard_engine::fold::{RunView, StageStatus};
use trainyard_runtime::progress::read_progress;
use trainyard_runtime::resume;
use trainyard_views::{annotations, find};

/// Interval at which `--watch` reads the journal and the progress.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// Minimum interval between two progress lines of a stage in a pipe.
const PIPED_EVERY: Duration = Duration::from_secs(10);

/// Prints the page of a run; with `watch`, until the run is over.
pub fn show(session: &AppSession, name: &str, watch: bool, format: OutputFormat) -> Result<CliExit> {
    let clock = SystemClock::new();
    let (run, (mut view, mut journal), tags) = session.block_on(async {
        let run = find::run(&session.store, name).await?;
        let opened = resume::open_run(&session.store, &run).await?;
        let tags = annotations::tags_of(&session.store, &run).await?;
        Ok((run, opened, tags))
    })?;
    let mut printer = match format {
        OutputFormat::Json => PagePrinter::Json(String::new()),
        OutputFormat::Text if watch && std::io::stdout().is_terminal() => PagePrinter::Live(LivePage::default()),
        OutputFormat::Text => PagePrinter::Piped(None),
    };
    loop {
        let progress = session.block_on(read_progress(&session.store, &run, &view))?;
        printer.print(&run, &view, &tags, &progress, &clock)?;
        if !watch || view.finished.is_some() {
            return Ok(CliExit::Done);
        }
        std::thread::sleep(WATCH_EVERY);
        session.block_on(resume::follow(&mut journal, &mut view))?;
    }
}

/// Printer of the states of a run.
enum PagePrinter {
    /// The last printed document.
    Json(String),
    /// Page on a terminal.
    Live(LivePage),
    /// Lines for a pipe; `None` before the first page.
    Piped(Option<ChangedLines>),
}

impl PagePrinter {
    fn print(
        &mut self,
        run: &RunId,
        view: &RunView,
        tags: &[String],
        progress: &StageProgress,
        clock: &dyn Clock,
    ) -> Result<()> {
        let page = || runs::with_tags(&runs::text(run, view, progress, clock), tags);
        match self {
            Self::Json(last) => {
                let mut value = runs::json(run, view, progress, clock)?;
                if !tags.is_empty() {
                    value["tags"] = json!(tags);
                }
                let document = json(&value)?;
                if document != *last {
                    print_raw(&document);
                    *last = document;
                }
            }
            Self::Live(live) => live.draw(&page()),
            Self::Piped(changes @ None) => {
                print_text(&page());
                let known = changes.insert(ChangedLines::default());
                // The page contains them.
                drop(known.take(view, progress, clock.monotonic()));
            }
            Self::Piped(Some(changes)) => {
                for line in changes.take(view, progress, clock.monotonic()) {
                    print_text(&line);
                }
                if view.finished.is_some() {
                    print_text(&page());
                }
            }
        }
        Ok(())
    }
}

/// Last printed state of every stage.
#[derive(Debug, Default)]
struct ChangedLines(BTreeMap<StageKey, PrintedState>);

#[derive(Debug, Clone, PartialEq)]
struct PrintedState {
    status: StageStatus,
    text: String,
    at: Duration,
}

impl ChangedLines {
    /// Returns a line for each stage whose status changed, or whose progress or reason changed and was not printed
    /// within [`PIPED_EVERY`].
    fn take(&mut self, view: &RunView, progress: &StageProgress, now: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        for stage in &view.stages {
            let text = if matches!(stage.status, StageStatus::Done | StageStatus::Hit) {
                String::new()
            } else {
                state_text(stage, progress.get(stage.key())).unwrap_or_default()
            };
            let state = PrintedState { status: stage.status, text, at: now };
            let is_new = match self.0.get(stage.key()) {
                Some(last) if last.status == state.status => {
                    last.text != state.text && now.saturating_sub(last.at) >= PIPED_EVERY
                }
                Some(_) | None => true,
            };
            if is_new {
                let detail = if state.text.is_empty() { String::new() } else { format!("  {}", state.text) };
                lines.push(format!("{}: {}{detail}", stage.key(), stage.status.name()));
                self.0.insert(stage.key().clone(), state);
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::event::{Event, EventRecord};
    use trainyard_core::progress::ProgressRecord;

    fn progress(done: u64) -> StageProgress {
        let record = ProgressRecord {
            format: 1,
            at: 0,
            done,
            total: 9,
            unit: "steps".into(),
            rate: None,
            seconds_left: None,
            metric: None,
        };
        StageProgress::from([(StageKey("a".into()), record)])
    }

    #[test]
    fn pipe_gets_a_line_when_something_changed() {
        let stage = StageKey("a".into());
        let mut view = RunView::default();
        let why = "slots of this machine, held by run r".to_string();
        view.apply(&EventRecord { at: 0, event: Event::AttemptWaiting { stage: stage.clone(), attempt: 1, why } });
        let (mut lines, none) = (ChangedLines::default(), StageProgress::new());
        let at = Duration::from_secs;
        assert_eq!(
            lines.take(&view, &none, at(0)),
            ["a: waiting  waiting: slots of this machine, held by run r".to_string()]
        );
        assert!(lines.take(&view, &none, at(60)).is_empty(), "nothing changed");
        view.apply(&EventRecord { at: 1, event: Event::AttemptWorking { stage, attempt: 1 } });
        assert_eq!(lines.take(&view, &progress(1), at(61)), ["a: running  1/9 steps"]);
        assert!(lines.take(&view, &progress(2), at(63)).is_empty(), "the last line is two seconds old");
        assert_eq!(lines.take(&view, &progress(8), at(71)), ["a: running  8/9 steps"]);
        assert!(lines.take(&view, &progress(8), at(90)).is_empty());
    }
}
