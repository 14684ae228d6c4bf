//! Implements the environment `customer-service`: an agent serves a customer of a shop with tools on the shop's
//! database, and talks to a simulated user.
//!
//! The final state of the database decides, not the agent's claims about it ([`score`]). The domain is tau2-bench's
//! retail: [`tools`] on a [`database`], a policy in the system message, and tasks with gold actions ([`task`]). The
//! user is a script ([`user`]) or a language model at an endpoint ([`modeled_user`]).

pub mod database;
pub mod modeled_user;
pub mod records;
pub mod score;
pub mod state;
pub mod task;
pub mod tools;
pub mod user;

use crate::environments::dialogue::Dialogue;
use crate::environments::{
    DialogueEnvironment, DialogueOptions, EnvironmentSetup, Episode, ExtraOptions, WithDialogue,
};
use crate::tools::ToolSpec;
use crate::verifiers::Extraction;
use database::ShopDatabase;
use modeled_user::{ModeledUser, PROMPT};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::{CustomerServiceContext, CustomerServiceState};
use std::path::Path;
use std::sync::Arc;
use task::CustomerTask;
use trainyard_chat::{ChatClient, ChatOptions, SharedChatClient};
use trainyard_core::error::io_error;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::Problem;
use user::{ScriptedUser, SimulatedUser};

/// The rules of the fictional shop.
const POLICY: &str = include_str!("policy.md");

/// Options that `customer-service` adds to those of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CustomerServiceExtra {
    /// The shop's database: a JSON file like `db.json` of tau2-bench's retail domain. Empty = a small fictional shop.
    #[schemars(extend("format" = "source"))]
    pub database: String,
    /// A text file with the agent's rules, which start the system message. Empty = a short built-in policy.
    #[schemars(extend("format" = "source"))]
    pub policy: String,
    /// The model that plays the user: `{endpoint: URL, model: NAME}`. Without it the user follows the task's script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<ChatOptions>,
    /// Instructions to that model before the task.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_prompt: String,
    /// Whether the agent must tell the user the texts of the task. If not, only the final state counts.
    pub communication: bool,
}

impl Default for CustomerServiceExtra {
    fn default() -> Self {
        let (database, policy, user_prompt) = (String::new(), String::new(), String::new());
        Self { database, policy, user: None, user_prompt, communication: true }
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
        The user follows a script, which is free and repeatable, or is a model behind an endpoint (`user`), which\n\
        costs a request a turn and ends the conversation by `###STOP###`. A scripted user states all wishes at once\n\
        and consents to everything, so results are not comparable with tau2-bench's. Generates no problems.";
    /// The tools are the shop's and run no programs; the system message is the policy; the answer is the judgment of
    /// the final state.
    const HIDDEN: &'static [&'static str] = &["extract", "limits", "system", "tools"];
    fn dialogue() -> DialogueOptions {
        DialogueOptions {
            tools: Vec::new(),
            format: "hermes".to_string(),
            max_turns: 32,
            max_tool_calls: 64,
            describe_tools: true,
            extract: Extraction::None,
            ..DialogueOptions::default()
        }
    }
    fn tools() -> Vec<ToolSpec> {
        tools::specs()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let model = self.user.iter().flat_map(ChatOptions::problems).map(|problem| problem.with_prefix("/user"));
        let unused_prompt = (self.user.is_none() && !self.user_prompt.is_empty()).then(|| {
            let problem = OptionProblem::new("/user_prompt", "`user_prompt` has no effect without `user`");
            problem.help("set a model: `user: {endpoint: URL, model: NAME}`, or remove `user_prompt`")
        });
        model.chain(unused_prompt).collect()
    }
}

pub struct CustomerService {
    base: Arc<ShopDatabase>,
    communication: bool,
    dialogue: Arc<Dialogue>,
    /// Model that plays the user, and its instructions.
    user: Option<(Arc<SharedChatClient>, String)>,
}

impl CustomerService {
    /// Reads the files. An error names the file that is missing or invalid.
    pub fn new(options: CustomerServiceOptions, setup: &EnvironmentSetup) -> Result<Self> {
        let CustomerServiceExtra { database, policy, user, user_prompt, communication } = options.extra;
        let base =
            if database.is_empty() { ShopDatabase::made_up()? } else { ShopDatabase::load(Path::new(&database))? };
        let policy = if policy.is_empty() {
            POLICY.to_string()
        } else {
            std::fs::read_to_string(&policy).map_err(|e| io_error(Path::new(&policy), &e))?
        };
        let options = DialogueOptions { system: policy.trim_end().to_string(), ..options.dialogue };
        let dialogue = Dialogue::with_tools(options, setup, &CustomerServiceExtra::tools(), |_| None)?;
        let prompt = if user_prompt.is_empty() { PROMPT.to_string() } else { user_prompt };
        let user = match user.filter(|_| !setup.host.is_idle()) {
            Some(model) => {
                let chat = ChatClient::open(setup.host.models(), &model)?.unlisted();
                Some((Arc::new(SharedChatClient::open(chat)?), prompt))
            }
            None => None,
        };
        Ok(Self { base: Arc::new(base), communication, dialogue, user })
    }
}

impl DialogueEnvironment for CustomerService {
    const KIND: &'static str = CustomerServiceExtra::KIND;
    const CONVERSES: bool = true;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.dialogue
    }
    fn open(&self, problem: &Problem, seed: u64) -> Result<Box<dyn Episode>> {
        let task = CustomerTask::of_problem(problem)?;
        let script = Arc::new(task.user.clone());
        let user: Box<dyn SimulatedUser> = match &self.user {
            Some((model, prompt)) => Box::new(ModeledUser::new(model, prompt, &script)),
            None => Box::new(ScriptedUser::new(script)),
        };
        let context =
            Arc::new(CustomerServiceContext { base: Arc::clone(&self.base), task, communication: self.communication });
        self.dialogue.start_in(Box::new(CustomerServiceState::new(context, user)), seed)
    }
}

#[cfg(test)]
mod tests;
