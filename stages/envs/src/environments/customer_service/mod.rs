//! `customer-service`: an agent serves a customer of a shop, with tools on the shop's database, and talks with a simulated user.
//!
//! The domain is the retail one of tau2-bench (github.com/sierra-research/tau2-bench; arXiv 2406.12045, 2506.07982): [`tools`] on a
//! [`database`], a policy in the system message, and tasks with gold actions ([`task`], by `data/import` with format `tau2`). Without files
//! it is a small made-up shop.
//!
//! - A turn with calls gets their results. A turn without one goes to the user, whose reply is the observation (role `user`).
//! - The episode ends when the user leaves, or with the agent's first message after `transfer_to_human_agents`. The answer is then the
//!   verdict on what was done ([`score`]), not the agent's words: `resolved`, or what is wrong. Limits end it without an answer.
//! - Both sides may act: a task can give the user tools of their own, on a state that only they have, which counts in the end, too.
//!
//! The user is a script ([`user`]), which is no language model: results are not those of tau2-bench. Refuses: problems without a task;
//! databases with fields that it does not know.

pub mod database;
pub mod records;
pub mod score;
pub mod service;
pub mod task;
pub mod tools;
pub mod user;

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueEnvironment, DialogueOptions, Episode, Latency};
use crate::tools::ToolHost;
use database::Database;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::{Case, Service};
use std::path::Path;
use std::sync::Arc;
use task::Task;
use trainyard_api::PartOptions;
use trainyard_core::error::io_error;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::Problem;
use user::ScriptedUser;

/// The rules of the made-up shop.
const POLICY: &str = include_str!("policy.md");

/// Options of `customer-service`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CustomerServiceOptions {
    /// The shop's database: a JSON file as tau2-bench's retail domain has it (`db.json`). Empty = a small made-up shop.
    #[schemars(extend("format" = "source"))]
    pub database: String,
    /// A text file with the rules that the agent is to keep, the beginning of the system message. Empty = short ones of our own.
    #[schemars(extend("format" = "source"))]
    pub policy: String,
    /// How calls are written: `hermes` or `toolrl` (JSON).
    pub format: String,
    /// Agent turns in one episode, those with calls and those to the user.
    #[schemars(range(min = 1, max = 1000))]
    pub max_turns: u32,
    /// Tool calls in one episode.
    #[schemars(range(min = 0, max = 10_000))]
    pub max_tool_calls: u32,
    /// Put the description of the tools into the system message.
    pub describe_tools: bool,
    /// The user must have been told what the task wants told; otherwise only the database, and the user's own things, count.
    pub communication: bool,
    /// Holds the results of every turn with calls back for a drawn time, to try how rollouts hide slow tools; null = never. What the
    /// agent reads does not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl Default for CustomerServiceOptions {
    fn default() -> Self {
        Self {
            database: String::new(),
            policy: String::new(),
            format: "hermes".to_string(),
            max_turns: 32,
            max_tool_calls: 64,
            describe_tools: true,
            communication: true,
            latency: None,
        }
    }
}

impl CustomerServiceOptions {
    fn dialogue(&self, system: String) -> DialogueOptions {
        DialogueOptions {
            tools: Vec::new(),
            format: self.format.clone(),
            max_turns: self.max_turns,
            max_tool_calls: self.max_tool_calls,
            system,
            describe_tools: self.describe_tools,
            latency: self.latency,
            ..DialogueOptions::default()
        }
    }
}

impl PartOptions for CustomerServiceOptions {
    const KIND: &'static str = "customer-service";
    const SUMMARY: &'static str = "serve a customer of a shop, judged by the shop's database";
    fn check(&self) -> Vec<OptionProblem> {
        self.dialogue(String::new()).check_with(&tools::specs())
    }
}

pub struct CustomerService {
    base: Arc<Database>,
    communication: bool,
    dialogue: Arc<Dialogue>,
}

impl CustomerService {
    /// Reads the files; an error names the one that is missing or no database.
    pub fn new(options: CustomerServiceOptions, host: &Arc<ToolHost>) -> Result<Self> {
        let base = if options.database.is_empty() { Database::made_up()? } else { Database::load(Path::new(&options.database))? };
        let policy = if options.policy.is_empty() {
            POLICY.to_string()
        } else {
            std::fs::read_to_string(&options.policy).map_err(|e| io_error(Path::new(&options.policy), &e))?
        };
        let dialogue = Dialogue::with_tools(options.dialogue(policy.trim_end().to_string()), host, &tools::specs(), |_| None)?;
        Ok(Self { base: Arc::new(base), communication: options.communication, dialogue })
    }
}

impl DialogueEnvironment for CustomerService {
    const KIND: &'static str = CustomerServiceOptions::KIND;
    const CONVERSES: bool = true;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.dialogue
    }
    fn open(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        let task = Task::of_problem(problem)?;
        let user = Box::new(ScriptedUser::new(Arc::new(task.user.clone())));
        let case = Arc::new(Case { base: Arc::clone(&self.base), task, communication: self.communication });
        self.dialogue.start_in(Box::new(Service::new(case, user)), seed)
    }
}

#[cfg(test)]
mod tests;
