//! Implements environments that only pose questions: a dialogue without tools of the environment, state or a generator.
//!
//! Such an environment consists of its options and of its way to read an answer ([`QuestionOptions`]).

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueEnvironment, EnvironmentSetup, ExtraOptions, WithDialogue};
use std::marker::PhantomData;
use std::sync::Arc;
use trainyard_core::Result;

/// Options of an environment that only poses questions. Problems come from data sets or from other stages, and their
/// verifiers judge the answers.
pub trait QuestionOptions: ExtraOptions {
    /// Returns the answer in a turn without calls; `None` if the turn contains no answer.
    fn read_answer(turn: &str) -> Option<String>;
}

pub struct QuestionEnvironment<O> {
    dialogue: Arc<Dialogue>,
    options: PhantomData<fn() -> O>,
}

impl<O: QuestionOptions> QuestionEnvironment<O> {
    pub fn new(options: WithDialogue<O>, setup: &EnvironmentSetup) -> Result<Self> {
        let dialogue = Dialogue::new(options.dialogue, setup, O::read_answer)?;
        Ok(Self { dialogue, options: PhantomData })
    }
}

impl<O: QuestionOptions> DialogueEnvironment for QuestionEnvironment<O> {
    const KIND: &'static str = O::KIND;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.dialogue
    }
}
