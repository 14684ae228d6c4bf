//! `multi-hop-questions`: questions whose answer takes several facts, and a search tool that finds them one by one.
//!
//! The facts are those of a closed fictional [`world`], which seed and size decide, or passages of a file. The agent searches
//! ([`crate::tools::search`]), then answers with a name in a turn without a call: what is marked by `####` or `\boxed{}`, or else
//! the last line. A part of the world may be declared known: the demonstrator answers from memory what it knows and searches for
//! the rest, so that an agent can learn where its knowledge ends (IKEA, arXiv 2505.07596). Refuses: questions about another world
//! than the corpus tells of; problems of its own for a corpus that it did not make.

pub mod questions;
pub mod world;

use crate::environments::answer::marked_or_last_line;
use crate::environments::dialogue::Dialogue;
use crate::environments::{Demonstration, DialogueOptions, Environment, Episode, Latency, ProblemGenerator, ScriptedTurn};
use crate::formats::ToolFormat;
use crate::options::PartOptions;
use crate::tools::search::{self, SearchIndex, SearchSession, read_passages};
use crate::tools::{ToolCall, ToolHost, ToolLimits, ToolSpec};
use crate::verifiers;
use questions::{MAX_LEVEL, Question, misspelled};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use trainyard_core::{Chance, Error, OptionProblem, Result};
use trainyard_tables::{Message, Problem};
use world::World;

/// Entities of a world at most.
const MOST_FACTS: u32 = 100_000;
/// Passages of a result at most.
const MOST_PASSAGES: u32 = 100;

/// Options of `multi-hop-questions`: the world, the search, and those of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MultiHopQuestionsOptions {
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
    /// Tools beside `search` that the agent may call: `python`, `calculator`.
    pub tools: Vec<String>,
    /// How calls are written: `code` (the bare query, `search` alone) or `hermes` (JSON).
    pub format: String,
    /// Agent turns in one episode, the answer included.
    #[schemars(range(min = 1, max = 1000))]
    pub max_turns: u32,
    /// Tool calls in one episode.
    #[schemars(range(min = 0, max = 10_000))]
    pub max_tool_calls: u32,
    /// Text of a system message; empty = none.
    pub system: String,
    /// Put the description of the tools into the system message.
    pub describe_tools: bool,
    /// Limits of one tool call. Of a search only `output_bytes` counts: passages beyond it are left out.
    pub limits: ToolLimits,
    /// Holds the results of every turn with calls back for a drawn time, to try how rollouts hide slow tools; null = never. What the
    /// agent reads does not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl Default for MultiHopQuestionsOptions {
    fn default() -> Self {
        let common = DialogueOptions::default();
        Self {
            facts_seed: 0,
            facts_size: 1000,
            known_share: 0.0,
            corpus: String::new(),
            top_k: 3,
            tools: Vec::new(),
            format: common.format,
            max_turns: 8,
            max_tool_calls: 8,
            system: common.system,
            describe_tools: common.describe_tools,
            limits: common.limits,
            latency: common.latency,
        }
    }
}

impl MultiHopQuestionsOptions {
    fn dialogue(&self) -> DialogueOptions {
        let Self { tools, format, max_turns, max_tool_calls, system, describe_tools, limits, latency, .. } = self.clone();
        DialogueOptions { tools, format, max_turns, max_tool_calls, system, describe_tools, limits, latency }
    }
}

impl PartOptions for MultiHopQuestionsOptions {
    const KIND: &'static str = "multi-hop-questions";
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if !(World::LEAST..=MOST_FACTS).contains(&self.facts_size) {
            problems.push(
                OptionProblem::new("/facts_size", format!("{} is out of range", self.facts_size))
                    .help(format!("use a value from {} to {MOST_FACTS}", World::LEAST)),
            );
        }
        if !(0.0..=1.0).contains(&self.known_share) {
            problems.push(OptionProblem::new("/known_share", format!("{} is no share", self.known_share)).help("use a number from 0 to 1"));
        } else if self.known_share > 0.0 && !self.corpus.is_empty() {
            problems.push(
                OptionProblem::new("/known_share", "a corpus of passages has no facts that could be known")
                    .help("remove `known_share`, or remove `corpus`"),
            );
        }
        if !(1..=MOST_PASSAGES).contains(&self.top_k) {
            problems.push(
                OptionProblem::new("/top_k", format!("{} is out of range", self.top_k))
                    .help(format!("use a value from 1 to {MOST_PASSAGES}")),
            );
        }
        problems.extend(self.dialogue().check_with(&[search::spec()]));
        problems
    }
}

pub struct MultiHopQuestions {
    dialogue: Arc<Dialogue>,
    options: MultiHopQuestionsOptions,
    /// Both are made when they are first needed; a check of options needs neither.
    world: OnceLock<World>,
    index: OnceLock<Result<Arc<SearchIndex>>>,
}

impl MultiHopQuestions {
    pub fn new(options: MultiHopQuestionsOptions, host: &Arc<ToolHost>) -> Result<Self> {
        let dialogue = Dialogue::with_tools(options.dialogue(), host, &[search::spec()], marked_or_last_line)?;
        Ok(Self { dialogue, options, world: OnceLock::new(), index: OnceLock::new() })
    }
    fn world(&self) -> &World {
        let MultiHopQuestionsOptions { facts_seed, facts_size, known_share, .. } = self.options;
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

impl Environment for MultiHopQuestions {
    fn kind(&self) -> &'static str {
        MultiHopQuestionsOptions::KIND
    }
    fn tools(&self) -> Vec<ToolSpec> {
        self.dialogue.specs()
    }
    fn format(&self) -> &dyn ToolFormat {
        self.dialogue.format()
    }
    fn prompt(&self, problem: &Problem) -> Vec<Message> {
        self.dialogue.prompt(problem)
    }
    fn start(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        self.check_world(problem)?;
        let MultiHopQuestionsOptions { top_k, limits, .. } = &self.options;
        let session = SearchSession::new(self.index()?, *top_k as usize, limits.output_bytes as usize);
        self.dialogue.start_with(vec![Box::new(session)], seed)
    }
    fn max_turns(&self) -> u32 {
        self.options.max_turns
    }
    fn verify(&self, problem: &Problem, answer: &str) -> bool {
        verifiers::verify(problem, answer)
    }
    fn read_answer(&self, text: &str) -> Option<String> {
        marked_or_last_line(text)
    }
    fn generator(&self) -> Option<&dyn ProblemGenerator> {
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
    fn demonstration(&self, level: u32, index: u64, chance: &Chance, mistakes: f64, mistake_chance: &Chance) -> Demonstration {
        let question = Question::at(self.world(), level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let wanted = draws.uniform() < mistakes;
        // Who does not search cannot misspell.
        let mistake = question.unknown().next().filter(|_| wanted);
        let mistake = mistake.map(|hop| misspelled(&self.world().entities[hop.subject].name, self.world(), &mut draws));
        let mistaken = mistake.is_some();
        let queries = mistake.into_iter().chain(question.unknown().map(|hop| question.query(hop)));
        let calls = queries.map(|query| ToolCall { name: search::NAME.to_string(), arguments: json!({"query": query}) });
        let answer = ScriptedTurn::Say(question.answer().to_string());
        Demonstration { turns: calls.map(ScriptedTurn::Call).chain([answer]).collect(), mistaken }
    }
    fn plural(&self) -> &'static str {
        "multi-hop questions"
    }
}

#[cfg(test)]
mod tests;
