//! Tells the observer for what the queued stages of a run wait.

use super::Dispatcher;
use crate::context::RunContext;

impl Dispatcher {
    /// Tells the observer for what the queued stages wait, and who holds the machine, if nothing else is in progress.
    pub(super) fn remind(&mut self) {
        let due = self.reminder.take_due(&self.view, self.context.clock.monotonic());
        if due.is_empty() {
            return;
        }
        let (context, for_pools) = (self.context.clone(), self.engine.queued() > 0);
        tokio::spawn(async move {
            let holders = if for_pools { holders(&context).await } else { None };
            for (stage, why) in due {
                let why = holders.as_ref().map_or_else(|| why.clone(), |holders| format!("{why}; {holders}"));
                context.observer.waits(&stage, &why);
            }
        });
    }
}

/// Returns the holders of the first pool whose executor knows them.
async fn holders(context: &RunContext) -> Option<String> {
    for pool in &context.pools {
        if let Ok(executor) = context.executors.get(&pool.name)
            && let Some(holders) = executor.external_holders().await
        {
            return Some(holders);
        }
    }
    None
}
