//! Defines the task of a customer: the customer's wishes, and the criteria of success.
//!
//! [`Problem::verifier`] stores a task as `{"kind": "text", "task": {…}}`. The episode judges itself: its answer is
//! [`RESOLVED`] or a list of faults, and the problem's `answer` is [`RESOLVED`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_tables::Problem;

/// The answer of a successful episode.
pub const RESOLVED: &str = "resolved";

/// Script of a user, and conditions on the final state.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CustomerTask {
    /// User script.
    pub user: UserScript,
    /// Calls of an ideal agent, and the user's tool calls. The database and the user's state must end as these actions
    /// leave them.
    pub actions: Vec<GoldAction>,
    /// Texts that the agent must tell the user.
    pub communicate: Vec<String>,
}

/// Script of a simulated user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserScript {
    /// Reason for the contact: the first message, repeated when a question is not in the script.
    pub reason: String,
    /// Known personal data; sent when the agent first requests it.
    pub known: String,
    /// Unknown personal data; sent when the agent requests it again.
    pub unknown: String,
    /// Manner and conditions in the source's words, for users that can follow them. Scripted users cannot.
    pub instructions: String,
    /// Answers to questions with certain words.
    pub answers: Vec<ScriptedAnswer>,
    /// Tools that the user applies when the agent requests them.
    pub tools: Vec<UserTool>,
    /// Initial state of the simulated user's devices (`phone: off`).
    pub state: BTreeMap<String, String>,
}

/// Reply, and the words (in lower case) any of which triggers it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedAnswer {
    /// Words any of which triggers the reply.
    pub when: Vec<String>,
    /// Text of the reply.
    pub says: String,
}

/// User tool, which changes the user's state. The agent cannot see that state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserTool {
    /// Name in gold actions.
    pub name: String,
    /// Words, in lower case, any of which requests the tool.
    pub when: Vec<String>,
    /// State that the tool requires.
    pub needs: BTreeMap<String, String>,
    /// State changes.
    pub sets: BTreeMap<String, String>,
    /// Reply on success.
    pub says: String,
    /// Reply on failure.
    pub refuses: String,
}

impl UserTool {
    /// Applies the tool to `state`. Returns false and changes nothing if the state does not meet `needs`.
    pub fn apply(&self, state: &mut BTreeMap<String, String>) -> bool {
        let works = self.needs.iter().all(|(key, value)| state.get(key) == Some(value));
        if works {
            state.extend(self.sets.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        works
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldAction {
    pub name: String,
    #[serde(default)]
    pub arguments: BTreeMap<String, Value>,
    /// Actor.
    #[serde(default)]
    pub requestor: Requestor,
}

impl GoldAction {
    /// Returns the arguments as the JSON object of a call.
    pub fn arguments(&self) -> Value {
        Value::Object(self.arguments.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Actor of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requestor {
    /// The agent.
    #[default]
    Assistant,
    /// The user.
    User,
}

#[derive(Deserialize)]
struct TaskVerifierData {
    task: CustomerTask,
}

impl CustomerTask {
    /// Reads the task of a problem. Fails with kind `data` if the verifier data contain no readable task.
    pub fn of_problem(problem: &Problem) -> Result<Self> {
        match serde_json::from_str::<TaskVerifierData>(&problem.verifier) {
            Ok(data) => Ok(data.task),
            Err(e) => {
                Err(Error::data(format!("problem `{}`: its verifier contains no customer task: {e}", problem.id))
                    .help("import problems for `customer-service` with `data/import` and format `tau2`"))
            }
        }
    }
    /// Returns the task as the text of a problem's `verifier`.
    pub fn verifier(&self) -> Result<String> {
        #[derive(Serialize)]
        struct TaskVerifierJson<'a> {
            kind: &'static str,
            task: &'a CustomerTask,
        }
        serde_json::to_string(&TaskVerifierJson { kind: "text", task: self })
            .map_err(|e| Error::bug(format!("a task has no JSON form: {e}")))
    }
}
