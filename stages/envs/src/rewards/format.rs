//! Implements the reward `format`: whether every agent turn is well formed.
//!
//! It is usually a small term in addition to the answer, because calls that no tool can read teach nothing.

use crate::calls;
use crate::formats::markup::bodies;
use crate::formats::{CLOSE, OPEN};
use crate::rewards::reward::agent_turns;
use crate::rewards::{GroupView, Reward, Score};
use crate::tools::ToolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, Value};
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_tables::{Message, Problem, StopReason, Trajectory};

/// The reward `format` has no options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FormatOptions {}

impl PartOptions for FormatOptions {
    const KIND: &'static str = "format";
    const SUMMARY: &'static str = "1 if every agent turn is well formed";
    const DOC: &'static str = "value = 1 if every turn of the agent is well formed, else 0; per turn 1 or 0.\n\n\
        A turn is well formed if all its tool calls could be read, or if it has no call tags and some text. The last\n\
        turn must also have ended the episode with an answer (`stop_reason` is `answer`). Text before `</think>` may\n\
        hold anything. Turns that are part of the prompt are not judged. Does not apply to records without messages.";
}

pub struct FormatReward(pub FormatOptions);

/// End of the thoughts in format `toolrl`.
const THOUGHT_ENDS: &str = "</think>";

/// Returns whether the blocks between the tags contain exactly these calls: a block is either the raw text of one
/// call's argument or a sequence of JSON objects, one per call.
fn all_were_read(text: &str, calls: &[ToolCall]) -> bool {
    let mut remaining = calls;
    for body in bodies(text) {
        let Ok(body) = body else { return false };
        let count = if remaining.first().is_some_and(|call| is_raw(call, body)) { 1 } else { objects(body) };
        match remaining.split_at_checked(count) {
            Some((_, rest)) if count > 0 => remaining = rest,
            _ => return false,
        }
    }
    remaining.is_empty() && !calls.is_empty()
}

fn is_raw(call: &ToolCall, body: &str) -> bool {
    call.arguments
        .as_object()
        .is_some_and(|map| map.values().any(|v| v.as_str().is_some_and(|text| text.trim() == body.trim())))
}

/// Returns the number of JSON objects in a text; 0 if the text contains anything else.
fn objects(text: &str) -> usize {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    values.try_fold(0, |n, value| if matches!(value, Ok(Value::Object(_))) { Some(n + 1) } else { None }).unwrap_or(0)
}

/// Returns whether the assistant message at `at` contains only readable calls, or text without call tags.
pub(crate) fn turn_is_formed(messages: &[Message], at: usize) -> bool {
    let Some(turn) = messages.get(at) else { return false };
    let after_thoughts = turn.content.split_once(THOUGHT_ENDS).map(|(_, after_thoughts)| after_thoughts);
    let mut texts = [Some(turn.content.as_str()), after_thoughts].into_iter().flatten();
    match turn.tool_calls.as_deref() {
        Some(calls) => calls::read(calls).is_some_and(|calls| texts.any(|text| all_were_read(text, &calls))),
        // A tool result follows, so the turn contained a call, which was unreadable.
        None if messages.get(at + 1).is_some_and(|m| m.role == "tool") => false,
        None => texts.any(|text| !text.trim().is_empty() && !text.contains(OPEN) && !text.contains(CLOSE)),
    }
}

/// Returns whether all turns of the agent are well formed and the episode ended with an answer; `None` if no turn is
/// recorded.
pub(crate) fn well_formed(r: &Trajectory, p: &Problem) -> Option<bool> {
    formed(r, p).map(|formed| formed.iter().all(|ok| *ok))
}

/// Returns for each turn of the agent whether it is well formed; the last one is only if the episode ended with an
/// answer. `None` if no turn is recorded.
fn formed(r: &Trajectory, p: &Problem) -> Option<Vec<bool>> {
    let mut formed: Vec<bool> = agent_turns(r, p).iter().map(|(at, _)| turn_is_formed(&r.messages, *at)).collect();
    *formed.last_mut()? &= r.stop_reason == StopReason::Answer;
    Some(formed)
}

impl Reward for FormatReward {
    fn score(&self, r: &Trajectory, p: &Problem, _g: &GroupView<'_>) -> Result<Score> {
        let Some(formed) = formed(r, p) else { return Ok(Score::not_applicable()) };
        let number = |ok: bool| if ok { 1.0 } else { 0.0 };
        let value = number(formed.iter().all(|ok| *ok));
        Ok(Score { value: Some(value), per_turn: formed.into_iter().map(number).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::reward::score_alone;

    fn episode(turns: &[(&str, Option<&str>)], stop_reason: StopReason) -> Trajectory {
        let message = |(text, calls): &(&str, Option<&str>)| Message {
            tool_calls: calls.map(str::to_string),
            ..Message::new("assistant", *text)
        };
        Trajectory { messages: turns.iter().map(message).collect(), stop_reason, ..Trajectory::default() }
    }

    #[test]
    fn each_turn_is_judged() {
        let call = ("<tool_call>1+1</tool_call>", Some(r#"[{"name":"python","arguments":{"code":"1+1"}}]"#));
        let broken = ("<tool_call>1+1", None);
        let score = |turns: &[_], stop| {
            score_alone(&FormatReward(FormatOptions {}), &episode(turns, stop), &Problem::default())
        };
        assert_eq!(score(&[call, ("2", None)], StopReason::Answer).per_turn, [1.0, 1.0]);
        assert_eq!(
            score(&[broken, ("2", None)], StopReason::Answer),
            Score { value: Some(0.0), per_turn: vec![0.0, 1.0] }
        );
        assert_eq!(score(&[call, call], StopReason::Turns).per_turn, [1.0, 0.0]);
        assert_eq!(score(&[("", None)], StopReason::End).value, Some(0.0));
        assert_eq!(score(&[call, call], StopReason::Answer).per_turn, [1.0, 1.0], "a call may be the answer");
        assert_eq!(score(&[("which one?", None), ("2", None)], StopReason::Answer).per_turn, [1.0, 1.0]);
        assert_eq!(score(&[("2</tool_call>", None)], StopReason::Answer).per_turn, [0.0]);
        assert_eq!(score(&[], StopReason::Answer).value, None);
    }

    #[test]
    fn blocks_are_compared_with_parsed_calls() {
        let formed = |text: &str, calls: Option<&str>| {
            turn_is_formed(&episode(&[(text, calls)], StopReason::Answer).messages, 0)
        };
        let one = r#"[{"name":"f","arguments":{"x":1}}]"#;
        let two = r#"[{"name":"f","arguments":{"x":1}},{"name":"g","arguments":{}}]"#;
        let object = r#"{"name":"f","arguments":{"x":1}}"#;
        assert!(formed(&format!("so <tool_call>\n{object}\n</tool_call>"), Some(one)));
        assert!(formed(&format!("<tool_call>{object}\n{{}}</tool_call>"), Some(two)), "two in one block");
        assert!(formed(&format!("<tool_call>{object}</tool_call><tool_call>{{}}</tool_call>"), Some(two)));
        assert!(
            formed(&format!("<think><tool_call></think><tool_call>{object}</tool_call>"), Some(one)),
            "thoughts may hold anything"
        );
        assert!(formed("<think><tool_call></think>no", None));
        // A second, partial or unclosed object is not among the parsed calls.
        for rest in
            [format!("{object}</tool_call>"), "{</tool_call>".to_string(), "</tool_call><tool_call>".to_string()]
        {
            assert!(!formed(&format!("<tool_call>{object}{rest}"), Some(one)), "{rest}");
        }
        assert!(!formed(object, Some(one)), "no block at all");
    }

    #[test]
    fn a_turn_answered_by_a_tool_is_not_text() {
        let mut messages = episode(&[("<tool_call>{</think>", None)], StopReason::Answer).messages;
        messages.push(Message::new("tool", "error: the tool call is not closed by </tool_call>"));
        assert!(!turn_is_formed(&messages, 0));
        assert!(!turn_is_formed(&messages, 2), "there is no such message");
    }
}
