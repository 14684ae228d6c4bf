//! `multi-hop-questions`: questions whose answer takes several facts, and a search tool that finds them one by one.
//!
//! Why so: the facts are those of a closed fictional [`world`], which seed and size decide, so no model knows them beforehand and every
//! answer can be checked; or they are passages of a file. A share of the world may be declared known, so that an agent can learn where
//! its knowledge ends. Refuses: questions about another world than the corpus tells of; problems of its own for a corpus that it did
//! not make.

pub mod questions;
pub mod world;

use crate::environments::answer::marked_or_last_line;
use crate::environments::dialogue::Dialogue;
use crate::environments::{
    Demonstration, DialogueEnvironment, DialogueOptions, Episode, InDialogue, OwnOptions, ProblemGenerator,
    ScriptedTurn,
};
use crate::tools::search::{self, SearchIndex, SearchSession, read_passages};
use crate::tools::{ToolCall, ToolHost, ToolSpec};
use questions::{MAX_LEVEL, Question, misspelled};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use trainyard_core::{Chance, Error, OptionProblem, Result};
use trainyard_tables::Problem;
use world::World;

/// Entities of a world at most.
const MOST_FACTS: u32 = 100_000;
/// Passages of a result at most.
const MOST_PASSAGES: u32 = 100;

/// The world and the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MultiHopQuestionsOwn {
    /// Seed of the fictional world. All stages that share problems need the same.
    pub facts_seed: u64,
    /// People, towns, companies and rivers in the world, with 2 or 3 facts each.
    #[schemars(range(min = 20, max = 100_000))]
    pub facts_size: u32,
    /// Share of them whose facts the agent is to know by heart, from 0 to 1. The demonstrator does not search for these; a question
    /// about them alone is demonstrated closed-book. Facts, passages and questions do not depend on it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub known_share: f64,
    /// A JSON Lines file of passages, `{"id": …, "title": …, "text": …}`, to be searched in place of the world; empty = the world.
    /// Such an environment makes no problems.
    #[schemars(extend("format" = "source"))]
    pub corpus: String,
    /// Passages in the result of one search.
    #[schemars(range(min = 1, max = 100))]
    pub top_k: u32,
}

impl Default for MultiHopQuestionsOwn {
    fn default() -> Self {
        Self { facts_seed: 0, facts_size: 1000, known_share: 0.0, corpus: String::new(), top_k: 3 }
    }
}

/// Options of `multi-hop-questions`: its own, and those of a dialogue, where `tools` are those beside `search`. The format `code` is the bare
/// query and for `search` alone. Of the limits of a call only `output_bytes` counts for a search: passages beyond it are left out.
pub type MultiHopQuestionsOptions = InDialogue<MultiHopQuestionsOwn>;

impl OwnOptions for MultiHopQuestionsOwn {
    const KIND: &'static str = "multi-hop-questions";
    const SUMMARY: &'static str = "several facts found one by one by search, judged by text";
    const DOC: &'static str = "The agent searches with the tool `search`, then answers with a name in a turn without a call: what is marked by `####` or `\\boxed{}`, or else\n\
        the last line; the verifier is `text`. A share of the fictional world may be declared known (`known_share`): the demonstrator answers from\n\
        memory what it knows and searches for the rest, so that an agent can learn where its knowledge ends (IKEA, 2505.07596).\n\n\
        `tools` are those beside `search`. The format `code` is the bare query and for `search` alone. Of the limits of a call only `output_bytes` counts\n\
        for a search: passages beyond it are left out. Makes its own problems, unless a `corpus` of passages takes the world's place.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions { tools: Vec::new(), max_turns: 8, max_tool_calls: 8, ..DialogueOptions::default() }
    }
    fn tools() -> Vec<ToolSpec> {
        vec![search::spec()]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let known_by_nobody = || {
            OptionProblem::new("/known_share", "a corpus of passages has no facts that could be known")
                .help("remove `known_share`, or remove `corpus`")
        };
        let problems = [
            OptionProblem::outside("/facts_size", self.facts_size, World::LEAST..=MOST_FACTS),
            OptionProblem::outside("/known_share", self.known_share, 0.0..=1.0),
            (self.known_share > 0.0 && !self.corpus.is_empty()).then(known_by_nobody),
            OptionProblem::outside("/top_k", self.top_k, 1..=MOST_PASSAGES),
        ];
        problems.into_iter().flatten().collect()
    }
}

pub struct MultiHopQuestions {
    dialogue: Arc<Dialogue>,
    options: MultiHopQuestionsOwn,
    /// Both are made when they are first needed; a check of options needs neither.
    world: OnceLock<World>,
    index: OnceLock<Result<Arc<SearchIndex>>>,
}

impl MultiHopQuestions {
    pub fn new(options: MultiHopQuestionsOptions, host: &Arc<ToolHost>) -> Result<Self> {
        let dialogue =
            Dialogue::with_tools(options.dialogue, host, &MultiHopQuestionsOwn::tools(), marked_or_last_line)?;
        Ok(Self { dialogue, options: options.own, world: OnceLock::new(), index: OnceLock::new() })
    }
    fn world(&self) -> &World {
        let MultiHopQuestionsOwn { facts_seed, facts_size, known_share, .. } = self.options;
        self.world.get_or_init(|| World::new(facts_seed, facts_size, known_share))
    }
    fn index(&self) -> Result<Arc<SearchIndex>> {
        let passages = || match self.options.corpus.as_str() {
            "" => Ok(self.world().passages()),
            file => read_passages(Path::new(file)),
        };
        self.index.get_or_init(|| Ok(Arc::new(SearchIndex::build(passages()?)?))).clone()
    }
    /// A question about another world has its answer nowhere in this corpus.
    fn check_world(&self, problem: &Problem) -> Result<()> {
        let data: Value = serde_json::from_str(&problem.verifier).unwrap_or_default();
        let Some(asked) = data.get("world").and_then(Value::as_str) else { return Ok(()) };
        let has = if self.options.corpus.is_empty() { self.world().label.as_str() } else { "a file" };
        if asked == has {
            return Ok(());
        }
        Err(Error::invalid(format!("problem `{}` is about the facts {asked} (seed/size), the environment has those of {has}", problem.id))
            .help("give the environment the `facts_seed` and `facts_size` of the stage that made the problems, and no `corpus`"))
    }
}

impl DialogueEnvironment for MultiHopQuestions {
    const KIND: &'static str = MultiHopQuestionsOwn::KIND;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.dialogue
    }
    fn open(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        self.check_world(problem)?;
        let output_bytes = self.dialogue.options().limits.output_bytes as usize;
        let session = SearchSession::new(self.index()?, self.options.top_k as usize, output_bytes);
        self.dialogue.start_with(vec![Box::new(session)], seed)
    }
    fn makes_problems(&self) -> Option<&dyn ProblemGenerator> {
        if self.options.corpus.is_empty() { Some(self) } else { None }
    }
}

/// The demonstrator looks up the facts that it does not know, one a turn and in order, then answers. A mistake is a search for a
/// misspelled name, which finds nothing.
impl ProblemGenerator for MultiHopQuestions {
    fn max_level(&self) -> u32 {
        MAX_LEVEL
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        Question::at(self.world(), level, index, chance).problem()
    }
    fn demonstration(
        &self,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration {
        let question = Question::at(self.world(), level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let wanted = draws.uniform() < mistakes;
        // Who does not search cannot misspell.
        let mistake = question.unknown().next().filter(|_| wanted);
        let mistake = mistake.map(|hop| misspelled(&self.world().entities[hop.subject].name, self.world(), &mut draws));
        let mistaken = mistake.is_some();
        let queries = mistake.into_iter().chain(question.unknown().map(|hop| question.query(hop)));
        let calls =
            queries.map(|query| ToolCall { name: search::NAME.to_string(), arguments: json!({"query": query}) });
        let answer = ScriptedTurn::Say(question.answer().to_string());
        Demonstration { turns: calls.map(ScriptedTurn::Call).chain([answer]).collect(), mistaken }
    }
    fn plural(&self) -> &'static str {
        "multi-hop questions"
    }
}

#[cfg(test)]
mod tests;
