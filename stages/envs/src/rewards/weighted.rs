//! List `rewards` of a stage: rewards, weights, the weighted sum, and state kept across steps.

use crate::rewards::{GroupView, Reward, Scene, Score};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trainyard_api::family::prefixes;
use trainyard_api::{Chosen, Family};
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Error, Metric, OptionProblem, Result};
use trainyard_tables::Status;

/// A reward with its weight in the sum: the entry `{kind: format, weight: 0.1, …}` of a config.
pub struct WeightedReward {
    /// Name in records: the kind, numbered from the second reward of a kind on (`answer_2`).
    pub component: String,
    /// Factor in the sum.
    pub weight: f64,
    /// Placebo: the scores of a group are permuted among its rollouts by chance.
    pub by_chance: bool,
    pub reward: Box<dyn Reward>,
}

/// Returns the JSON Schema of a list of rewards, each with an optional weight.
pub fn schema(family: &Family<dyn Reward>) -> Value {
    let mut entry = family.schema();
    for branch in entry["oneOf"].as_array_mut().into_iter().flatten().filter(|branch| branch["properties"].is_object())
    {
        branch["properties"]["weight"] =
            json!({ "type": "number", "default": 1.0, "description": "Factor in the sum." });
        branch["properties"]["by_chance"] = json!({
            "type": "boolean",
            "default": false,
            "description": "Placebo: the scores of a group are permuted among its rollouts by chance.",
        });
    }
    json!({ "type": "array", "items": entry })
}

/// The rewards that a config names, each parsed once.
pub struct RewardList {
    entries: Vec<Entry>,
    /// Whether the value was not a list.
    not_a_list: bool,
}

struct Entry {
    weight: Result<f64, OptionProblem>,
    by_chance: Result<bool, OptionProblem>,
    /// Option `name`, or empty.
    name: String,
    reward: Result<Chosen<dyn Reward>, OptionProblem>,
}

impl RewardList {
    /// Reads the list and fills in weights and defaults there. Entries that do not parse remain unchanged, for
    /// [`RewardList::problems`].
    pub fn read(family: &Family<dyn Reward>, list: &mut Value) -> Self {
        let not_a_list = !list.is_array();
        let entries = list.as_array_mut().into_iter().flatten().map(|options| Entry::read(family, options)).collect();
        Self { entries, not_a_list }
    }
    /// Returns all problems; pointers are relative to the list.
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
    /// Returns the names of the rewards in records: their `name` or kind, numbered from the second on (`answer_2`).
    pub fn components(&self) -> Vec<String> {
        prefixes(self.entries.iter().map(Entry::name))
    }
    /// Returns the metrics that the rewards report in addition to their values: `rewards.process.exceptions`.
    pub fn declared(&self) -> Vec<Metric> {
        let of = |(entry, component): (&Entry, String)| {
            let metrics = entry.reward.as_ref().map(Chosen::metrics).unwrap_or_default();
            metrics.iter().map(|metric| metric.clone().of(&format!("rewards.{component}"))).collect::<Vec<_>>()
        };
        self.entries.iter().zip(self.components()).flat_map(of).collect()
    }
    /// Builds fresh rewards. Errors: invalid, with the place in the list.
    pub fn build(&self) -> Result<Vec<WeightedReward>> {
        if self.not_a_list {
            return Err(Error::invalid("`rewards` must be a list"));
        }
        let one =
            |(i, (entry, component)): (usize, (&Entry, String))| entry.build(component).at(format!("rewards[{i}]"));
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
        let by_chance = match own.as_object_mut().and_then(|map| map.remove("by_chance")) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| {
                OptionProblem::new("/by_chance", format!("`by_chance` must be true or false, found {value}"))
            }),
        };
        let reward = family.read(&own);
        if let (Ok(weight), Ok(by_chance), Ok(reward)) = (&weight, &by_chance, &reward)
            && let Ok(mut complete) = reward.complete()
        {
            complete["weight"] = json!(weight);
            if *by_chance {
                complete["by_chance"] = json!(true);
            }
            *options = complete;
        }
        let name = own.get("name").and_then(Value::as_str).unwrap_or_default().to_string();
        Self { weight, by_chance, name, reward }
    }
    fn name(&self) -> &str {
        let kind = self.reward.as_ref().map(Chosen::kind).unwrap_or_default();
        if self.name.is_empty() { kind } else { &self.name }
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let reward = self.reward.as_ref().map_or_else(|problem| vec![problem.clone()], Chosen::problems);
        let own = self.weight.as_ref().err().into_iter().chain(self.by_chance.as_ref().err());
        own.cloned().chain(reward).collect()
    }
    fn build(&self, component: String) -> Result<WeightedReward> {
        let refused = |problem: &OptionProblem| {
            problem.help.clone().into_iter().fold(Error::invalid(problem.message.clone()), Error::help)
        };
        let weight = *self.weight.as_ref().map_err(refused)?;
        let by_chance = *self.by_chance.as_ref().map_err(refused)?;
        let reward = self.reward.as_ref().map_err(refused)?.build(&())?;
        Ok(WeightedReward { component, weight, by_chance, reward })
    }
}

impl WeightedReward {
    fn place(&self) -> String {
        format!("reward `{}`", self.component)
    }
}

impl Total {
    fn add(&mut self, WeightedReward { component, weight, .. }: &WeightedReward, score: &Score) {
        if let Some(value) = score.value {
            self.components.insert(component.clone(), value);
            self.value += weight * value;
        }
        if self.per_turn.len() < score.per_turn.len() {
            self.per_turn.resize(score.per_turn.len(), 0.0);
        }
        for (sum, value) in self.per_turn.iter_mut().zip(&score.per_turn) {
            *sum += weight * value;
        }
    }
}

/// The reward of one episode. Components that do not apply are left out of all three.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Total {
    /// Every component by name, before its weight.
    pub components: BTreeMap<String, f64>,
    /// Weighted sum of the components.
    pub value: f64,
    /// The weighted sum per agent turn; empty if no component scores turns.
    pub per_turn: Vec<f64>,
}

/// Scores the groups of a step, each reward all of them at once. Every reward sees a group before it scores its
/// members, and the groups in order.
///
/// Errors: those of the rewards, with the name of the component.
pub fn score_groups(rewards: &mut [WeightedReward], scenes: &[Scene<'_>]) -> Result<Vec<Vec<Total>>> {
    let mut totals: Vec<Vec<Total>> = scenes.iter().map(|s| vec![Total::default(); s.group.members.len()]).collect();
    for weighted in rewards {
        let earlier: Vec<Vec<BTreeMap<String, f64>>> =
            totals.iter().map(|group| group.iter().map(|total| total.components.clone()).collect()).collect();
        let seen: Vec<Scene<'_>> = scenes
            .iter()
            .zip(&earlier)
            .map(|(scene, earlier)| Scene { group: GroupView { earlier, ..scene.group }, ..*scene })
            .collect();
        let place = weighted.place();
        // Errors of programs already contain the reward's name.
        let named = |e: Error| if e.message.starts_with("reward `") { e } else { e.at(place) };
        let mut scores = weighted.reward.score_all(&seen).map_err(named)?;
        if weighted.by_chance {
            scores.iter_mut().zip(scenes).for_each(|(scores, scene)| permute(scores, scene));
        }
        for ((totals, scores), scene) in totals.iter_mut().zip(&scores).zip(scenes) {
            // Episodes that the infrastructure broke get no score.
            let scored = totals.iter_mut().zip(scores).zip(scene.group.members);
            let fair = scored.filter(|(_, member)| member.status != Status::Infrastructure);
            fair.for_each(|((total, score), _)| total.add(weighted, score));
        }
    }
    Ok(totals)
}

/// Permutes the scores of a group among the rollouts that infrastructure did not break; their ids name the draw.
fn permute(scores: &mut [Score], scene: &Scene<'_>) {
    let members = scene.group.members;
    let fair: Vec<usize> = (0..members.len()).filter(|&i| members[i].status != Status::Infrastructure).collect();
    let Some(&first) = fair.first() else { return };
    let mut order = fair.clone();
    Chance::new(0).child("rewards by chance", &[]).at(&members[first].id, &[]).shuffle(&mut order);
    let drawn: Vec<Score> = order.iter().map(|&i| scores[i].clone()).collect();
    fair.into_iter().zip(drawn).for_each(|(i, score)| scores[i] = score);
}

/// Returns the name in records of a metric that a reward reports.
pub fn metric_name(component: &str, name: &str) -> String {
    format!("rewards.{component}.{name}")
}

/// Returns the state of the rewards, by their place in the list; null if all are stateless.
pub fn save(rewards: &[WeightedReward]) -> Value {
    let states = rewards.iter().enumerate().map(|(place, r)| (place.to_string(), r.reward.save()));
    let kept: Map<String, Value> = states.filter(|(_, state)| !state.is_null()).collect();
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

/// Restores the result of [`save`]. Errors: data, if the state is that of other rewards.
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
    fn least(kind: &str) -> Value {
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
            let whole = complete(&least(name));
            assert_eq!(complete(&whole), whole);
            assert_eq!(complete(&json!(name)), complete(&json!({"kind": name})), "a bare name is the default");
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
    fn by_chance_a_group_keeps_its_scores_and_its_rollouts_do_not() {
        let whole = complete(&json!({"kind": "answer", "by_chance": true}));
        assert_eq!(whole["by_chance"], json!(true));
        assert!(complete(&json!("answer")).get("by_chance").is_none());
        assert_eq!(check(&json!({"kind": "answer", "by_chance": 3}))[0].pointer, "/by_chance");
        let mut rewards = build(&[whole]).unwrap();
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
        let scene = Scene { problem: &p, group };
        let values: Vec<f64> = score_groups(&mut rewards, &[scene]).unwrap()[0].iter().map(|t| t.value).collect();
        assert_eq!(values.iter().sum::<f64>(), 8.0);
        assert!(values[..8].contains(&0.0), "{values:?}");
    }

    #[test]
    fn an_infrastructure_failure_has_no_reward_of_any_kind() {
        // A program or a judge would have to be opened.
        let kinds = family().names().into_iter().filter(|kind| !["http", "judged", "process"].contains(kind));
        let all: Vec<Value> = kinds.map(least).collect();
        let mut rewards = build(&all).unwrap();
        let p = Problem { answer: "7".to_string(), reference: Some("7".to_string()), ..Problem::default() };
        let messages = vec![trainyard_tables::Message::new("assistant", "7")];
        let answered = Trajectory { answer: Some("7".to_string()), tool_calls: 1, messages, ..Trajectory::default() };
        let mut of = |r: &Trajectory| score(&mut rewards, r, &p);
        assert!(of(&answered).components.len() > 5, "nearly all apply to the same episode if it came to its end");
        assert_eq!(of(&Trajectory { status: Status::Infrastructure, ..answered }), Total::default());
    }

    fn score(rewards: &mut [WeightedReward], r: &Trajectory, p: &Problem) -> Total {
        let members = [r];
        let scene = Scene { problem: p, group: GroupView::alone(&members, &[true]) };
        score_groups(rewards, &[scene]).unwrap().concat().remove(0)
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
        let rows: Vec<Trajectory> =
            calls.iter().map(|n| Trajectory { tool_calls: *n, ..Trajectory::default() }).collect();
        let members: Vec<&Trajectory> = rows.iter().collect();
        let correct = vec![true; rows.len()];
        let g = GroupView { step: 0, steps: 1, members: &members, correct: &correct, earlier: &[] };
        let scene = Scene { problem: &p, group: g };
        score_groups(rewards, &[scene]).unwrap().concat().into_iter().map(|t| t.value).collect()
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
