//! Executes the commands that query or update the store. Each becomes a query whose response is an input of the engine.

use super::Dispatcher;
use crate::{lookup, publish};
use trainyard_engine::{Command, Input};

impl Dispatcher {
    /// Queues a command that queries or updates the store. Ignores launches, recoveries, stops and the end.
    pub(super) fn start_query(&self, command: Command) {
        let (context, claims) = (self.context.clone(), self.claims.clone());
        match command {
            Command::Lookup { node, digest } => self.queries.submit(async move {
                Input::LookedUp { node, answer: lookup::look_up(&context.store, &digest).await }
            }),
            Command::Watch { node, digest, generation } => self.queries.submit(async move {
                Input::LookedUp { node, answer: claims.look_up(&context.store, &digest, generation).await }
            }),
            Command::ReadRows { node, output, limit } => {
                self.queries.submit(async move { Input::Rows { node, rows: context.rows.rows(&output, limit).await } })
            }
            Command::Inspect { node, inputs } => self.queries.submit(async move {
                Input::Inspected { node, lost: lookup::missing_inputs(&context.store, &inputs).await }
            }),
            Command::Publish { node, attempt, manifest, .. } => self.queries.submit(async move {
                Input::Published { node, attempt, answer: publish::publish(&context.store, &manifest).await }
            }),
            Command::Launch { .. } | Command::Recover { .. } | Command::Stop { .. } | Command::Finish { .. } => {}
        }
    }
}
