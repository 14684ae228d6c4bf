//! Implements the environment `sql-questions`: questions about a small SQLite database, and a tool that queries it.
//!
//! The verifier data of every problem contains its database ([`crate::tools::sql::DatabaseData`]), so problems may come
//! from any source; [`questions`] generates some. Only the value counts, not the query that found it.

pub mod questions;
pub mod tables;

use crate::environments::dialogue::Dialogue;
use crate::environments::{Demonstration, DialogueOptions, Episode, ExtraOptions, ProblemWorld, ScriptedTurn};
use crate::tools::sql::{DatabaseData, SqlLimits};
use crate::tools::sql_session::{self, SqlSession};
use crate::tools::{ToolCall, ToolSpec};
use questions::SqlQuestion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Error, OptionProblem, Result};
use trainyard_tables::Problem;

const FORM: &str =
    r#"write "database": {"schema": "CREATE TABLE …", "rows": {"table": [[1, "a"]]}} into the problem's `verifier`"#;

/// The environment `sql-questions`: its options besides those of a dialogue, where `tools` are those in addition to
/// `sql`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SqlQuestions {
    /// Number of staff in a generated problem; there are twice as many sales. Imported problems contain their tables.
    #[schemars(range(min = 2, max = 200))]
    pub rows: u32,
    /// SQLite instructions that one query may take, checked every thousand. A query beyond them is an error that the
    /// agent sees, the same in every run.
    #[schemars(range(min = 10_000, max = 100_000_000))]
    pub max_steps: u64,
    /// Rows in the result of one query.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_rows: u32,
}

impl Default for SqlQuestions {
    fn default() -> Self {
        Self { rows: 12, max_steps: 1_000_000, max_rows: 50 }
    }
}

impl ExtraOptions for SqlQuestions {
    const KIND: &'static str = "sql-questions";
    const SUMMARY: &'static str = "questions over a database that the agent queries";
    const DOC: &'static str = "Every problem brings its database in its verifier data,\n\
        `{\"kind\": \"numeric\", \"database\": {\"schema\": …, \"rows\": {table: [[…]]}}}`. The agent queries it\n\
        with the tool `sql`, then answers with a value in a turn without a call: what is marked by `####` or\n\
        `\\boxed{}`, or else the last line. The database is built in memory for each episode and is read-only.\n\n\
        `tools` are those besides `sql`. Format `code` works for `sql` alone; a call is then the bare query. Queries\n\
        run in worker processes. Of the limits of a call, rows beyond `output_bytes` are left out; `memory_bytes` and\n\
        `time_millis` hold for a query, and for the creation of its database. Patterns of `LIKE` have at most 100\n\
        bytes. Generates its own problems.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions { tools: Vec::new(), max_turns: 6, max_tool_calls: 6, ..DialogueOptions::default() }
    }
    fn tools() -> Vec<ToolSpec> {
        vec![sql_session::spec()]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/rows", self.rows, 2..=200),
            OptionProblem::out_of_range("/max_steps", self.max_steps, 10_000..=100_000_000),
            OptionProblem::out_of_range("/max_rows", self.max_rows, 1..=10_000),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl SqlQuestions {
    fn question(&self, level: u32, index: u64, chance: &Chance) -> SqlQuestion {
        SqlQuestion::at(self.rows as usize, level, index, chance)
    }
}

/// Verifier data with a database, as JSON text. The worker reads the text as it was written, because the numbers of a
/// parsed value may lose a digit on their way through JSON.
#[derive(Deserialize)]
struct VerifierData<'t> {
    #[serde(borrow)]
    database: Option<&'t RawValue>,
}

/// Returns the database in a problem's verifier data, as JSON text of a [`DatabaseData`].
fn database_of(problem: &Problem) -> Result<&str> {
    let data: VerifierData<'_> = serde_json::from_str(&problem.verifier)
        .map_err(|e| Error::data(format!("its verifier is not JSON: {e}")).help(FORM))?;
    let Some(database) = data.database else {
        return Err(Error::data("its verifier has no `database`").help(FORM));
    };
    let readable = serde_json::from_str::<DatabaseData>(database.get());
    readable.map_err(|e| Error::data(format!("its `database` cannot be read: {e}")).help(FORM))?;
    Ok(database.get())
}

/// Demonstrations send the gold query and repeat its result; a mistake is a query that SQLite rejects.
impl ProblemWorld for SqlQuestions {
    type Options = Self;
    const MAX_LEVEL: u32 = questions::MAX_LEVEL;
    const PLURAL: &'static str = "SQL questions";
    fn new(options: Self) -> Self {
        options
    }
    fn open(&self, dialogue: &Arc<Dialogue>, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        let limits = &dialogue.options().limits;
        let output_bytes = limits.output_bytes as usize;
        let sql = SqlLimits { steps: self.max_steps, rows: self.max_rows as usize, output_bytes };
        let session = database_of(problem).and_then(|data| SqlSession::open(&dialogue.host, limits, sql, data));
        let session = session.at(format!("problem `{}`", problem.id))?;
        dialogue.start_with(vec![Box::new(session)], seed)
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        self.question(level, index, chance).problem()
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
        let question = self.question(level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let mistake = (draws.uniform() < mistakes).then(|| question.mistake(&mut draws));
        let mistaken = mistake.is_some();
        let queries = mistake.into_iter().chain([question.query]);
        let calls =
            queries.map(|query| ToolCall { name: sql_session::NAME.to_string(), arguments: json!({"query": query}) });
        Demonstration { turns: calls.map(ScriptedTurn::Call).chain([ScriptedTurn::RepeatResult]).collect(), mistaken }
    }
}

#[cfg(test)]
mod tests;
