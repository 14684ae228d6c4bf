//! `format`: whether every agent turn is well formed.
//!
//! A turn before the last is well formed if it holds a tool call that could be read and none that could not; the last one if it
//! gave an answer (`stop_reason` is `answer`). value = 1 if all are, else 0; per turn 1 or 0. Not applicable to infrastructure
//! failures and to records without messages.

use crate::formats::{CLOSE, OPEN};
use crate::options::PartOptions;
use crate::rewards::{Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_tables::{Message, Problem, Status, StopReason, Trajectory};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FormatOptions {}

impl PartOptions for FormatOptions {
    const KIND: &'static str = "format";
}

pub struct Format(pub FormatOptions);

/// As many calls were read as tags were written.
fn calls_are_whole(message: &Message) -> bool {
    let read = message.tool_calls.as_deref().and_then(|text| serde_json::from_str::<Vec<Value>>(text).ok());
    let count = |tag: &str| message.content.matches(tag).count();
    let read = read.map_or(0, |calls| calls.len());
    read > 0 && count(OPEN) == read && count(CLOSE) == read
}

impl Reward for Format {
    fn name(&self) -> &str {
        FormatOptions::KIND
    }
    fn score(&self, r: &Trajectory, _p: &Problem) -> Score {
        let turns: Vec<&Message> = r.messages.iter().filter(|m| m.role == "assistant").collect();
        let Some((last, earlier)) = turns.split_last() else {
            return Score::not_applicable("no messages are recorded");
        };
        if r.status == Status::Infrastructure {
            return Score::not_applicable("infrastructure failure");
        }
        let answered = r.stop_reason == StopReason::Answer && !last.content.contains(OPEN) && !last.content.contains(CLOSE);
        let formed = earlier.iter().map(|m| calls_are_whole(m)).chain([answered]);
        let per_turn: Vec<f64> = formed.map(|ok| if ok { 1.0 } else { 0.0 }).collect();
        let value = if per_turn.iter().all(|v| *v == 1.0) { 1.0 } else { 0.0 };
        Score { value: Some(value), per_turn, note: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(turns: &[(&str, Option<&str>)], stop_reason: StopReason) -> Trajectory {
        let message = |(text, calls): &(&str, Option<&str>)| Message {
            role: "assistant".to_string(),
            content: (*text).to_string(),
            tool_calls: calls.map(str::to_string),
        };
        Trajectory { messages: turns.iter().map(message).collect(), stop_reason, ..Trajectory::default() }
    }

    #[test]
    fn turns_are_judged_one_by_one() {
        let call = ("<tool_call>1+1</tool_call>", Some(r#"[{"name":"python","arguments":{"code":"1+1"}}]"#));
        let broken = ("<tool_call>1+1", None);
        let score = |turns: &[_], stop| Format(FormatOptions {}).score(&episode(turns, stop), &Problem::default());
        assert_eq!(score(&[call, ("2", None)], StopReason::Answer).per_turn, [1.0, 1.0]);
        assert_eq!(score(&[broken, ("2", None)], StopReason::Answer), Score { value: Some(0.0), per_turn: vec![0.0, 1.0], note: None });
        assert_eq!(score(&[call, call], StopReason::Turns).per_turn, [1.0, 0.0]);
        assert_eq!(score(&[("", None)], StopReason::End).value, Some(0.0));
        assert_eq!(score(&[], StopReason::Answer).value, None);
    }
}
