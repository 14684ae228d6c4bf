//! A customer's task: what they want, and how to tell that they got it.
//!
//! It is stored in [`Problem::verifier`] as `{"kind": "text", "task": {…}}`: the episode judges itself, its answer is
//! [`RESOLVED`] or a list of faults, and the problem's `answer` is [`RESOLVED`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_tables::Problem;

/// The answer of a successful episode.
pub const RESOLVED: &str = "resolved";

/// A user's script and what must be true at the end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Task {
    /// What the user says and does.
    pub user: UserScript,
    /// What an ideal agent calls, and what the user does with tools of their own. The database and the user's state
    /// must end as these actions leave them.
    pub actions: Vec<GoldAction>,
    /// Texts that the user must be told.
    pub communicate: Vec<String>,
}

/// Everything a scripted user can say or do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserScript {
    /// Why they are here: said first, and again when a question is not in the script.
    pub reason: String,
    /// Who they are; said when first asked.
    pub known: String,
    /// What they do not know; said when asked again.
    pub unknown: String,
    /// Manner and conditions in the source's words, for users that can follow them. A scripted user cannot.
    pub instructions: String,
    /// Answers to questions with certain words.
    pub answers: Vec<ScriptedAnswer>,
    /// Tools that they use when the agent asks for it.
    pub tools: Vec<UserTool>,
    /// Initial state of their own things (`phone: off`).
    pub state: BTreeMap<String, String>,
}

/// A text to say, and the words (in lower case) any of which triggers it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedAnswer {
    /// Any of these words triggers it.
    pub when: Vec<String>,
    /// What the user says.
    pub says: String,
}

/// A tool of the user. It changes the user's state, which the agent cannot see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserTool {
    /// Name in gold actions.
    pub name: String,
    /// Words, in lower case, any of which the agent uses to ask for it.
    pub when: Vec<String>,
    /// The state in which it works.
    pub needs: BTreeMap<String, String>,
    /// What it changes.
    pub sets: BTreeMap<String, String>,
    /// What the user says if it worked.
    pub says: String,
    /// What the user says if it did not work.
    pub refuses: String,
}

impl UserTool {
    /// Uses the tool. Returns false and changes nothing if the state does not fit.
    pub fn apply(&self, state: &mut BTreeMap<String, String>) -> bool {
        let works = self.needs.iter().all(|(key, value)| state.get(key) == Some(value));
        if works {
            state.extend(self.sets.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        works
    }
}

/// One gold action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldAction {
    /// Name of the tool.
    pub name: String,
    /// Arguments by name.
    #[serde(default)]
    pub arguments: BTreeMap<String, Value>,
    /// Who acts.
    #[serde(default)]
    pub requestor: Requestor,
}

impl GoldAction {
    /// The arguments as the JSON object of a call.
    pub fn arguments(&self) -> Value {
        Value::Object(self.arguments.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Who performs an action.
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
struct Data {
    task: Task,
}

impl Task {
    /// Reads the task of a problem. Fails with kind `data` if there is none.
    pub fn of_problem(problem: &Problem) -> Result<Self> {
        match serde_json::from_str::<Data>(&problem.verifier) {
            Ok(data) => Ok(data.task),
            Err(e) => Err(Error::data(format!("problem `{}`: its verifier holds no customer task: {e}", problem.id))
                .help("import problems for `customer-service` with `data/import` and format `tau2`")),
        }
    }
    /// The text of a problem's `verifier`.
    pub fn verifier(&self) -> Result<String> {
        #[derive(Serialize)]
        struct Whole<'a> {
            kind: &'static str,
            task: &'a Task,
        }
        serde_json::to_string(&Whole { kind: "text", task: self })
            .map_err(|e| Error::bug(format!("a task has no JSON form: {e}")))
    }
}
