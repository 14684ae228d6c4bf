//! Whether a customer got what they wanted: the database, and the user's own things, must end as the gold actions leave them, and
//! what the user must be told must have been said.
//!
//! This is tau2-bench's database check, with its older check of `communicate_info` by text in place of an assertion that a language
//! model judges. A gold action that fails changes nothing; references hold such actions (an email that is not known, an order that
//! has another status). Refuses: partial credit.

use super::database::{Database, Shop};
use super::task::{RESOLVED, Requestor, Task};
use super::tools::tool;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A gold action that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its place among the actions.
    pub index: usize,
    pub name: String,
    pub message: String,
    /// It would have changed the database or the user's things.
    pub changes: bool,
}

/// What the gold actions leave.
#[derive(Debug, Clone)]
pub struct Replayed {
    pub shop: Shop,
    /// The user's own things.
    pub state: BTreeMap<String, String>,
    pub failed: Vec<Failed>,
}

/// Runs the gold actions of a task on a fresh shop.
pub fn replay(base: &Arc<Database>, task: &Task) -> Replayed {
    let mut after = Replayed { shop: Shop::new(Arc::clone(base)), state: task.user.state.clone(), failed: Vec::new() };
    for (index, action) in task.actions.iter().enumerate() {
        let mut fails = |message: String, changes: bool| {
            after.failed.push(Failed { index, name: action.name.clone(), message, changes })
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

/// Which of the wanted texts a message tells: case and thousands separators aside, as a part of it.
pub fn told(message: &str, wanted: &[String]) -> BTreeSet<usize> {
    let message = message.to_lowercase().replace(',', "");
    (0..wanted.len()).filter(|i| message.contains(&wanted[*i].to_lowercase())).collect()
}

/// The answer of an episode: [`RESOLVED`], or what is wrong.
pub fn verdict(shop: &Shop, state: &BTreeMap<String, String>, untold: &[&str], wanted: &Replayed) -> String {
    let mut faults = wanted.shop.differences(shop);
    faults.extend((*state != wanted.state).then(|| "the user's own things".to_string()));
    let mut text = String::new();
    if !faults.is_empty() {
        text = format!("not as wanted: {}", faults.join(", "));
    }
    if !untold.is_empty() {
        let joint = if text.is_empty() { "" } else { "; " };
        text = format!("{text}{joint}not told: {}", untold.join(", "));
    }
    if text.is_empty() { RESOLVED.to_string() } else { text }
}
