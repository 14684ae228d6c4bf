//! `word-problems`: generated arithmetic stories that need a tool, and the world that poses them.
//!
//! The agent may call its tools, then answers with a number in a turn without a call: the whole turn is the answer (`7`), or what
//! follows `####`. [`generator`] makes the problems, their reference programs and plausible mistakes. Refuses: an answer that must be
//! searched for in prose.

pub mod generator;

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueOptions, Environment, Episode};
use crate::formats::ToolFormat;
use crate::options::PartOptions;
use crate::tools::{ToolHost, ToolSpec};
use crate::verifiers;
use std::sync::Arc;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::{Message, Problem};

/// Options of `word-problems` are those of a dialogue.
pub type WordProblemsOptions = DialogueOptions;

impl PartOptions for DialogueOptions {
    const KIND: &'static str = "word-problems";
    fn check(&self) -> Vec<OptionProblem> {
        Self::check(self)
    }
}

pub struct WordProblems(Arc<Dialogue>);

impl WordProblems {
    pub fn new(options: WordProblemsOptions, host: &Arc<ToolHost>) -> Result<Self> {
        Ok(Self(Dialogue::new(options, host, read_answer)?))
    }
}

/// What follows the last `####` on its line, or the whole text.
fn read_answer(text: &str) -> Option<String> {
    let text = match text.rsplit_once("####") {
        Some((_, rest)) => rest.lines().next().unwrap_or(""),
        None => text,
    };
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_string())
}

impl Environment for WordProblems {
    fn kind(&self) -> &'static str {
        <DialogueOptions as PartOptions>::KIND
    }
    fn tools(&self) -> Vec<ToolSpec> {
        self.0.specs()
    }
    fn format(&self) -> &dyn ToolFormat {
        self.0.format()
    }
    fn prompt(&self, problem: &Problem) -> Vec<Message> {
        self.0.prompt(problem)
    }
    fn start(&self, _problem: &Problem, _seed: u64) -> Result<Box<dyn Episode>> {
        self.0.start()
    }
    fn max_turns(&self) -> u32 {
        self.0.options().max_turns
    }
    fn verify(&self, problem: &Problem, answer: &str) -> bool {
        verifiers::verify(problem, answer)
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        read_answer(text)
    }
}
