//! Implements the environment `multi-hop-questions`: the answer to a question takes several facts, and a search tool
//! finds them one by one.
//!
//! The facts belong to a fictional [`knowledge_base`], so no model knows them beforehand and every answer can be
//! checked. Alternatively, the option `corpus` names a file of passages. Part of the fictional facts may be declared
//! known, so that an agent can learn where its knowledge ends.

pub mod knowledge_base;
pub mod questions;

use crate::environments::dialogue::Dialogue;
use crate::environments::{Demonstration, DialogueOptions, Episode, ExtraOptions, ProblemWorld, ScriptedTurn};
use crate::tools::search::{self, SearchIndex, SearchSession, read_passages};
use crate::tools::{ToolCall, ToolSpec};
use knowledge_base::KnowledgeBase;
use questions::{MultiHopQuestion, misspelled};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use trainyard_core::{Chance, Error, OptionProblem, Result};
use trainyard_tables::Problem;

/// The largest knowledge base, in entities.
const MAX_FACTS: u32 = 100_000;
/// The largest number of passages in a result.
const MAX_PASSAGES: u32 = 100;

/// Options that `multi-hop-questions` adds to those of a dialogue, where `tools` are those in addition to `search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MultiHopQuestionsExtra {
    /// Seed of the fictional facts. Must be the same in all stages that share problems.
    pub facts_seed: u64,
    /// Number of persons, towns, companies and rivers, with 2 or 3 facts each.
    #[schemars(range(min = 20, max = 100_000))]
    pub facts_size: u32,
    /// Share of them, from 0 to 1, whose facts the agent is to know by heart. Demonstrations do not search for these; a
    /// question about them alone is demonstrated closed-book. Does not change facts, passages or questions.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub known_share: f64,
    /// A JSON Lines file of passages, `{"id": …, "title": …, "text": …}`, to search instead of the fictional
    /// facts. Empty = the fictional facts. With a corpus the environment generates no problems.
    #[schemars(extend("format" = "source"))]
    pub corpus: String,
    /// Passages in the result of one search.
    #[schemars(range(min = 1, max = 100))]
    pub top_k: u32,
}

impl Default for MultiHopQuestionsExtra {
    fn default() -> Self {
        Self { facts_seed: 0, facts_size: 1000, known_share: 0.0, corpus: String::new(), top_k: 3 }
    }
}

impl ExtraOptions for MultiHopQuestionsExtra {
    const KIND: &'static str = "multi-hop-questions";
    const SUMMARY: &'static str = "questions that take several searches to answer";
    const DOC: &'static str = "The agent searches with the tool `search`, then answers with a name in a turn without\n\
        a call: what is marked by `####` or `\\boxed{}`, or else the last line. The verifier is `text`. With\n\
        `known_share` part of the facts count as known: demonstrations answer those from memory and search for the\n\
        rest, so that an agent can learn where its knowledge ends (IKEA, 2505.07596).\n\n\
        `tools` are those besides `search`. Format `code` works for `search` alone; a call is then the bare query. Of\n\
        the limits of a call only `output_bytes` applies to a search: passages beyond it are left out. Generates its\n\
        own problems unless a `corpus` replaces the fictional facts.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions { tools: Vec::new(), max_turns: 8, max_tool_calls: 8, ..DialogueOptions::default() }
    }
    fn tools() -> Vec<ToolSpec> {
        vec![search::spec()]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let corpus_with_known_share = || {
            OptionProblem::new("/known_share", "facts of a corpus cannot be declared known")
                .help("remove `known_share`, or remove `corpus`")
        };
        let problems = [
            OptionProblem::out_of_range("/facts_size", self.facts_size, KnowledgeBase::MIN_SIZE..=MAX_FACTS),
            OptionProblem::out_of_range("/known_share", self.known_share, 0.0..=1.0),
            (self.known_share > 0.0 && !self.corpus.is_empty()).then(corpus_with_known_share),
            OptionProblem::out_of_range("/top_k", self.top_k, 1..=MAX_PASSAGES),
        ];
        problems.into_iter().flatten().collect()
    }
}

/// The environment `multi-hop-questions`.
pub struct MultiHopQuestions {
    options: MultiHopQuestionsExtra,
    /// Knowledge base, built when first needed, as is the index: checking options needs neither.
    knowledge: OnceLock<KnowledgeBase>,
    index: OnceLock<Result<Arc<SearchIndex>>>,
}

impl MultiHopQuestions {
    fn knowledge(&self) -> &KnowledgeBase {
        let MultiHopQuestionsExtra { facts_seed, facts_size, known_share, .. } = self.options;
        self.knowledge.get_or_init(|| KnowledgeBase::new(facts_seed, facts_size, known_share))
    }
    fn index(&self) -> Result<Arc<SearchIndex>> {
        let passages = || match self.options.corpus.as_str() {
            "" => Ok(self.knowledge().passages()),
            file => read_passages(Path::new(file)),
        };
        self.index.get_or_init(|| Ok(Arc::new(SearchIndex::build(passages()?)?))).clone()
    }
    /// Fails if a problem was generated from other facts, whose answers this corpus does not contain.
    fn check_facts(&self, problem: &Problem) -> Result<()> {
        let data: Value = serde_json::from_str(&problem.verifier).unwrap_or_default();
        let Some(problem_facts) = data.get("world").and_then(Value::as_str) else { return Ok(()) };
        let facts = if self.options.corpus.is_empty() { self.knowledge().label.as_str() } else { "a file" };
        if problem_facts == facts {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "problem `{}` is about the facts {problem_facts} (seed/size), but the environment has the facts {facts}",
            problem.id
        ))
        .help("use the `facts_seed` and `facts_size` of the stage that generated the problems, and no `corpus`"))
    }
}

/// Demonstrations look up the facts that are not known, one per turn and in order, then answer. A mistake is a search
/// for a misspelled name, which finds nothing.
impl ProblemWorld for MultiHopQuestions {
    type Options = MultiHopQuestionsExtra;
    const MAX_LEVEL: u32 = questions::MAX_LEVEL;
    const PLURAL: &'static str = "multi-hop questions";
    fn new(options: MultiHopQuestionsExtra) -> Self {
        Self { options, knowledge: OnceLock::new(), index: OnceLock::new() }
    }
    fn open(&self, dialogue: &Arc<Dialogue>, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        self.check_facts(problem)?;
        let output_bytes = dialogue.options().limits.output_bytes as usize;
        let session = SearchSession::new(self.index()?, self.options.top_k as usize, output_bytes);
        dialogue.start_with(vec![Box::new(session)], seed)
    }
    fn generates(&self) -> bool {
        self.options.corpus.is_empty()
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        MultiHopQuestion::at(self.knowledge(), level, index, chance).problem()
    }
    fn demonstration(
        &self,
        _dialogue: &Dialogue,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration {
        let question = MultiHopQuestion::at(self.knowledge(), level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let with_mistake = draws.uniform() < mistakes;
        // A mistake needs a search whose name it misspells.
        let mistake = question.unknown().next().filter(|_| with_mistake);
        let knowledge = self.knowledge();
        let mistake = mistake.map(|hop| misspelled(&knowledge.entities[hop.subject].name, knowledge, &mut draws));
        let mistaken = mistake.is_some();
        let queries = mistake.into_iter().chain(question.unknown().map(|hop| question.query(hop)));
        let calls =
            queries.map(|query| ToolCall { name: search::NAME.to_string(), arguments: json!({"query": query}) });
        let answer = ScriptedTurn::Text(question.answer().to_string());
        Demonstration { turns: calls.map(ScriptedTurn::Call).chain([answer]).collect(), mistaken }
    }
}

#[cfg(test)]
mod tests;
