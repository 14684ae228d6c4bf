//! Implements environments that are a dialogue over generated problems. Such an environment consists of its options,
//! its generator and the state of its episodes ([`ProblemWorld`]).
//!
//! The verifiers that problems name judge the answers.

use crate::environments::answer::marked_or_last_line;
use crate::environments::dialogue::Dialogue;
use crate::environments::{
    Demonstration, DialogueEnvironment, EnvironmentSetup, Episode, ExtraOptions, ProblemGenerator, WithDialogue,
};
use std::sync::Arc;
use trainyard_core::{Chance, Result};
use trainyard_tables::Problem;

/// An environment that generates problems for a dialogue. [`GeneratingEnvironment`] implements the environment.
pub trait ProblemWorld: Send + Sync + Sized + 'static {
    /// Options besides those of the dialogue, with the environment's page; `Self` for an environment without other
    /// fields.
    type Options: ExtraOptions;
    /// See [`ProblemGenerator::max_level`].
    const MAX_LEVEL: u32;
    /// See [`ProblemGenerator::plural`].
    const PLURAL: &'static str;
    /// See [`ProblemGenerator::decoration`].
    const DECORATION: &'static [&'static str] = &[];
    /// Returns the world with these options. Must start neither processes nor threads.
    fn new(options: Self::Options) -> Self;
    /// Returns the answer in a turn without calls, by default the marked text or the last line; `None` if absent.
    fn read_answer(turn: &str) -> Option<String> {
        marked_or_last_line(turn)
    }
    /// Starts an episode, by default without environment-specific tools or state.
    fn open(&self, dialogue: &Arc<Dialogue>, _problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        dialogue.start(seed)
    }
    /// Returns whether problems can be generated under these options.
    fn generates(&self) -> bool {
        true
    }
    /// See [`ProblemGenerator::problem`].
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem;
    /// See [`ProblemGenerator::demonstration`].
    fn demonstration(
        &self,
        dialogue: &Dialogue,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration;
}

/// A dialogue over the problems of `G`.
pub struct GeneratingEnvironment<G> {
    dialogue: Arc<Dialogue>,
    pub(crate) world: G,
}

impl<G: ProblemWorld> GeneratingEnvironment<G> {
    /// Returns the environment with these options. Starts user programs and servers that supply tools.
    pub fn new(options: WithDialogue<G::Options>, setup: &EnvironmentSetup) -> Result<Self> {
        let tools = <G::Options as ExtraOptions>::tools();
        let dialogue = Dialogue::with_tools(options.dialogue, setup, &tools, G::read_answer)?;
        Ok(Self { dialogue, world: G::new(options.extra) })
    }
}

impl<G: ProblemWorld> DialogueEnvironment for GeneratingEnvironment<G> {
    const KIND: &'static str = <G::Options as ExtraOptions>::KIND;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.dialogue
    }
    fn open(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        self.world.open(&self.dialogue, problem, seed)
    }
    fn makes_problems(&self) -> Option<&dyn ProblemGenerator> {
        if self.world.generates() { Some(self) } else { None }
    }
}

impl<G: ProblemWorld> ProblemGenerator for GeneratingEnvironment<G> {
    fn max_level(&self) -> u32 {
        G::MAX_LEVEL
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        self.world.problem(level, index, chance)
    }
    fn demonstration(
        &self,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration {
        self.world.demonstration(&self.dialogue, level, index, chance, mistakes, mistake_chance)
    }
    fn decoration(&self) -> &'static [&'static str] {
        G::DECORATION
    }
    fn plural(&self) -> &'static str {
        G::PLURAL
    }
}
