//! List `rewards` of a stage: rewards, weights, the weighted sum, and state kept across steps.

use crate::rewards::{GroupView, Reward, Score, ScoringGroup};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trainyard_api::family::prefixes;
use trainyard_api::{Family, ParsedPart};
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Error, MetricInfo, OptionProblem, Result};
use trainyard_tables::EpisodeStatus;

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
    entries: Vec<RewardEntry>,
    /// Whether the value was not a list.
    not_a_list: bool,
}

struct RewardEntry {
    weight: Result<f64, OptionProblem>,
    by_chance: Result<bool, OptionProblem>,
    /// Option `name`, or empty.
    name: String,
    reward: Result<ParsedPart<dyn Reward>, OptionProblem>,
}

impl RewardList {
    /// Reads the list and fills in weights and defaults there. Entries that do not parse remain unchanged, for
    /// [`RewardList::problems`].
    pub fn read(family: &Family<dyn Reward>, list: &mut Value) -> Self {
        let not_a_list = !list.is_array();
        let entries =
            list.as_array_mut().into_iter().flatten().map(|options| RewardEntry::read(family, options)).collect();
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
        let of = |(i, entry): (usize, &RewardEntry)| {
            let place = format!("/{i}");
            entry.problems().into_iter().map(move |problem| problem.with_prefix(&place))
        };
        list.into_iter().chain(self.entries.iter().enumerate().flat_map(of)).collect()
    }
    /// Returns the names of the rewards in records: their `name` or kind, numbered from the second on (`answer_2`).
    pub fn components(&self) -> Vec<String> {
        prefixes(self.entries.iter().map(RewardEntry::name))
    }
    /// Returns the metrics that the rewards report in addition to their values: `rewards.process.exceptions`.
    pub fn declared(&self) -> Vec<MetricInfo> {
        let of = |(entry, component): (&RewardEntry, String)| {
            let metrics = entry.reward.as_ref().map(ParsedPart::metrics).unwrap_or_default();
            metrics.iter().map(|metric| metric.clone().prefixed(&format!("rewards.{component}"))).collect::<Vec<_>>()
        };
        self.entries.iter().zip(self.components()).flat_map(of).collect()
    }
    /// Builds fresh rewards. Errors: invalid, with the place in the list.
    pub fn build(&self) -> Result<Vec<WeightedReward>> {
        if self.not_a_list {
            return Err(Error::invalid("`rewards` must be a list"));
        }
        let one = |(i, (entry, component)): (usize, (&RewardEntry, String))| {
            entry.build(component).at(format!("rewards[{i}]"))
        };
        self.entries.iter().zip(self.components()).enumerate().map(one).collect()
    }
}

impl RewardEntry {
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
        let kind = self.reward.as_ref().map(ParsedPart::kind).unwrap_or_default();
        if self.name.is_empty() { kind } else { &self.name }
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let reward = self.reward.as_ref().map_or_else(|problem| vec![problem.clone()], ParsedPart::problems);
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

impl RewardTotal {
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
pub struct RewardTotal {
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
pub fn score_groups(rewards: &mut [WeightedReward], scenes: &[ScoringGroup<'_>]) -> Result<Vec<Vec<RewardTotal>>> {
    let mut totals: Vec<Vec<RewardTotal>> =
        scenes.iter().map(|s| vec![RewardTotal::default(); s.group.members.len()]).collect();
    for weighted in rewards {
        let earlier: Vec<Vec<BTreeMap<String, f64>>> =
            totals.iter().map(|group| group.iter().map(|total| total.components.clone()).collect()).collect();
        let seen: Vec<ScoringGroup<'_>> = scenes
            .iter()
            .zip(&earlier)
            .map(|(scene, earlier)| ScoringGroup { group: GroupView { earlier, ..scene.group }, ..*scene })
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
            let fair = scored.filter(|(_, member)| member.status != EpisodeStatus::Infrastructure);
            fair.for_each(|((total, score), _)| total.add(weighted, score));
        }
    }
    Ok(totals)
}

/// Permutes the scores of a group among the rollouts that infrastructure did not break; their ids name the draw.
fn permute(scores: &mut [Score], scene: &ScoringGroup<'_>) {
    let members = scene.group.members;
    let fair: Vec<usize> = (0..members.len()).filter(|&i| members[i].status != EpisodeStatus::Infrastructure).collect();
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
#[path = "weighted_tests.rs"]
mod tests;
