//! Following a running trainer: its events become progress, curves and resume points until it ends.

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

/// Waits for the end of a trainer. `watch` fails if a concurrent service has failed.
///
/// Errors: cancelled; data (a broken event, a number that is not finite, a trainer that failed, with its last lines);
/// those of `watch`.
pub fn follow(
    context: &StageContext,
    mut trainer: OneShotProgram,
    events: PathBuf,
    mut progress: TrainerProgress,
    watch: &dyn Fn() -> Result<()>,
) -> Result<TrainerProgress> {
    let mut events = TrainerEventReader::new(events);
    loop {
        // Checked first, so that lines written before the end are read after it.
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
