//! Provides a shorter way to implement [`Environment`] for dialogues, which differ only in their tools, state and
//! problems.
//!
//! An environment that does not use the problem's verifier implements [`Environment`] itself.

use crate::environments::dialogue::Dialogue;
use crate::environments::{Environment, Episode, ProblemGenerator};
use crate::formats::ToolFormat;
use crate::tools::ToolSpec;
use std::sync::Arc;
use trainyard_core::Result;
use trainyard_tables::{AnswerCheck, Message, Problem};

/// An environment that is a dialogue. [`Environment`] is implemented for it.
pub trait DialogueEnvironment: Send + Sync {
    /// See [`Environment::kind`].
    const KIND: &'static str;
    /// See [`Environment::converses`].
    const CONVERSES: bool = false;
    /// Returns the dialogue that all episodes share.
    fn dialogue(&self) -> &Arc<Dialogue>;
    /// Starts an episode, by default without environment-specific tools or state.
    fn open(&self, _problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        self.dialogue().start(seed)
    }
    /// See [`Environment::generator`].
    fn makes_problems(&self) -> Option<&dyn ProblemGenerator> {
        None
    }
}

impl<T: DialogueEnvironment> Environment for T {
    fn kind(&self) -> &'static str {
        T::KIND
    }
    fn tools(&self) -> Vec<ToolSpec> {
        self.dialogue().specs()
    }
    fn format(&self) -> &dyn ToolFormat {
        self.dialogue().format()
    }
    fn prompt(&self, problem: &Problem) -> Result<Vec<Message>> {
        Ok(self.dialogue().prompt(problem))
    }
    fn start(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        self.open(problem, seed)
    }
    fn max_turns(&self) -> u32 {
        self.dialogue().options().max_turns
    }
    fn converses(&self) -> bool {
        T::CONVERSES
    }
    fn verify(&self, problem: &Problem, answer: &str) -> Result<bool> {
        self.dialogue().check_answer(problem, answer).map(|check| check.correct)
    }
    fn check_answer(&self, problem: &Problem, answer: &str) -> Result<AnswerCheck> {
        self.dialogue().check_answer(problem, answer)
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        self.dialogue().read_answer(text)
    }
    fn generator(&self) -> Option<&dyn ProblemGenerator> {
        self.makes_problems()
    }
}
