//! Commands that query or update the store: each becomes a question whose response is an input of the engine.

use super::Dispatch;
use crate::{lookup, publish};
use trainyard_engine::{Command, Input};

impl Dispatch {
    /// Starts a command on the store. Other commands are ignored.
    pub(super) fn ask(&self, command: Command) {
        let (context, claims) = (self.context.clone(), self.claims.clone());
        match command {
            Command::Lookup { node, digest } => self
                .questions
                .ask(async move { Input::Looked { node, answer: lookup::look_up(&context.store, &digest).await } }),
            Command::Watch { node, digest, generation } => self.questions.ask(async move {
                Input::Looked { node, answer: claims.look_up(&context.store, &digest, generation).await }
            }),
            Command::ReadRows { node, output, limit } => {
                self.questions.ask(async move { Input::Rows { node, rows: context.rows.rows(&output, limit).await } })
            }
            Command::Inspect { node, inputs } => self
                .questions
                .ask(async move { Input::Inspected { node, lost: lookup::lost(&context.store, &inputs).await } }),
            Command::Publish { node, attempt, manifest, .. } => self.questions.ask(async move {
                Input::Published { node, attempt, answer: publish::publish(&context.store, &manifest).await }
            }),
            Command::Launch { .. } | Command::Recover { .. } | Command::Stop { .. } | Command::Finish { .. } => {}
        }
    }
}
