//! Environments that only ask: a dialogue without tools or state of its own and without a generator, so its options and
//! the way to read an answer are all there is to write.

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueEnvironment, ExtraOptions, Setup, WithDialogue};
use std::marker::PhantomData;
use std::sync::Arc;
use trainyard_core::Result;

/// Options of an environment that only asks. Its problems come from data sets or from other stages, and their verifiers
/// judge the answers.
pub trait Questions: ExtraOptions {
    /// The answer in a turn without calls; `None` if there is none in it.
    fn read_answer(turn: &str) -> Option<String>;
}

/// The environment with these options.
pub struct QuestionEnvironment<O> {
    dialogue: Arc<Dialogue>,
    options: PhantomData<fn() -> O>,
}

impl<O: Questions> QuestionEnvironment<O> {
    /// An environment with these options.
    pub fn new(options: WithDialogue<O>, setup: &Setup) -> Result<Self> {
        let dialogue = Dialogue::new(options.dialogue, setup, O::read_answer)?;
        Ok(Self { dialogue, options: PhantomData })
    }
}

impl<O: Questions> DialogueEnvironment for QuestionEnvironment<O> {
    const KIND: &'static str = O::KIND;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.dialogue
    }
}
