//! Follows a running trainer until it ends. Its events become progress, learning curves and resume points.

use crate::events::{TrainerEvent, TrainerEventReader};
use crate::progress::{LOSS, TrainerProgress};
use crate::resume;
use std::path::PathBuf;
use std::time::Duration;
use trainyard_api::StageContext;
use trainyard_core::{Error, Result};
use trainyard_process::{OneShotProgram, ProgramExit};

/// Interval at which a trainer is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits for the end of a trainer, and returns `progress` with its reports. `watch` is polled and fails if a concurrent
/// service has failed.
///
/// Errors: cancelled; data (an invalid event, a number that is not finite, or a failed trainer, with its last lines);
/// those of `watch`. The trainer is killed.
pub fn follow(
    context: &StageContext,
    mut trainer: OneShotProgram,
    events: PathBuf,
    mut progress: TrainerProgress,
    watch: &dyn Fn() -> Result<()>,
) -> Result<TrainerProgress> {
    let mut events = TrainerEventReader::new(events);
    loop {
        // The exit is checked first, so that lines written before the end are read after it.
        let exit = trainer.poll_exit();
        watch()?;
        for event in events.read_new()? {
            take(context, &mut progress, event)?;
        }
        context.stop_if_cancelled()?;
        match exit {
            Some(exit) => return finished(exit).map(|()| progress),
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

fn take(context: &StageContext, progress: &mut TrainerProgress, event: TrainerEvent) -> Result<()> {
    if event.step < progress.steps {
        let message = format!("the trainer's events go back from step {} to step {}", progress.steps, event.step);
        return Err(Error::data(message).help("count optimizer steps from the start, also after a resume"));
    }
    progress.steps = event.step;
    for (name, value) in &event.metrics {
        progress.curves.point(context, name, event.step, value.unwrap_or(f64::NAN))?;
    }
    if let Some(steps) = event.steps {
        let loss = event.metrics.get(LOSS).copied().flatten();
        context.progress(event.step, steps.max(event.step), "steps", loss.map(|loss| (LOSS, loss)));
    }
    event.checkpoint.map_or(Ok(()), |folder| resume::save(context, progress, &folder))
}

fn finished(exit: ProgramExit) -> Result<()> {
    if exit.success {
        return Ok(());
    }
    let output = if exit.stderr.is_empty() { exit.stdout } else { exit.stderr };
    let suffix = if output.is_empty() { String::new() } else { format!("; its last lines:\n{output}") };
    Err(Error::data(format!("the trainer {}{suffix}", exit.status))
        .help("see the log of the attempt for its whole output"))
}
