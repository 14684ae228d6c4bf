//! Following a running trainer: its events become progress, curves and resume points until it ends.

use crate::events::{Event, Events};
use crate::resume;
use crate::told::{LOSS, Told};
use std::path::PathBuf;
use std::time::Duration;
use trainyard_api::StageContext;
use trainyard_core::{Error, Result};
use trainyard_process::{Ended, Solo};

/// Interval at which a trainer is polled.
const LOOK: Duration = Duration::from_millis(50);

/// Waits for the end of a trainer. `watch` fails if a concurrent service has failed.
///
/// Errors: cancelled; data (a broken event, a number that is not finite, a trainer that failed, with its last lines);
/// those of `watch`.
pub fn follow(
    context: &StageContext,
    mut trainer: Solo,
    events: PathBuf,
    mut told: Told,
    watch: &dyn Fn() -> Result<()>,
) -> Result<Told> {
    let mut events = Events::new(events);
    loop {
        // Checked first, so that lines written before the end are read after it.
        let ended = trainer.ended();
        watch()?;
        for event in events.new_ones()? {
            take(context, &mut told, event)?;
        }
        context.stop_if_cancelled()?;
        match ended {
            Some(end) => return finished(end).map(|()| told),
            None => std::thread::sleep(LOOK),
        }
    }
}

fn take(context: &StageContext, told: &mut Told, event: Event) -> Result<()> {
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

fn finished(end: Ended) -> Result<()> {
    if end.well {
        return Ok(());
    }
    let words = if end.errors.is_empty() { end.said } else { end.errors };
    let last = if words.is_empty() { String::new() } else { format!("; its last lines:\n{words}") };
    Err(Error::data(format!("the trainer {}{last}", end.how)).help("the log of the attempt has all that it wrote"))
}
