//! Rows for the tests of the formats of logs.

use crate::tool_text::{RawToolCall, assistant};
use std::collections::BTreeMap;
use trainyard_tables::{AnswerCheck, Message, SamplingParams, StopReason, Trajectory, Verdict};

/// Returns a rollout of two turns: a failed call of a tool with its result, and a wrong answer.
pub fn rollout() -> Trajectory {
    let call = RawToolCall { id: None, name: "add".into(), arguments: r#"{"b": 1, "a": "x"}"#.into() };
    let messages = vec![
        Message::new("system", "Use tools."),
        Message::new("user", "1+1?"),
        Message { reasoning_content: Some("A sum.".into()), ..assistant("I add.", &[call]) },
        Message { name: Some("add".into()), ..Message::new("tool", "error: a is not a number") },
        Message::new("assistant", "3"),
    ];
    Trajectory {
        id: "r1".into(),
        problem_id: "p/1".into(),
        group: 4,
        sample: 1,
        token_ids: vec![1, 2, 3, 4, 5, 6, 7],
        loss_mask: vec![false, false, true, true, false, true, true],
        turn: vec![0, 0, 0, 0, 1, 1, 1],
        logprobs: Some(vec![0.0, 0.0, -0.1, -0.5, 0.0, -2.0, 0.0]),
        weights_version: Some(vec![0, 0, 2, 2, 0, 3, 3]),
        prompt_tokens: 2,
        messages,
        rewards: BTreeMap::from([("correct".into(), 0.0), ("length".into(), -0.25)]),
        reward: -0.25,
        stop_reason: StopReason::Answer,
        turns: 2,
        tool_calls: 1,
        tool_errors: 1,
        answer: Some("3".into()),
        answer_check: Some(AnswerCheck::whole("2", "3", "number", false)),
        level: 1,
        sampling: SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 },
        environment: "word-problems".into(),
        seed: 7,
        model_digest: Some("0123456789abcdef".into()),
        verdicts: vec![Verdict { rule: "format".into(), keep: true, reason: String::new() }],
        update: Some(2),
        ..Trajectory::default()
    }
}
