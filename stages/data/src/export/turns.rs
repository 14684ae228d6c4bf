//! Finds the agent's turns that are context and not part of the loss.

use std::collections::BTreeSet;
use trainyard_tables::{Message, Trajectory, answers_in_prompt, errored_turns};

/// Returns the indices of assistant messages out of the loss: those of the prompt, those whose tool call failed (as
/// with `mask_errored_turns` of `sft`), and void ones.
pub fn context(row: &Trajectory) -> BTreeSet<usize> {
    let places: Vec<usize> = (0..row.messages.len()).filter(|i| row.messages[*i].role == "assistant").collect();
    let given = answers_in_prompt(row);
    let mut context: BTreeSet<usize> = places.iter().take(given).copied().collect();
    if row.tool_errors > 0 {
        context
            .extend(errored_turns(row).into_iter().filter_map(|turn| places.get(given + usize::from(turn)).copied()));
    }
    context.extend(places.into_iter().filter(|place| is_void(&row.messages, *place)));
    context
}

/// Returns the turns of [`context`] by their numbers, counted from 0 after the prompt. Messages of the prompt are left
/// out.
pub fn masked_turns(row: &Trajectory) -> BTreeSet<u16> {
    let places = (0..row.messages.len()).filter(|i| row.messages[*i].role == "assistant");
    let context = context(row);
    let turns = places.skip(answers_in_prompt(row)).enumerate().filter(|(_, place)| context.contains(place));
    turns.filter_map(|(turn, _)| u16::try_from(turn).ok()).collect()
}

/// Returns whether a turn has neither a complete call nor text for a recipient: the turn is empty, or a tool responded
/// although the turn has no parsed call.
fn is_void(messages: &[Message], place: usize) -> bool {
    let message = &messages[place];
    if message.tool_calls.is_some() {
        return false;
    }
    let has_text = !message.content.trim().is_empty() || message.reasoning_content.is_some();
    !has_text || messages.get(place + 1).is_some_and(|next| next.role == "tool")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_mistakes_and_void_turns_are_context() {
        let call = |content: &str| Message { tool_calls: Some("[]".into()), ..Message::new("assistant", content) };
        let say = |role: &str, content: &str| Message::new(role, content);
        let messages = vec![
            say("user", "q"),
            say("assistant", "given"),
            say("user", "r"),
            call("a"),
            say("tool", "error: no"),
            say("assistant", "<tool_call>"),
            say("tool", "broken"),
            call("b"),
            say("tool", "7"),
            say("assistant", " "),
            say("assistant", "7"),
        ];
        let row = Trajectory { messages, turns: 5, tool_errors: 1, token_ids: vec![1], ..Trajectory::default() };
        assert_eq!(context(&row), BTreeSet::from([1, 3, 5, 9]));
        assert_eq!(masked_turns(&row), BTreeSet::from([0, 1, 3]));
        let quiet = Trajectory { tool_errors: 0, token_ids: vec![], ..row };
        assert_eq!(context(&quiet), BTreeSet::from([5, 9]), "a program may print such a line on purpose");
    }
}
