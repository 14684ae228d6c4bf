//! The list `rewards` of a stage: each with its weight, their weighted sum, and what they keep across steps.

use crate::rewards::{GroupView, Reward};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trainyard_api::family::prefixes;
use trainyard_api::{Chosen, Family};
use trainyard_core::error::Context as _;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_tables::{Problem, Status, Trajectory};

/// A reward with its weight in the sum: the entry `{kind: format, weight: 0.1, …}` of a config.
pub struct WeightedReward {
    /// Its name in records: the kind; from the second of a kind in a list on with its number (`answer_2`).
    pub component: String,
    /// Factor in the sum.
    pub weight: f64,
    /// The reward.
    pub reward: Box<dyn Reward>,
}

/// JSON Schema of a list of rewards, each with an optional weight.
pub fn schema(family: &Family<dyn Reward>) -> Value {
    let mut entry = family.schema();
    for branch in entry["oneOf"].as_array_mut().into_iter().flatten().filter(|branch| branch["properties"].is_object())
    {
        branch["properties"]["weight"] =
            json!({ "type": "number", "default": 1.0, "description": "Factor in the sum." });
    }
    json!({ "type": "array", "items": entry })
}

/// The rewards that a config names, each parsed once.
pub struct RewardList {
    entries: Vec<Entry>,
    /// The value was not a list.
    not_a_list: bool,
}

struct Entry {
    weight: Result<f64, OptionProblem>,
    reward: Result<Chosen<dyn Reward>, OptionProblem>,
}

impl RewardList {
    /// Reads the list and fills in weights and defaults there. Entries that do not parse stay as they are, for
    /// [`RewardList::problems`].
    pub fn read(family: &Family<dyn Reward>, list: &mut Value) -> Self {
        let not_a_list = !list.is_array();
        let entries = list.as_array_mut().into_iter().flatten().map(|options| Entry::read(family, options)).collect();
        Self { entries, not_a_list }
    }
    /// Everything wrong; pointers are relative to the list.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let list = if self.not_a_list {
            Some("the rewards must be a list")
        } else if self.entries.is_empty() {
            Some("without a reward all episodes are worth the same, and nothing is learned")
        } else {
            None
        };
        let list = list.map(|message| OptionProblem::new("", message).help("write for example [{kind: answer}]"));
        let of = |(i, entry): (usize, &Entry)| {
            let place = format!("/{i}");
            entry.problems().into_iter().map(move |problem| problem.within(&place))
        };
        list.into_iter().chain(self.entries.iter().enumerate().flat_map(of)).collect()
    }
    /// What records call the rewards: the kind, from the second of a kind on with its number (`answer_2`).
    pub fn components(&self) -> Vec<String> {
        prefixes(self.entries.iter().map(|entry| entry.reward.as_ref().map(Chosen::kind).unwrap_or_default()))
    }
    /// Fresh rewards. Errors: invalid, with the place in the list.
    pub fn build(&self) -> Result<Vec<WeightedReward>> {
        if self.not_a_list {
            return Err(Error::invalid("`rewards` must be a list"));
        }
        let one = |(i, (entry, component)): (usize, (&Entry, String))| {
            let (weight, reward) = entry.build().at(format!("rewards[{i}]"))?;
            Ok(WeightedReward { component, weight, reward })
        };
        self.entries.iter().zip(self.components()).enumerate().map(one).collect()
    }
}

impl Entry {
    fn read(family: &Family<dyn Reward>, options: &mut Value) -> Self {
        let mut own = options.clone();
        let weight = match own.as_object_mut().and_then(|map| map.remove("weight")) {
            None => Ok(1.0),
            Some(value) => value.as_f64().ok_or_else(|| {
                OptionProblem::new("/weight", "the weight of a reward must be a number").help("write for example 0.5")
            }),
        };
        let reward = family.read(&own);
        if let (Ok(weight), Ok(reward)) = (&weight, &reward)
            && let Ok(mut complete) = reward.complete()
        {
            complete["weight"] = json!(weight);
            *options = complete;
        }
        Self { weight, reward }
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let reward = self.reward.as_ref().map_or_else(|problem| vec![problem.clone()], Chosen::problems);
        self.weight.as_ref().err().cloned().into_iter().chain(reward).collect()
    }
    fn build(&self) -> Result<(f64, Box<dyn Reward>)> {
        let refused = |problem: &OptionProblem| {
            problem.help.clone().into_iter().fold(Error::invalid(problem.message.clone()), Error::help)
        };
        let weight = self.weight.as_ref().map_err(refused)?;
        Ok((*weight, self.reward.as_ref().map_err(refused)?.build(&())?))
    }
}

/// The reward of one episode. Components that do not apply are left out of all three.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Total {
    /// Every component by name, before its weight.
    pub components: BTreeMap<String, f64>,
    /// Their weighted sum.
    pub value: f64,
    /// The weighted sum per agent turn; empty if no component scores turns.
    pub per_turn: Vec<f64>,
}

/// Scores one episode without observing anything new. An infrastructure failure gets no reward: it was not the agent's
/// fault.
pub fn score(rewards: &[WeightedReward], r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Total {
    let mut total = Total::default();
    if r.status == Status::Infrastructure {
        return total;
    }
    for WeightedReward { component, weight, reward } in rewards {
        let score = reward.score(r, p, g);
        if let Some(value) = score.value {
            total.components.insert(component.clone(), value);
            total.value += weight * value;
        }
        if total.per_turn.len() < score.per_turn.len() {
            total.per_turn.resize(score.per_turn.len(), 0.0);
        }
        for (sum, value) in total.per_turn.iter_mut().zip(&score.per_turn) {
            *sum += weight * value;
        }
    }
    total
}

/// Shows the group to every reward, then scores its members, in order.
pub fn score_group(rewards: &mut [WeightedReward], p: &Problem, g: &GroupView<'_>) -> Vec<Total> {
    rewards.iter_mut().for_each(|r| r.reward.observe(p, g));
    g.members.iter().map(|member| score(rewards, member, p, g)).collect()
}

/// What the rewards keep across steps, by their place in the list; null if none keeps anything.
pub fn save(rewards: &[WeightedReward]) -> Value {
    let states = rewards.iter().enumerate().map(|(place, r)| (place.to_string(), r.reward.save()));
    let kept: Map<String, Value> = states.filter(|(_, state)| !state.is_null()).collect();
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

/// Takes back what [`save`] gave. Errors: data, when the state is that of other rewards.
pub fn load(rewards: &mut [WeightedReward], state: Value) -> Result<()> {
    let mut kept = match state {
        Value::Null => Map::new(),
        Value::Object(kept) => kept,
        _ => return Err(Error::data("the saved state of the rewards is no map")),
    };
    for (place, r) in rewards.iter_mut().enumerate() {
        let own = kept.remove(&place.to_string()).unwrap_or_default();
        r.reward.load(own).at(format!("rewards[{place}]"))?;
    }
    match kept.keys().next() {
        None => Ok(()),
        Some(place) => Err(Error::data(format!(
            "the checkpoint holds state for rewards[{place}], but there are {}",
            rewards.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::family;
    use trainyard_tables::StopReason;

    fn build(list: &[Value]) -> Result<Vec<WeightedReward>> {
        RewardList::read(&family(), &mut json!(list)).build()
    }
    fn complete(entry: &Value) -> Value {
        let mut list = json!([entry]);
        RewardList::read(&family(), &mut list);
        list[0].take()
    }
    /// Of one entry; pointers are relative to it.
    fn check(entry: &Value) -> Vec<OptionProblem> {
        let mut problems = RewardList::read(&family(), &mut json!([entry])).problems();
        problems.iter_mut().for_each(|p| p.pointer = p.pointer.trim_start_matches("/0").to_string());
        problems
    }

    #[test]
    fn names_are_sorted_and_every_entry_completes_and_builds() {
        let names = family().names();
        assert!(names.is_sorted());
        assert!(family().members().iter().all(|kind| !kind.summary.is_empty() && !kind.doc.is_empty()));
        for name in names {
            let whole = complete(&json!({"kind": name}));
            assert_eq!(complete(&whole), whole);
            assert_eq!(complete(&json!(name)), whole, "a bare name is the default");
            assert_eq!(whole["weight"], json!(1.0));
            assert_eq!(build(std::slice::from_ref(&whole)).unwrap()[0].component, name);
            assert_eq!(check(&whole), []);
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
    fn a_value_that_is_not_a_list_is_refused() {
        let one = RewardList::read(&family(), &mut json!("answer"));
        assert_eq!(one.problems()[0].pointer, "");
        assert!(one.build().is_err());
    }

    #[test]
    fn an_empty_list_is_refused() {
        let none = RewardList::read(&family(), &mut json!([]));
        assert_eq!(none.problems().len(), 1);
        assert!(none.problems()[0].message.contains("nothing is learned"));
    }

    #[test]
    fn the_sum_is_weighted_and_components_are_kept() {
        let rewards = build(&[json!({"kind": "answer"}), json!({"kind": "format", "weight": 0.5})]).unwrap();
        let p = Problem { answer: "7".to_string(), ..Problem::default() };
        let message = trainyard_tables::Message::new("assistant", "7");
        let r = Trajectory {
            answer: Some("7".to_string()),
            stop_reason: StopReason::Answer,
            messages: vec![message],
            ..Trajectory::default()
        };
        let total = score(&rewards, &r, &p, &GroupView::alone(&[&r], &[true]));
        assert_eq!(total.components, BTreeMap::from([("answer".to_string(), 1.0), ("format".to_string(), 1.0)]));
        assert_eq!(total.value, 1.5);
        assert_eq!(total.per_turn, [0.5]);
    }

    #[test]
    fn an_infrastructure_failure_has_no_reward_of_any_kind() {
        let all: Vec<Value> = family().names().into_iter().map(Value::from).collect();
        let rewards = build(&all).unwrap();
        let p = Problem { answer: "7".to_string(), reference: Some("7".to_string()), ..Problem::default() };
        let messages = vec![trainyard_tables::Message::new("assistant", "7")];
        let answered = Trajectory { answer: Some("7".to_string()), tool_calls: 1, messages, ..Trajectory::default() };
        let of = |r: &Trajectory| score(&rewards, r, &p, &GroupView::alone(&[r], &[true]));
        assert!(of(&answered).components.len() > 5, "nearly all apply to the same episode if it came to its end");
        assert_eq!(of(&Trajectory { status: Status::Infrastructure, ..answered }), Total::default());
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
        let total = score(&list(), &r, &p, &GroupView::alone(&[&r], &[true]));
        assert_eq!(total.components.keys().collect::<Vec<_>>(), ["answer", "tool_efficiency", "tool_efficiency_2"]);
    }

    fn group(rewards: &mut [WeightedReward], calls: &[u32]) -> Vec<f64> {
        let p = Problem { id: "p".to_string(), ..Problem::default() };
        let rows: Vec<Trajectory> =
            calls.iter().map(|n| Trajectory { tool_calls: *n, ..Trajectory::default() }).collect();
        let members: Vec<&Trajectory> = rows.iter().collect();
        let correct = vec![true; rows.len()];
        let g = GroupView { step: 0, steps: 1, members: &members, correct: &correct };
        score_group(rewards, &p, &g).into_iter().map(|t| t.value).collect()
    }

    #[test]
    fn a_group_is_observed_before_any_member_is_scored() {
        // The first member is measured by the second: n = 1, sin(2π/3).
        let values = group(&mut list(), &[2, 1]);
        assert!((values[0] - (1.0 + 1.5 * 0.75_f64.sqrt())).abs() < 1e-12);
        assert!((values[1] - 2.5).abs() < 1e-12);
    }

    #[test]
    fn state_is_kept_by_place() {
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
}
