//! `sql-questions`: questions over a small SQLite database, and a tool that queries it.
//!
//! Every problem brings its database in its verifier data, `{"kind": "numeric", "database": {"schema": …, "rows": {table: [[…]]}}}`
//! ([`crate::tools::sql::DatabaseData`]), so problems of any source can be asked; [`questions`] makes some. The database is built in
//! memory for each episode and is read-only. The agent queries it, then answers with a value in a turn without a call: what is
//! marked by `####` or `\boxed{}`, or else the last line. Refuses: problems without a database; queries as answers, for only what
//! they give is judged.

pub mod questions;
pub mod tables;

use crate::environments::answer::marked_or_last_line;
use crate::environments::dialogue::Dialogue;
use crate::environments::{Demonstration, DialogueOptions, Environment, Episode, Latency, ProblemGenerator, ScriptedTurn};
use crate::formats::ToolFormat;
use crate::options::PartOptions;
use crate::tools::sql::{self, Database, DatabaseData, SqlLimits, SqlSession};
use crate::tools::{ToolCall, ToolHost, ToolLimits, ToolSpec};
use crate::verifiers;
use questions::{MAX_LEVEL, Question};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Error, OptionProblem, Result};
use trainyard_tables::{Message, Problem};

const FORM: &str = r#"write "database": {"schema": "CREATE TABLE …", "rows": {"table": [[1, "a"]]}} into the problem's `verifier`"#;

/// Options of `sql-questions`: the tables of its own problems, the limits of a query, and those of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SqlQuestionsOptions {
    /// People on the staff in a generated problem; there are twice as many sales. Problems from elsewhere have their own tables.
    #[schemars(range(min = 2, max = 200))]
    pub rows: u32,
    /// Steps of SQLite's machine that one query may take, counted in thousands. A query beyond them is an error that the agent sees,
    /// the same in every run.
    #[schemars(range(min = 10_000, max = 100_000_000))]
    pub max_steps: u64,
    /// Rows in the result of one query.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_rows: u32,
    /// Tools beside `sql` that the agent may call: `python`, `calculator`.
    pub tools: Vec<String>,
    /// How calls are written: `code` (the bare query, `sql` alone) or `hermes` (JSON).
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
    /// Limits of one tool call. Of a query only `output_bytes` counts: rows beyond it are left out.
    pub limits: ToolLimits,
    /// Holds the results of every turn with calls back for a drawn time, to try how rollouts hide slow tools; null = never. What the
    /// agent reads does not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl Default for SqlQuestionsOptions {
    fn default() -> Self {
        let common = DialogueOptions::default();
        Self {
            rows: 12,
            max_steps: 1_000_000,
            max_rows: 50,
            tools: Vec::new(),
            format: common.format,
            max_turns: 6,
            max_tool_calls: 6,
            system: common.system,
            describe_tools: common.describe_tools,
            limits: common.limits,
            latency: common.latency,
        }
    }
}

impl SqlQuestionsOptions {
    fn dialogue(&self) -> DialogueOptions {
        let Self { tools, format, max_turns, max_tool_calls, system, describe_tools, limits, latency, .. } = self.clone();
        DialogueOptions { tools, format, max_turns, max_tool_calls, system, describe_tools, limits, latency }
    }
    fn query_limits(&self) -> SqlLimits {
        SqlLimits { steps: self.max_steps, rows: self.max_rows as usize, output_bytes: self.limits.output_bytes as usize }
    }
}

impl PartOptions for SqlQuestionsOptions {
    const KIND: &'static str = "sql-questions";
    fn check(&self) -> Vec<OptionProblem> {
        let ranges = [
            ("rows", u64::from(self.rows), 2, 200),
            ("max_steps", self.max_steps, 10_000, 100_000_000),
            ("max_rows", u64::from(self.max_rows), 1, 10_000),
        ];
        let outside = ranges.into_iter().filter(|(_, value, low, high)| value < low || value > high);
        let problem = |(name, value, low, high): (&str, u64, u64, u64)| {
            OptionProblem::new(format!("/{name}"), format!("{value} is out of range")).help(format!("use a value from {low} to {high}"))
        };
        outside.map(problem).chain(self.dialogue().check_with(&[sql::spec()])).collect()
    }
}

pub struct SqlQuestions {
    dialogue: Arc<Dialogue>,
    options: SqlQuestionsOptions,
}

impl SqlQuestions {
    pub fn new(options: SqlQuestionsOptions, host: &Arc<ToolHost>) -> Result<Self> {
        let dialogue = Dialogue::with_tools(options.dialogue(), host, &[sql::spec()], marked_or_last_line)?;
        Ok(Self { dialogue, options })
    }
    fn question(&self, level: u32, index: u64, chance: &Chance) -> Question {
        Question::at(self.options.rows as usize, level, index, chance)
    }
}

/// The database that a problem brings.
fn database_of(problem: &Problem) -> Result<DatabaseData> {
    let data: Value =
        serde_json::from_str(&problem.verifier).map_err(|e| Error::data(format!("its verifier is no JSON: {e}")).help(FORM))?;
    let Some(database) = data.get("database") else { return Err(Error::data("its verifier has no `database`").help(FORM)) };
    DatabaseData::deserialize(database).map_err(|e| Error::data(format!("its `database` cannot be read: {e}")).help(FORM))
}

impl Environment for SqlQuestions {
    fn kind(&self) -> &'static str {
        SqlQuestionsOptions::KIND
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
        let database = database_of(problem).and_then(|data| Database::load(&data, self.options.query_limits()));
        let database = database.at(format!("problem `{}`", problem.id))?;
        self.dialogue.start_with(vec![Box::new(SqlSession::new(Arc::new(database)))], seed)
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
        Some(self)
    }
}

/// The demonstrator sends the gold query and repeats its result; a mistake is a query that SQLite refuses.
impl ProblemGenerator for SqlQuestions {
    fn max_level(&self) -> u32 {
        MAX_LEVEL
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        self.question(level, index, chance).problem()
    }
    fn demonstration(&self, level: u32, index: u64, chance: &Chance, mistakes: f64, mistake_chance: &Chance) -> Demonstration {
        let question = self.question(level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let mistake = (draws.uniform() < mistakes).then(|| question.mistake(&mut draws));
        let mistaken = mistake.is_some();
        let queries = mistake.into_iter().chain([question.query]);
        let calls = queries.map(|query| ToolCall { name: sql::NAME.to_string(), arguments: json!({"query": query}) });
        Demonstration { turns: calls.map(ScriptedTurn::Call).chain([ScriptedTurn::RepeatResult]).collect(), mistaken }
    }
    fn plural(&self) -> &'static str {
        "SQL questions"
    }
}

#[cfg(test)]
mod tests;
