//! Decides whether a conversation succeeded.
//!
//! The database and the user's state must end as the gold actions leave them. If the option `communication` is set, the
//! agent must also have told the user the texts of the task. There is no partial credit.
//!
//! These are tau2-bench's database check and its older textual check of `communicate_info`, in place of the assertions
//! that a language model judges. A gold action that fails changes nothing; the data set contains such actions (an
//! unknown email, an order with another status).

use super::database::{Shop, ShopDatabase};
use super::task::{CustomerTask, RESOLVED, Requestor};
use super::tools::tool;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A gold action that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAction {
    /// Index among the actions.
    pub index: usize,
    /// Name of the tool.
    pub name: String,
    /// Error message of the tool.
    pub message: String,
    /// Whether the tool may change the database or the user's state.
    pub changes: bool,
}

/// Result of the gold actions.
#[derive(Debug, Clone)]
pub struct GoldReplay {
    /// The shop afterwards.
    pub shop: Shop,
    /// The user's state afterwards.
    pub state: BTreeMap<String, String>,
    /// Actions that failed.
    pub failed: Vec<FailedAction>,
}

/// Runs the gold actions of a task on a fresh shop.
pub fn replay(base: &Arc<ShopDatabase>, task: &CustomerTask) -> GoldReplay {
    let mut after =
        GoldReplay { shop: Shop::new(Arc::clone(base)), state: task.user.state.clone(), failed: Vec::new() };
    for (index, action) in task.actions.iter().enumerate() {
        let mut fails = |message: String, changes: bool| {
            after.failed.push(FailedAction { index, name: action.name.clone(), message, changes })
        };
        match action.requestor {
            Requestor::Assistant => match tool(&action.name) {
                None => fails("no such tool".to_string(), true),
                Some(tool) => {
                    if let Err(message) = tool.call(&mut after.shop, &action.arguments()) {
                        fails(message, tool.changes);
                    }
                }
            },
            Requestor::User => match task.user.tools.iter().find(|tool| tool.name == action.name) {
                None => fails("the user has no such tool".to_string(), true),
                Some(tool) if !tool.apply(&mut after.state) => {
                    fails("the user's things are in another state".to_string(), true)
                }
                Some(_) => {}
            },
        }
    }
    after
}

/// Returns the indexes of the expected texts that occur in a message, ignoring case, and commas of the message.
pub fn communicated(message: &str, expected: &[String]) -> BTreeSet<usize> {
    let message = message.to_lowercase().replace(',', "");
    (0..expected.len()).filter(|i| message.contains(&expected[*i].to_lowercase())).collect()
}

/// Returns the answer of an episode: [`RESOLVED`], or the differences from the gold replay and the missing texts in
/// words.
pub fn verdict(shop: &Shop, state: &BTreeMap<String, String>, missing_texts: &[&str], gold: &GoldReplay) -> String {
    let mut faults = gold.shop.differences(shop);
    faults.extend((*state != gold.state).then(|| "the user's own things".to_string()));
    let mut text = String::new();
    if !faults.is_empty() {
        text = format!("not as wanted: {}", faults.join(", "));
    }
    if !missing_texts.is_empty() {
        let joint = if text.is_empty() { "" } else { "; " };
        text = format!("{text}{joint}not told: {}", missing_texts.join(", "));
    }
    if text.is_empty() { RESOLVED.to_string() } else { text }
}
