//! `customer-service`: an agent serves a customer of a shop, with tools on the shop's database, and talks with a simulated user.
//!
//! Why so: what an agent did is judged by the state that it left behind, not by what it says of it ([`score`]). The domain is the
//! retail one of tau2-bench: [`tools`] on a [`database`], a policy in the system message, and tasks with gold actions ([`task`]). The
//! user is a script ([`user`]), which is no language model: results are not those of tau2-bench. Refuses: problems without a task;
//! databases with fields that it does not know.

pub mod database;
pub mod records;
pub mod score;
pub mod service;
pub mod task;
pub mod tools;
pub mod user;

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueEnvironment, DialogueOptions, Episode, InDialogue, OwnOptions};
use crate::tools::{ToolHost, ToolSpec};
use database::Database;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::{Case, Service};
use std::path::Path;
use std::sync::Arc;
use task::Task;
use trainyard_core::Result;
use trainyard_core::error::io_error;
use trainyard_tables::Problem;
use user::ScriptedUser;

/// The rules of the made-up shop.
const POLICY: &str = include_str!("policy.md");

/// The shop and what counts in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CustomerServiceOwn {
    /// The shop's database: a JSON file as tau2-bench's retail domain has it (`db.json`). Empty = a small made-up shop.
    #[schemars(extend("format" = "source"))]
    pub database: String,
    /// A text file with the rules that the agent is to keep, the beginning of the system message. Empty = short ones of our own.
    #[schemars(extend("format" = "source"))]
    pub policy: String,
    /// The user must have been told what the task wants told; otherwise only the database, and the user's own things, count.
    pub communication: bool,
}

impl Default for CustomerServiceOwn {
    fn default() -> Self {
        Self { database: String::new(), policy: String::new(), communication: true }
    }
}

/// Options of `customer-service`: its own, and those of a dialogue whose tools are the shop's. A turn to the user is a turn, too.
pub type CustomerServiceOptions = InDialogue<CustomerServiceOwn>;

impl OwnOptions for CustomerServiceOwn {
    const KIND: &'static str = "customer-service";
    const SUMMARY: &'static str = "serve a customer of a shop, judged by the shop's database";
    const DOC: &'static str = "The domain is the retail one of tau2-bench (github.com/sierra-research/tau2-bench; 2406.12045, 2506.07982): tools on a shop's database, a\n\
        policy in the system message, and tasks with gold actions, by `data/import` with format `tau2`. Without files it is a small made-up shop.\n\n\
        A turn with calls gets their results. A turn without one goes to the user, whose reply is the observation (role `user`). The episode ends\n\
        when the user leaves, or with the agent's first message after `transfer_to_human_agents`. The answer is then the verdict on what was done,\n\
        not the agent's words: `resolved`, or what is wrong. Limits end it without an answer. A task can give the user tools of their own, on a\n\
        state that only they have, which counts in the end, too.\n\n\
        The user is a script and no language model: results are not those of tau2-bench. Makes no problems.";
    /// The tools are the shop's and run no program; the system message is the policy.
    const HIDDEN: &'static [&'static str] = &["limits", "system", "tools"];
    fn dialogue() -> DialogueOptions {
        DialogueOptions {
            tools: Vec::new(),
            format: "hermes".to_string(),
            max_turns: 32,
            max_tool_calls: 64,
            describe_tools: true,
            ..DialogueOptions::default()
        }
    }
    fn tools() -> Vec<ToolSpec> {
        tools::specs()
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
        let CustomerServiceOwn { database, policy, communication } = options.own;
        let base = if database.is_empty() { Database::made_up()? } else { Database::load(Path::new(&database))? };
        let policy = if policy.is_empty() {
            POLICY.to_string()
        } else {
            std::fs::read_to_string(&policy).map_err(|e| io_error(Path::new(&policy), &e))?
        };
        let options = DialogueOptions { system: policy.trim_end().to_string(), ..options.dialogue };
        let dialogue = Dialogue::with_tools(options, host, &CustomerServiceOwn::tools(), |_| None)?;
        Ok(Self { base: Arc::new(base), communication, dialogue })
    }
}

impl DialogueEnvironment for CustomerService {
    const KIND: &'static str = CustomerServiceOwn::KIND;
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
