//! Finds turns whose tool call failed, and removes their tokens from the loss. Such turns remain as context, but a
//! model must not imitate them.

use crate::{Message, Trajectory};
use std::collections::BTreeSet;

/// Returns the agent turns (from 0) followed by a failed tool result.
pub fn errored_turns(row: &Trajectory) -> BTreeSet<u16> {
    errored(&row.messages, answers_in_prompt(row))
}

/// Sets `mask` to false for the tokens of the `errored` turns; `turns` holds the turn of each token. Returns the number
/// of turns that had tokens in the loss.
pub fn mask_turns(mask: &mut [bool], turns: &[u16], errored: &BTreeSet<u16>) -> usize {
    let mut hit = BTreeSet::new();
    for (m, t) in mask.iter_mut().zip(turns) {
        if *m && errored.contains(t) {
            *m = false;
            hit.insert(*t);
        }
    }
    hit.len()
}

/// Counts the assistant messages that belong to the prompt of a rollout, whose turns are counted after it. A row
/// without tokens is encoded from its messages, and every assistant message is a turn.
pub fn answers_in_prompt(row: &Trajectory) -> usize {
    let all = row.messages.iter().filter(|m| m.role == "assistant").count();
    if row.token_ids.is_empty() { 0 } else { all.saturating_sub(row.turns as usize) }
}

/// Returns the failed turns; the first `skipped` assistant messages do not count as turns.
fn errored(messages: &[Message], skipped: usize) -> BTreeSet<u16> {
    let mut assistant_messages = 0;
    let mut errored = BTreeSet::new();
    for message in messages {
        match message.role.as_str() {
            "assistant" => assistant_messages += 1,
            "tool" if assistant_messages > skipped && is_error_text(&message.content) => {
                errored.extend(u16::try_from(assistant_messages - skipped - 1))
            }
            _ => {}
        }
    }
    errored
}

/// Whether a tool's result ends like an error: `error: …`, or the last line of an exception (`NameError: …`,
/// `Exception`). Checked only in rows that count failed calls, since a program may print such a line on purpose.
fn is_error_text(content: &str) -> bool {
    let last = content.trim_end().lines().next_back().unwrap_or("").trim_start();
    let name = last.split([':', ' ', '(']).next().unwrap_or("");
    name == "error" || ["Error", "Exception", "Interrupt", "Exit", "Iteration"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_before_a_failed_result_is_masked() {
        let mut mask = [false, true, false, true, true, true];
        let turns = [0, 0, 1, 1, 2, 2];
        assert_eq!(mask_turns(&mut mask, &turns, &BTreeSet::from([1, 5])), 1);
        assert_eq!(mask, [false, true, false, false, true, true]);
    }

    #[test]
    fn errors_are_read_from_the_last_line() {
        for text in [
            "NameError: name 'x' is not defined",
            "3\nZeroDivisionError: division by zero",
            "error: unknown tool",
            "Exception",
        ] {
            assert!(is_error_text(text), "{text}");
        }
        for text in ["7", "", "no error here", "Errors: 0 found"] {
            assert!(!is_error_text(text), "{text}");
        }
        let messages = [
            ("user", "q"),
            ("assistant", "a"),
            ("tool", "TypeError: x"),
            ("assistant", "b"),
            ("tool", "3"),
            ("assistant", "c"),
        ];
        let messages: Vec<Message> = messages.iter().map(|(r, c)| Message::new(r, *c)).collect();
        assert_eq!(errored(&messages, 0), BTreeSet::from([0]));
    }

    #[test]
    fn assistant_messages_of_the_prompt_are_not_turns() {
        let messages = [
            ("user", "q"),
            ("assistant", "a"),
            ("user", "r"),
            ("assistant", "b"),
            ("tool", "error: no"),
            ("assistant", "c"),
        ];
        let messages: Vec<Message> = messages.iter().map(|(r, c)| Message::new(r, *c)).collect();
        let rollout = Trajectory { messages, turns: 2, token_ids: vec![1], ..Trajectory::default() };
        assert_eq!(errored_turns(&rollout), BTreeSet::from([0]));
        let demonstration = Trajectory { token_ids: Vec::new(), ..rollout };
        assert_eq!(errored_turns(&demonstration), BTreeSet::from([1]));
    }
}
