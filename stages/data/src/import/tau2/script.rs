//! Converts a task's instructions, which describe a role to a language model ("You are …, you want …"), to a user's
//! script.
//!
//! The script's user repeats the instructions word by word in the first person, so the grammar may be imperfect.
//! Conditions stay unchanged, because a script cannot act on them. The gold actions provide the details that
//! tau2-bench's users give only on request (payment method, reason of a cancellation, new address).

use serde::Deserialize;
use serde_json::Value;
use trainyard_envs::environments::customer_service::task::{GoldAction, ScriptedAnswer, UserScript};

/// A task's instructions to the model that plays its user.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Instructions {
    /// Domain; only `retail` can be imported.
    pub domain: String,
    /// Reason for the call.
    pub reason_for_call: Option<String>,
    /// Information that the user has.
    pub known_info: Option<String>,
    /// Information that the user lacks.
    pub unknown_info: Option<String>,
    /// Manner and conditions.
    pub task_instructions: Option<String>,
}

/// Words after which "you" becomes "me".
const BEFORE_ME: [&str; 26] = [
    "to", "for", "with", "from", "of", "by", "on", "at", "tell", "tells", "told", "ask", "asks", "asked", "give",
    "gives", "let", "lets", "help", "helps", "offer", "offers", "show", "shows", "refund", "charge",
];
/// Parts of an address, in the usual order.
const ADDRESS: [&str; 6] = ["address1", "address2", "city", "state", "zip", "country"];

/// Returns the script for instructions and gold actions.
pub fn user_script(instructions: &Instructions, actions: &[GoldAction]) -> UserScript {
    let in_first_person = |text: &Option<String>| first_person(sentence(text.as_deref().unwrap_or("")));
    UserScript {
        reason: in_first_person(&instructions.reason_for_call),
        known: in_first_person(&instructions.known_info),
        unknown: in_first_person(&instructions.unknown_info),
        instructions: sentence(instructions.task_instructions.as_deref().unwrap_or("")).to_string(),
        answers: answers(actions),
        ..UserScript::default()
    }
}

/// Returns the trimmed text, or an empty text for the single period that tasks write for an absent text.
fn sentence(text: &str) -> &str {
    let text = text.trim();
    if text == "." { "" } else { text }
}

/// Returns the user's answers to questions about details of the gold actions.
fn answers(actions: &[GoldAction]) -> Vec<ScriptedAnswer> {
    let text =
        |action: &GoldAction, key: &str| action.arguments.get(key).and_then(Value::as_str).unwrap_or("").to_string();
    let line = |when: &[&str], replies: Vec<String>| {
        let when = when.iter().map(ToString::to_string).collect();
        (!replies.is_empty()).then(|| ScriptedAnswer { when, says: replies.join(" ") })
    };
    let with = |key: &'static str| actions.iter().filter(move |action| action.arguments.contains_key(key));
    let payment = with("payment_method_id")
        .map(|a| format!("For {}, use {}.", text(a, "order_id"), text(a, "payment_method_id")));
    let reason = with("reason").map(|a| format!("{}: {}.", text(a, "order_id"), text(a, "reason")));
    let address = with("address1").map(|a| {
        let parts: Vec<String> = ADDRESS.iter().map(|key| text(a, key)).filter(|part| !part.is_empty()).collect();
        format!("It is {}.", parts.join(", "))
    });
    let lines = [
        line(&["payment", "refund", "pay for", "card"], distinct(payment)),
        line(&["reason", "why"], distinct(reason)),
        line(&["address"], distinct(address)),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns the texts without repeats, in order.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for text in texts {
        if !kept.contains(&text) {
            kept.push(text);
        }
    }
    kept
}

/// Turns "You are Ada and want your lamp" into "I am Ada and want my lamp".
pub fn first_person(text: &str) -> String {
    let pieces = pieces(text);
    let words: Vec<usize> = (0..pieces.len()).filter(|i| is_word(pieces[*i])).collect();
    let lower: Vec<String> = words.iter().map(|i| pieces[*i].to_lowercase()).collect();
    let mut rewritten: Vec<String> = pieces.iter().map(ToString::to_string).collect();
    for (at, place) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |b| lower[b].as_str());
        let after = lower.get(at + 1).map_or("", String::as_str);
        if let Some(word) = first_person_word(&lower[at], before, after) {
            let capital = pieces[*place].starts_with(char::is_uppercase);
            rewritten[*place] = if capital { capitalized(word) } else { word.to_string() };
        }
    }
    rewritten.concat()
}

/// Returns the replacement of a word between its neighbors, or `None` if the word stays unchanged.
fn first_person_word(word: &str, before: &str, after: &str) -> Option<&'static str> {
    Some(match word {
        // Some tasks say "You name is Ada".
        "you" if after == "name" => "my",
        "you" if BEFORE_ME.contains(&before) => "me",
        "you" => "I",
        "your" => "my",
        "yours" => "mine",
        "yourself" => "myself",
        "you're" => "I'm",
        "you've" => "I've",
        "you'd" => "I'd",
        "you'll" => "I'll",
        "are" if before == "you" => "am",
        "were" if before == "you" => "was",
        _ => return None,
    })
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn is_word(piece: &str) -> bool {
    piece.starts_with(|c: char| c.is_alphanumeric() || c == '\'')
}

/// Splits a text into words and the separators between them. An apostrophe belongs to its word.
fn pieces(text: &str) -> Vec<&str> {
    let inside = |c: char| c.is_alphanumeric() || c == '\'';
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = inside(first);
        let end = rest.find(|c: char| inside(c) != word).unwrap_or(rest.len());
        pieces.push(&rest[..end]);
        rest = &rest[end..];
    }
    pieces
}
