//! `customer-service`: an agent serves a customer of a shop with tools on the shop's database, talking to a simulated
//! user.
//!
//! The final state of the database decides, not what the agent says about it ([`score`]). The domain is tau2-bench's
//! retail: [`tools`] on a [`database`], a policy in the system message, and tasks with gold actions ([`task`]). The
//! user is a script ([`user`]) rather than a language model, so results are not comparable with tau2-bench's.

pub mod database;
pub mod records;
pub mod score;
pub mod service;
pub mod task;
pub mod tools;
pub mod user;

use crate::environments::dialogue::Dialogue;
use crate::environments::{DialogueEnvironment, DialogueOptions, Episode, ExtraOptions, Setup, WithDialogue};
use crate::tools::ToolSpec;
use database::ShopDatabase;
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

/// The rules of the fictional shop.
const POLICY: &str = include_str!("policy.md");

/// Options that `customer-service` adds to those of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CustomerServiceExtra {
    /// The shop's database: a JSON file like `db.json` of tau2-bench's retail domain. Empty = a small fictional shop.
    #[schemars(extend("format" = "source"))]
    pub database: String,
    /// A text file with the agent's rules, which start the system message. Empty = a short built-in policy.
    #[schemars(extend("format" = "source"))]
    pub policy: String,
    /// Whether the user must have been told what the task requires. If not, only the final state counts.
    pub communication: bool,
}

impl Default for CustomerServiceExtra {
    fn default() -> Self {
        Self { database: String::new(), policy: String::new(), communication: true }
    }
}

/// Options of `customer-service`: its own and those of a dialogue. A turn that talks to the user counts as a turn.
pub type CustomerServiceOptions = WithDialogue<CustomerServiceExtra>;

impl ExtraOptions for CustomerServiceExtra {
    const KIND: &'static str = "customer-service";
    const SUMMARY: &'static str = "serve a customer of a shop; the final database decides";
    const DOC: &'static str = "The domain is tau2-bench's retail (github.com/sierra-research/tau2-bench; 2406.12045,\n\
        2506.07982): tools on a shop's database, a policy in the system message, and tasks with gold actions,\n\
        imported by `data/import` with format `tau2`. Without files it is a small fictional shop.\n\n\
        A turn with calls gets their results. A turn without calls goes to the user, whose reply is the observation\n\
        (role `user`). The episode ends when the user leaves, or with the agent's first message after\n\
        `transfer_to_human_agents`. Its answer is then the judgment of the final state: `resolved`, or what is wrong.\n\
        Limits end it without an answer. A task can give the user tools of their own that act on a state only they\n\
        have; that state counts, too.\n\n\
        The user is a script, not a language model: results are not comparable with tau2-bench's. Generates no\n\
        problems.";
    /// The tools are the shop's and run no programs; the system message is the policy.
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

/// The environment `customer-service`.
pub struct CustomerService {
    base: Arc<ShopDatabase>,
    communication: bool,
    dialogue: Arc<Dialogue>,
}

impl CustomerService {
    /// Reads the files. An error names the file that is missing or invalid.
    pub fn new(options: CustomerServiceOptions, setup: &Setup) -> Result<Self> {
        let CustomerServiceExtra { database, policy, communication } = options.extra;
        let base =
            if database.is_empty() { ShopDatabase::made_up()? } else { ShopDatabase::load(Path::new(&database))? };
        let policy = if policy.is_empty() {
            POLICY.to_string()
        } else {
            std::fs::read_to_string(&policy).map_err(|e| io_error(Path::new(&policy), &e))?
        };
        let options = DialogueOptions { system: policy.trim_end().to_string(), ..options.dialogue };
        let dialogue = Dialogue::with_tools(options, setup, &CustomerServiceExtra::tools(), |_| None)?;
        Ok(Self { base: Arc::new(base), communication, dialogue })
    }
}

impl DialogueEnvironment for CustomerService {
    const KIND: &'static str = CustomerServiceExtra::KIND;
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
