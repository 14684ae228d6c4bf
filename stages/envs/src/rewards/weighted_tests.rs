use super::*;
use crate::rewards::family;
use trainyard_tables::{Problem, StopReason, Trajectory};

fn build(list: &[Value]) -> Result<Vec<WeightedReward>> {
    RewardList::read(&family(), &mut json!(list)).build()
}
fn complete(entry: &Value) -> Value {
    let mut list = json!([entry]);
    RewardList::read(&family(), &mut list);
    list[0].take()
}
/// Returns the problems of one entry; pointers are relative to it.
fn check(entry: &Value) -> Vec<OptionProblem> {
    let mut problems = RewardList::read(&family(), &mut json!([entry])).problems();
    problems.iter_mut().for_each(|p| p.pointer = p.pointer.trim_start_matches("/0").to_string());
    problems
}

/// Returns the minimal options of a kind.
fn minimal(kind: &str) -> Value {
    match kind {
        "pattern" => json!({"kind": kind, "pattern": "x"}),
        "judged" => json!({"kind": kind, "model": {"endpoint": "http://h", "model": "m"}, "rubric": "r"}),
        "process" => json!({"kind": kind, "command": ["sh"]}),
        "http" => json!({"kind": kind, "url": "http://127.0.0.1:9/"}),
        _ => json!({"kind": kind}),
    }
}

#[test]
fn names_are_sorted_and_every_entry_completes_and_builds() {
    let names = family().names();
    assert!(names.is_sorted());
    assert!(family().members().iter().all(|kind| !kind.summary.is_empty() && !kind.doc.is_empty()));
    for name in names {
        let completed = complete(&minimal(name));
        assert_eq!(complete(&completed), completed);
        assert_eq!(complete(&json!(name)), complete(&json!({"kind": name})), "a bare name is the default");
        assert_eq!(completed["weight"], json!(1.0));
        assert_eq!(build(std::slice::from_ref(&completed)).unwrap()[0].component, name);
        assert_eq!(check(&completed), []);
    }
}

#[test]
fn mistakes_in_an_entry_are_all_reported() {
    assert_eq!(check(&json!({"kind": "answer", "weight": "x", "color": 1})).len(), 2);
    assert_eq!(check(&json!({"kind": "beauty"}))[0].pointer, "/kind");
    let misspelled =
        build(&[json!({"kind": "answer"}), json!({"kind": "answer", "color": 1})]).map(|_| ()).unwrap_err();
    assert!(misspelled.to_string().contains("rewards[1]"), "{misspelled}");
    assert!(build(&[json!({"weight": 2})]).is_err());
}

#[test]
fn value_that_is_not_a_list_is_rejected() {
    let one = RewardList::read(&family(), &mut json!("answer"));
    assert_eq!(one.problems()[0].pointer, "");
    assert!(one.build().is_err());
}

#[test]
fn empty_list_is_rejected() {
    let none = RewardList::read(&family(), &mut json!([]));
    assert_eq!(none.problems().len(), 1);
    assert!(none.problems()[0].message.contains("nothing is learned"));
}

#[test]
fn the_sum_is_weighted_and_components_are_kept() {
    let mut rewards = build(&[json!({"kind": "answer"}), json!({"kind": "format", "weight": 0.5})]).unwrap();
    let p = Problem { answer: "7".to_string(), ..Problem::default() };
    let message = trainyard_tables::Message::new("assistant", "7");
    let r = Trajectory {
        answer: Some("7".to_string()),
        stop_reason: StopReason::Answer,
        messages: vec![message],
        ..Trajectory::default()
    };
    let total = score(&mut rewards, &r, &p);
    assert_eq!(total.components, BTreeMap::from([("answer".to_string(), 1.0), ("format".to_string(), 1.0)]));
    assert_eq!(total.value, 1.5);
    assert_eq!(total.per_turn, [0.5]);
}

#[test]
fn by_chance_permutes_the_scores_of_a_group() {
    let completed = complete(&json!({"kind": "answer", "by_chance": true}));
    assert_eq!(completed["by_chance"], json!(true));
    assert!(complete(&json!("answer")).get("by_chance").is_none());
    assert_eq!(check(&json!({"kind": "answer", "by_chance": 3}))[0].pointer, "/by_chance");
    let mut rewards = build(&[completed]).unwrap();
    let p = Problem { answer: "7".to_string(), ..Problem::default() };
    let answers: Vec<Trajectory> = (0..16)
        .map(|i| Trajectory {
            id: format!("rl/0/{i}"),
            answer: Some(if i < 8 { "7" } else { "8" }.to_string()),
            ..Trajectory::default()
        })
        .collect();
    let members: Vec<&Trajectory> = answers.iter().collect();
    let correct: Vec<bool> = (0..16).map(|i| i < 8).collect();
    let group = GroupView { step: 0, steps: 1, members: &members, correct: &correct, earlier: &[] };
    let scored_group = ScoringGroup { problem: &p, group };
    let values: Vec<f64> = score_groups(&mut rewards, &[scored_group]).unwrap()[0].iter().map(|t| t.value).collect();
    assert_eq!(values.iter().sum::<f64>(), 8.0);
    assert!(values[..8].contains(&0.0), "{values:?}");
}

#[test]
fn an_infrastructure_failure_has_no_reward_of_any_kind() {
    // A program or a judge would have to be opened.
    let kinds = family().names().into_iter().filter(|kind| !["http", "judged", "process"].contains(kind));
    let all: Vec<Value> = kinds.map(minimal).collect();
    let mut rewards = build(&all).unwrap();
    let p = Problem { answer: "7".to_string(), reference: Some("7".to_string()), ..Problem::default() };
    let messages = vec![trainyard_tables::Message::new("assistant", "7")];
    let answered = Trajectory { answer: Some("7".to_string()), tool_calls: 1, messages, ..Trajectory::default() };
    let mut total = |r: &Trajectory| score(&mut rewards, r, &p);
    assert!(total(&answered).components.len() > 5, "most rewards apply to the same episode if it is finished");
    assert_eq!(total(&Trajectory { status: EpisodeStatus::Infrastructure, ..answered }), RewardTotal::default());
}

fn score(rewards: &mut [WeightedReward], r: &Trajectory, p: &Problem) -> RewardTotal {
    let members = [r];
    let scored_group = ScoringGroup { problem: p, group: GroupView::alone(&members, &[true]) };
    score_groups(rewards, &[scored_group]).unwrap().concat().remove(0)
}

fn list() -> Vec<WeightedReward> {
    let options = [
        json!({"kind": "answer"}),
        json!({"kind": "tool_efficiency", "weight": 0.5}),
        json!({"kind": "tool_efficiency"}),
    ];
    build(&options).unwrap()
}

#[test]
fn two_of_one_kind_are_two_components() {
    let p = Problem { id: "p".to_string(), ..Problem::default() };
    let r = Trajectory { tool_calls: 1, ..Trajectory::default() };
    let total = score(&mut list(), &r, &p);
    assert_eq!(total.components.keys().collect::<Vec<_>>(), ["answer", "tool_efficiency", "tool_efficiency_2"]);
}

fn group(rewards: &mut [WeightedReward], calls: &[u32]) -> Vec<f64> {
    let p = Problem { id: "p".to_string(), ..Problem::default() };
    let rows: Vec<Trajectory> = calls.iter().map(|n| Trajectory { tool_calls: *n, ..Trajectory::default() }).collect();
    let members: Vec<&Trajectory> = rows.iter().collect();
    let correct = vec![true; rows.len()];
    let g = GroupView { step: 0, steps: 1, members: &members, correct: &correct, earlier: &[] };
    let scored_group = ScoringGroup { problem: &p, group: g };
    score_groups(rewards, &[scored_group]).unwrap().concat().into_iter().map(|t| t.value).collect()
}

#[test]
fn a_group_is_observed_before_any_member_is_scored() {
    // The second member sets the standard of the first: n = 1, sin(2π/3).
    let values = group(&mut list(), &[2, 1]);
    assert!((values[0] - (1.0 + 1.5 * 0.75_f64.sqrt())).abs() < 1e-12);
    assert!((values[1] - 2.5).abs() < 1e-12);
}

#[test]
fn state_is_saved_by_index() {
    let mut rewards = list();
    assert!(save(&rewards).is_null());
    group(&mut rewards, &[1]);
    let state = save(&rewards);
    assert_eq!(state, json!({"1": {"fewest": {"p": 1}}, "2": {"fewest": {"p": 1}}}));
    let mut resumed = list();
    load(&mut resumed, state.clone()).unwrap();
    assert_eq!(group(&mut resumed, &[3]), group(&mut rewards, &[3]));
    load(&mut resumed, Value::Null).unwrap();
    assert!(save(&resumed).is_null());
    let mut shorter = list();
    shorter.truncate(1);
    let e = load(&mut shorter, state).unwrap_err();
    assert!(e.message.contains("rewards[1]"), "{e}");
    assert_eq!(load(&mut shorter, json!({"0": 1})).unwrap_err().kind, trainyard_core::ErrorKind::Data);
    assert!(load(&mut shorter, json!([])).is_err());
}
