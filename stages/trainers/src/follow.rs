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
    mut told: TrainerProgress,
    watch: &dyn Fn() -> Result<()>,
) -> Result<TrainerProgress> {
    let mut events = TrainerEventReader::new(events);
    loop {
        // Checked first, so that lines written before the end are read after it.
        let ended = trainer.poll_exit();
        watch()?;
        for event in events.read_new()? {
            take(context, &mut told, event)?;
        }
        context.stop_if_cancelled()?;
        match ended {
            Some(end) => return finished(end).map(|()| told),
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

fn take(context: &StageContext, told: &mut TrainerProgress, event: TrainerEvent) -> Result<()> {
    if event.step < told.steps {
        let message = format!("the trainer's events go back from step {} to step {}", told.steps, event.step);
        return Err(Error::data(message).help("count optimizer steps from the start, also after a resume"));
    }
    told.steps = event.step;
    for (name, value) in &event.metrics {
        told.curves.point(context, name, event.step, value.unwrap_or(f64::NAN))?;
    }
    if let Some(steps) = event.steps {
        let loss = event.metrics.get(LOSS).copied().flatten();
        context.progress(event.step, steps.max(event.step), "steps", loss.map(|loss| (LOSS, loss)));
    }
    event.checkpoint.map_or(Ok(()), |folder| resume::save(context, told, &folder))
}

fn finished(end: ProgramExit) -> Result<()> {
    if end.success {
        return Ok(());
    }
    let words = if end.stderr.is_empty() { end.stdout } else { end.stderr };
    let last = if words.is_empty() { String::new() } else { format!("; its last lines:\n{words}") };
    Err(Error::data(format!("the trainer {}{last}", end.status)).help("the log of the attempt has all that it wrote"))
}
