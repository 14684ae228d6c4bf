//! Reads the list `rewards` of a stage, computes the weighted sum, and keeps the state of rewards across steps.

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
    /// Whether the scores of a group are permuted at random among its rollouts, as a placebo.
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

/// Rewards of a config, each parsed once.
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
    /// Reads the list and writes weights and defaults back into it. Entries that do not parse remain unchanged, for
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
            Some("the list of rewards is empty, so all episodes score the same and nothing is learned")
        } else {
            None
        };
        let list = list.map(|message| OptionProblem::new("", message).help("write for example [{kind: answer}]"));
        let entry_problems = |(i, entry): (usize, &RewardEntry)| {
            let pointer = format!("/{i}");
            entry.problems().into_iter().map(move |problem| problem.with_prefix(&pointer))
        };
        list.into_iter().chain(self.entries.iter().enumerate().flat_map(entry_problems)).collect()
    }
    /// Returns the names of the rewards in records: their `name` or kind, numbered from the second on (`answer_2`).
    pub fn components(&self) -> Vec<String> {
        prefixes(self.entries.iter().map(RewardEntry::name))
    }
    /// Returns the metrics that the rewards report in addition to their values: `rewards.process.exceptions`.
    pub fn declared(&self) -> Vec<MetricInfo> {
        let entry_metrics = |(entry, component): (&RewardEntry, String)| {
            let metrics = entry.reward.as_ref().map(ParsedPart::metrics).unwrap_or_default();
            metrics.iter().map(|metric| metric.clone().prefixed(&format!("rewards.{component}"))).collect::<Vec<_>>()
        };
        self.entries.iter().zip(self.components()).flat_map(entry_metrics).collect()
    }
    /// Builds the rewards in their initial states. Errors: invalid, with the index in the list.
    pub fn build(&self) -> Result<Vec<WeightedReward>> {
        if self.not_a_list {
            return Err(Error::invalid("`rewards` must be a list"));
        }
        let build = |(i, (entry, component)): (usize, (&RewardEntry, String))| {
            entry.build(component).at(format!("rewards[{i}]"))
        };
        self.entries.iter().zip(self.components()).enumerate().map(build).collect()
    }
}

impl RewardEntry {
    fn read(family: &Family<dyn Reward>, options: &mut Value) -> Self {
        let mut reward_options = options.clone();
        let weight = match reward_options.as_object_mut().and_then(|map| map.remove("weight")) {
            None => Ok(1.0),
            Some(value) => value.as_f64().ok_or_else(|| {
                OptionProblem::new("/weight", "the weight of a reward must be a number").help("write for example 0.5")
            }),
        };
        let by_chance = match reward_options.as_object_mut().and_then(|map| map.remove("by_chance")) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| {
                OptionProblem::new("/by_chance", format!("`by_chance` must be true or false, found {value}"))
            }),
        };
        let reward = family.read(&reward_options);
        if let (Ok(weight), Ok(by_chance), Ok(reward)) = (&weight, &by_chance, &reward)
            && let Ok(mut complete) = reward.complete()
        {
            complete["weight"] = json!(weight);
            if *by_chance {
                complete["by_chance"] = json!(true);
            }
            *options = complete;
        }
        let name = reward_options.get("name").and_then(Value::as_str).unwrap_or_default().to_string();
        Self { weight, by_chance, name, reward }
    }
    fn name(&self) -> &str {
        let kind = self.reward.as_ref().map(ParsedPart::kind).unwrap_or_default();
        if self.name.is_empty() { kind } else { &self.name }
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let reward = self.reward.as_ref().map_or_else(|problem| vec![problem.clone()], ParsedPart::problems);
        let entry_problems = self.weight.as_ref().err().into_iter().chain(self.by_chance.as_ref().err());
        entry_problems.cloned().chain(reward).collect()
    }
    fn build(&self, component: String) -> Result<WeightedReward> {
        let invalid = |problem: &OptionProblem| {
            problem.help.clone().into_iter().fold(Error::invalid(problem.message.clone()), Error::help)
        };
        let weight = *self.weight.as_ref().map_err(invalid)?;
        let by_chance = *self.by_chance.as_ref().map_err(invalid)?;
        let reward = self.reward.as_ref().map_err(invalid)?.build(&())?;
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

/// The reward of one episode. No field contains components that do not apply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RewardTotal {
    /// Every component by name, before its weight.
    pub components: BTreeMap<String, f64>,
    /// Weighted sum of the components.
    pub value: f64,
    /// The weighted sum per agent turn; empty if no component scores turns.
    pub per_turn: Vec<f64>,
}

/// Scores the groups of a step; each reward scores all groups in one call. Every reward observes a group before it
/// scores the members, and the groups in order.
///
/// Errors: those of the rewards, with the name of the component.
pub fn score_groups(rewards: &mut [WeightedReward], groups: &[ScoringGroup<'_>]) -> Result<Vec<Vec<RewardTotal>>> {
    let mut totals: Vec<Vec<RewardTotal>> =
        groups.iter().map(|s| vec![RewardTotal::default(); s.group.members.len()]).collect();
    for weighted in rewards {
        let earlier: Vec<Vec<BTreeMap<String, f64>>> =
            totals.iter().map(|group| group.iter().map(|total| total.components.clone()).collect()).collect();
        let seen: Vec<ScoringGroup<'_>> = groups
            .iter()
            .zip(&earlier)
            .map(|(scored_group, earlier)| ScoringGroup {
                group: GroupView { earlier, ..scored_group.group },
                ..*scored_group
            })
            .collect();
        let place = weighted.place();
        // Errors of programs already contain the reward's name.
        let with_name = |e: Error| if e.message.starts_with("reward `") { e } else { e.at(place) };
        let mut scores = weighted.reward.score_all(&seen).map_err(with_name)?;
        if weighted.by_chance {
            scores.iter_mut().zip(groups).for_each(|(scores, scored_group)| permute(scores, scored_group));
        }
        for ((totals, scores), scored_group) in totals.iter_mut().zip(&scores).zip(groups) {
            // Infrastructure failures get no score.
            let scored = totals.iter_mut().zip(scores).zip(scored_group.group.members);
            let eligible = scored.filter(|(_, member)| member.status != EpisodeStatus::Infrastructure);
            eligible.for_each(|((total, score), _)| total.add(weighted, score));
        }
    }
    Ok(totals)
}

/// Permutes the scores of a group at random among the rollouts that are no infrastructure failures. The id of the first
/// one determines the draw.
fn permute(scores: &mut [Score], group: &ScoringGroup<'_>) {
    let members = group.group.members;
    let eligible: Vec<usize> =
        (0..members.len()).filter(|&i| members[i].status != EpisodeStatus::Infrastructure).collect();
    let Some(&first) = eligible.first() else { return };
    let mut order = eligible.clone();
    Chance::new(0).child("rewards by chance", &[]).at(&members[first].id, &[]).shuffle(&mut order);
    let drawn: Vec<Score> = order.iter().map(|&i| scores[i].clone()).collect();
    eligible.into_iter().zip(drawn).for_each(|(i, score)| scores[i] = score);
}

/// Returns the name in records of a metric that a reward reports.
pub fn metric_name(component: &str, name: &str) -> String {
    format!("rewards.{component}.{name}")
}

/// Returns the state of the rewards, by index in the list; null if all are stateless.
pub fn save(rewards: &[WeightedReward]) -> Value {
    let states = rewards.iter().enumerate().map(|(index, r)| (index.to_string(), r.reward.save()));
    let saved: Map<String, Value> = states.filter(|(_, state)| !state.is_null()).collect();
    if saved.is_empty() { Value::Null } else { Value::Object(saved) }
}

/// Restores the result of [`save`]. Errors: data, if the state is that of other rewards.
pub fn load(rewards: &mut [WeightedReward], state: Value) -> Result<()> {
    let mut saved = match state {
        Value::Null => Map::new(),
        Value::Object(saved) => saved,
        _ => return Err(Error::data("the saved state of the rewards is not a map")),
    };
    for (index, r) in rewards.iter_mut().enumerate() {
        let reward_state = saved.remove(&index.to_string()).unwrap_or_default();
        r.reward.load(reward_state).at(format!("rewards[{index}]"))?;
    }
    match saved.keys().next() {
        None => Ok(()),
        Some(index) => Err(Error::data(format!(
            "the checkpoint contains state for rewards[{index}], but the number of rewards is {}",
            rewards.len()
        ))),
    }
}

#[cfg(test)]
#[path = "weighted_tests.rs"]
mod tests;
