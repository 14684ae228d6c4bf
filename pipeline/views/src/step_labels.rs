//! Finds the messages of a rollout to which the labels of its steps belong.
//!
//! A step is an agent turn, or a part of one: then its last token tells the turn. Rows without ends of steps have a
//! label for each message of the assistant, or for each of those after the prompt.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainyard_tables::{Trajectory, answers_in_prompt};

/// Labels that are shown of one message.
const SHOWN: usize = 12;

/// Labels of the steps of each message with steps, by the number of the message; `None` for a step without a label.
pub type MessageLabels = BTreeMap<usize, Vec<Option<f64>>>;

/// Returns the labels of a rollout by message; none if their places are unknown. The rollout must have its token ids
/// and the turns of its tokens, if it has tokens.
pub fn of_rollout(rollout: &Trajectory) -> MessageLabels {
    let Some(labels) = &rollout.step_labels else { return MessageLabels::new() };
    let roles = rollout.messages.iter().map(|message| message.role.as_str());
    let steps = Steps {
        labels: labels.iter().map(|label| (!label.is_nan()).then_some(f64::from(*label))).collect(),
        ends: rollout.step_ends.iter().map(|end| *end as usize).collect(),
        turns: rollout.turn.iter().map(|turn| usize::from(*turn)).collect(),
    };
    steps.by_message(&answers(roles), answers_in_prompt(rollout))
}

/// Returns the labels of a row by message; none if it has no labels or their places are unknown.
pub fn of_row(row: &Map<String, Value>) -> MessageLabels {
    let list = |column: &str| row.get(column).and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    let numbers = |column: &str| -> Vec<usize> {
        list(column).iter().filter_map(Value::as_u64).filter_map(|number| usize::try_from(number).ok()).collect()
    };
    let answers = answers(list("messages").iter().map(|message| message["role"].as_str().unwrap_or_default()));
    let turns = row.get("turns").and_then(Value::as_u64).and_then(|turns| usize::try_from(turns).ok());
    let has_tokens = !list("token_ids").is_empty();
    let in_prompt = turns.filter(|_| has_tokens).map_or(0, |turns| answers.len().saturating_sub(turns));
    let labels = list("step_labels").iter().map(Value::as_f64).collect();
    Steps { labels, ends: numbers("step_ends"), turns: numbers("turn") }.by_message(&answers, in_prompt)
}

/// Formats the labels of a message, as in `step label 0.25` or `step labels 1, none, 0`.
pub fn text(labels: &[Option<f64>], number: impl Fn(f64) -> String) -> String {
    let one = |label: &Option<f64>| label.map_or_else(|| "none".to_string(), &number);
    let shown: Vec<String> = labels.iter().take(SHOWN).map(one).collect();
    let more = labels.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("step label{} {}{rest}", if labels.len() == 1 { "" } else { "s" }, shown.join(", "))
}

/// Returns the numbers of the assistant's messages.
fn answers<'a>(roles: impl Iterator<Item = &'a str>) -> Vec<usize> {
    roles.enumerate().filter(|(_, role)| *role == "assistant").map(|(number, _)| number).collect()
}

/// Steps of a rollout.
struct Steps {
    /// Label of each step.
    labels: Vec<Option<f64>>,
    /// Exclusive end token of each step; empty if the steps are messages.
    ends: Vec<usize>,
    /// Agent turn of each token.
    turns: Vec<usize>,
}

impl Steps {
    /// Returns the labels by message. `answers`: the assistant's messages, of which the first are in the prompt.
    fn by_message(self, answers: &[usize], in_prompt: usize) -> MessageLabels {
        let after_prompt = &answers[in_prompt.min(answers.len())..];
        let mut found = MessageLabels::new();
        if !self.ends.is_empty() && self.ends.len() == self.labels.len() && self.turns.is_sorted() {
            let turn = |end: usize| self.turns.get(end.checked_sub(1)?).copied();
            let places = self.ends.iter().map(|end| after_prompt.get(turn(*end)?).copied());
            for (place, label) in places.zip(&self.labels) {
                if let Some(message) = place {
                    found.entry(message).or_default().push(*label);
                }
            }
        }
        let each = [answers, after_prompt].into_iter().find(|messages| messages.len() == self.labels.len());
        if found.is_empty()
            && let Some(messages) = each
        {
            found = messages.iter().copied().zip(self.labels.into_iter().map(|label| vec![label])).collect();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_tables::Message;

    fn rollout(labels: &[f32]) -> Trajectory {
        let roles = ["user", "assistant", "user", "assistant", "tool", "assistant"];
        Trajectory {
            messages: roles.map(|role| Message::new(role, "x")).to_vec(),
            step_labels: Some(labels.to_vec()),
            ..Trajectory::default()
        }
    }

    /// Returns the labels of a rollout, which must be those of its row as JSON.
    fn found(rollout: &Trajectory) -> Vec<(usize, Vec<Option<f64>>)> {
        let found = of_rollout(rollout);
        let row = serde_json::to_value(rollout).unwrap();
        assert_eq!(of_row(row.as_object().unwrap()), found);
        found.into_iter().collect()
    }

    #[test]
    fn steps_without_tokens_are_messages() {
        let labels = [(1, vec![Some(0.25)]), (3, vec![None]), (5, vec![Some(1.0)])];
        assert_eq!(found(&rollout(&[0.25, f32::NAN, 1.0])), labels);
        assert_eq!(found(&rollout(&[1.0])), [], "one label for three messages");
        assert_eq!(found(&Trajectory { step_labels: None, ..rollout(&[]) }), []);
    }

    #[test]
    fn steps_of_a_prompt_have_no_labels() {
        let row = Trajectory { token_ids: vec![7; 4], turns: 2, ..rollout(&[0.0, 1.0]) };
        assert_eq!(found(&row), [(3, vec![Some(0.0)]), (5, vec![Some(1.0)])]);
    }

    #[test]
    fn steps_within_a_turn_are_placed_by_their_last_tokens() {
        let row = Trajectory {
            token_ids: vec![7; 6],
            turn: vec![0, 0, 0, 1, 1, 1],
            turns: 2,
            step_ends: vec![2, 3, 6],
            ..rollout(&[1.0, f32::NAN, 0.5])
        };
        assert_eq!(found(&row), [(3, vec![Some(1.0), None]), (5, vec![Some(0.5)])]);
        let beyond = Trajectory { step_ends: vec![2, 3, 9], ..row.clone() };
        assert_eq!(found(&beyond), [(3, vec![Some(1.0), None])], "the last step ends after the tokens");
        let again = Trajectory { turn: vec![0, 1, 1, 0, 0, 0], ..row };
        assert_eq!(
            found(&again),
            [(1, vec![Some(1.0)]), (3, vec![None]), (5, vec![Some(0.5)])],
            "turns that begin again tell no place, but there are as many labels as messages"
        );
    }

    #[test]
    fn labels_are_formatted() {
        let number = |value: f64| value.to_string();
        assert_eq!(text(&[Some(0.25)], number), "step label 0.25");
        assert_eq!(text(&[Some(1.0), None], number), "step labels 1, none");
        assert!(text(&[None; 20], number).ends_with("none, none and 8 more"));
        assert_eq!(of_row(json!({"step_labels": [1.0], "messages": "x"}).as_object().unwrap()), MessageLabels::new());
    }
}
