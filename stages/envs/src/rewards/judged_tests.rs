use super::*;
use crate::rewards::family;
use crate::rewards::weighted::{RewardList, WeightedReward, score_groups};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::ErrorKind;
use trainyard_tables::Message;
use trainyard_testkit::chat::{MockChatServer, MockResponse, says};

/// Responds with as many points as the agent's last message has letters, or with the message itself if it begins with
/// `!`.
fn judge(body: &Value, _: usize) -> MockResponse {
    let prompt = body["messages"][0]["content"].as_str().unwrap();
    let message = prompt.split("[assistant]\n").nth(1).unwrap().split("\n</conversation>").next().unwrap();
    match message.strip_prefix('!') {
        Some(text) => says(body, text),
        None => says(body, &json!({"reason": "letters", "points": message.len()}).to_string()),
    }
}

fn rewards(served: &MockChatServer, more: Value) -> Vec<WeightedReward> {
    let model = json!({"endpoint": served.url(), "model": "m", "attempts": 1, "price": {"input": 1, "output": 2}});
    let mut entry = json!({"kind": "judged", "rubric": "Count.", "points": 4, "model": model});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut rewards = RewardList::read(&family(), &mut json!([entry])).build().unwrap();
    rewards.iter_mut().for_each(|one| one.reward.open(&RewardContext::detached()).unwrap());
    rewards
}

/// Returns the value of each episode that ended with such a message.
fn score(rewards: &mut [WeightedReward], groups: &[&[&str]]) -> Result<Vec<Option<f64>>> {
    let p = Problem { id: "p".into(), ..Problem::default() };
    let row = |(n, message): (usize, &&str)| Trajectory {
        id: format!("rl/0/p/{n}"),
        messages: vec![Message::new("user", "Count."), Message::new("assistant", *message)],
        ..Trajectory::default()
    };
    let rows: Vec<Vec<Trajectory>> = groups.iter().map(|group| group.iter().enumerate().map(row).collect()).collect();
    let members: Vec<Vec<&Trajectory>> = rows.iter().map(|group| group.iter().collect()).collect();
    let correct = [true; 9];
    let groups_to_score: Vec<ScoringGroup<'_>> = members
        .iter()
        .map(|members| {
            let correct = &correct[..members.len()];
            ScoringGroup { problem: &p, group: GroupView { step: 0, steps: 1, members, correct, earlier: &[] } }
        })
        .collect();
    let totals = score_groups(rewards, &groups_to_score)?.concat();
    Ok(totals.into_iter().map(|total| total.components.values().next().copied()).collect())
}

#[test]
fn points_become_shares_and_equal_episodes_are_requested_once() {
    let served = MockChatServer::start(judge);
    let mut rewards = rewards(&served, json!({}));
    let values = score(&mut rewards, &[&["abc", "a"], &["abcd", "abc"]]).unwrap();
    assert_eq!(values, [Some(0.75), Some(0.25), Some(1.0), Some(0.75)]);
    let metrics: BTreeMap<&str, f64> = rewards[0].reward.metrics().into_iter().collect();
    assert_eq!((served.requests(), metrics["requests"], metrics["unjudged"]), (3, 3.0, 0.0));
    assert!((metrics["cost"] - 60e-6).abs() < 1e-12 && metrics["prompt_tokens"] == 30.0, "{metrics:?}");
    score(&mut rewards, &[&["abc"]]).unwrap();
    let metrics: BTreeMap<&str, f64> = rewards[0].reward.metrics().into_iter().collect();
    assert_eq!(
        (served.requests(), metrics["requests"]),
        (3, 1.0),
        "the request is counted, and its stored response costs nothing"
    );
    let body = &served.bodies()[0];
    let schema = &body["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["properties"]["points"], json!({"type": "integer", "minimum": 0, "maximum": 4}));
    assert!(body["messages"][0]["content"].as_str().unwrap().contains("<rules>\nCount.\n</rules>"));
}

#[test]
fn invalid_verdicts_end_the_stage_or_are_counted() {
    let served = MockChatServer::start(judge);
    for message in ["!I cannot.", "!{\"reason\": \"so\"}", "!{\"points\": 5}", "!{\"points\": \"two\"}"] {
        let error = score(&mut rewards(&served, json!({})), &[&["a", message]]).unwrap_err();
        assert!(error.kind == ErrorKind::Data && error.message.contains("episode `rl/0/p/1`"), "{error}");
        assert!(error.help.unwrap().contains("on_error: skip"));
        let mut skipping = rewards(&served, json!({"on_error": "skip"}));
        assert_eq!(score(&mut skipping, &[&["a", message]]).unwrap(), [Some(0.25), None]);
        assert!(skipping[0].reward.metrics().contains(&("unjudged", 1.0)));
    }
}

#[test]
fn outage_is_retryable_under_any_options() {
    let served = MockChatServer::start(|_, _| MockResponse::Status(503, "busy"));
    let error = score(&mut rewards(&served, json!({"on_error": "skip"})), &[&["a"]]).unwrap_err();
    assert!(error.kind == ErrorKind::Retryable && error.message.contains("reward `judged`"), "{error}");
}

#[test]
fn invalid_options_are_reported() {
    let problems = |more: Value| {
        let mut entry = json!({"kind": "judged", "model": {"endpoint": "http://h", "model": "m"}, "rubric": "r"});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let list = RewardList::read(&family(), &mut json!([entry]));
        list.problems().into_iter().map(|problem| problem.pointer).collect::<Vec<_>>()
    };
    assert!(problems(json!({})).is_empty());
    assert_eq!(problems(json!({"rubric": ""})), ["/0/rubric"]);
    assert!(problems(json!({"rubric": "", "prompt": "Is {{ answer }} good?"})).is_empty());
    assert_eq!(problems(json!({"prompt": "{{ x }} by {{ rubric }}", "points": 0})), ["/0/prompt", "/0/points"]);
    assert_eq!(problems(json!({"model": {"endpoint": "h", "model": "m"}})), ["/0/model/endpoint"]);
}
