//! What a customer wants, and how one knows that they got it: the data of a problem.
//!
//! It stands in [`Problem::verifier`] as `{"kind": "text", "task": {…}}`, because the episode itself judges what was done and its
//! answer is the word [`RESOLVED`] or a list of faults; the problem's `answer` is that word. Refuses: keys that it does not know.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_tables::Problem;

/// The answer of an episode that did what was wanted.
pub const RESOLVED: &str = "resolved";

/// A user's script and what must be true in the end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Task {
    pub user: UserScript,
    /// What an ideal agent calls, and what the user does with tools of their own. The database, and the user's things, must end as
    /// these leave them.
    pub actions: Vec<GoldAction>,
    /// What the user must be told, as text.
    pub communicate: Vec<String>,
}

/// Everything that a scripted user can say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserScript {
    /// Why they are here: what they say first, and again when a question is not in the script.
    pub reason: String,
    /// Who they are, said when they are asked.
    pub known: String,
    /// What they do not know, said when they are asked once more.
    pub unknown: String,
    /// Manner and conditions, as the source words them, for users that can act on them. A scripted user cannot.
    pub instructions: String,
    /// What they say to questions with certain words.
    pub answers: Vec<Line>,
    /// What they can do themselves when the agent asks for it.
    pub tools: Vec<UserTool>,
    /// The state of their own things at the start (`phone: off`).
    pub state: BTreeMap<String, String>,
}

/// Something to say, and the words that call for it, in lower case; one is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    pub when: Vec<String>,
    pub says: String,
}

/// A tool of the user: it changes the state of their things, which the agent cannot see.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserTool {
    pub name: String,
    /// Words with which the agent asks for it, in lower case; one is enough.
    pub when: Vec<String>,
    /// Only in this state it works.
    pub needs: BTreeMap<String, String>,
    /// What it changes.
    pub sets: BTreeMap<String, String>,
    /// What the user says when it worked.
    pub says: String,
    /// What the user says when it did not.
    pub refuses: String,
}

impl UserTool {
    /// Uses the tool; false = the state was not right for it, and nothing changed.
    pub fn apply(&self, state: &mut BTreeMap<String, String>) -> bool {
        let works = self.needs.iter().all(|(key, value)| state.get(key) == Some(value));
        if works {
            state.extend(self.sets.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        works
    }
}

/// One action of the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldAction {
    pub name: String,
    #[serde(default)]
    pub arguments: BTreeMap<String, Value>,
    #[serde(default)]
    pub requestor: Requestor,
}

impl GoldAction {
    /// The arguments as a call has them.
    pub fn arguments(&self) -> Value {
        Value::Object(self.arguments.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

/// Who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requestor {
    #[default]
    Assistant,
    User,
}

#[derive(Deserialize)]
struct Data {
    task: Task,
}

impl Task {
    /// The task of a problem.
    pub fn of_problem(problem: &Problem) -> Result<Self> {
        match serde_json::from_str::<Data>(&problem.verifier) {
            Ok(data) => Ok(data.task),
            Err(e) => {
                Err(Error::data(format!("problem `{}`: its verifier holds no task of a customer: {e}", problem.id))
                    .help("make problems for `customer-service` with `data/import`, format `tau2`"))
            }
        }
    }
    /// The text for a problem's `verifier`.
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
