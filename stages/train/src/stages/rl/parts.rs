//! Holds the built parts of one composition: their combined needs, their contradictions, and their state in
//! checkpoints.

use super::config::RlConfig;
use serde_json::{Map, Value, json};
use trainyard_api::Slot;
use trainyard_api::family::prefixes;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_envs::Environment;
use trainyard_learn::compose::ComposedParts;
use trainyard_learn::corrections::Correction;
use trainyard_learn::{Advantage, Curriculum, Filter, LossTerm, Modulation, Needs, Replay, RlPart, Strategy};
use trainyard_lm::backend::{BackendFeatures, ForcedScoring};

/// Built parts: one of each kind, or a list in the order of the config.
pub struct RlParts {
    /// Curriculum, which chooses the problems of a step.
    pub curriculum: Box<dyn Curriculum>,
    /// Strategy, which chooses the sequences to sample for a problem, and those to keep.
    pub strategy: Box<dyn Strategy>,
    /// Filters, which choose the rollouts of the update; applied in order.
    pub filters: Vec<Box<dyn Filter>>,
    /// Advantage, which converts rewards to one number per token.
    pub advantage: Box<dyn Advantage>,
    /// Modulations, which change advantages; applied in order.
    pub modulations: Vec<Box<dyn Modulation>>,
    /// Replay, which adds earlier rollouts to the update.
    pub replay: Box<dyn Replay>,
    /// Importance weights for samples of other weights.
    pub correction: Box<dyn Correction>,
    /// Loss terms; their sum is minimized.
    pub terms: Vec<Box<dyn LossTerm>>,
    /// Prefixes of the parts' metrics.
    pub prefixes: MetricPrefixes,
}

/// Prefixes of the metrics of every part: its kind, with a number from the second part of a kind on.
pub struct MetricPrefixes {
    curriculum: String,
    strategy: String,
    advantage: String,
    modulations: Vec<String>,
    replay: String,
    /// Prefixes of the loss terms, in their order.
    pub terms: Vec<String>,
}

impl MetricPrefixes {
    fn of(composed: &ComposedParts) -> Self {
        Self {
            curriculum: composed.curriculum.kind().to_string(),
            strategy: composed.strategy.kind().to_string(),
            advantage: composed.advantage.kind().to_string(),
            modulations: prefixes(composed.modulations.iter().map(Slot::kind)),
            replay: composed.replay.kind().to_string(),
            terms: prefixes(composed.terms.iter().map(Slot::kind)),
        }
    }
}

impl RlParts {
    /// Builds new parts. Errors: invalid, naming the part and the option.
    pub fn build(composed: &ComposedParts) -> Result<Self> {
        Ok(Self {
            prefixes: MetricPrefixes::of(composed),
            curriculum: composed.curriculum.build(&())?,
            strategy: composed.strategy.build(&())?,
            filters: composed.filters.iter().map(|f| f.build(&())).collect::<Result<_>>()?,
            advantage: composed.advantage.build(&())?,
            modulations: composed.modulations.iter().map(|m| m.build(&())).collect::<Result<_>>()?,
            replay: composed.replay.build(&())?,
            correction: composed.correction.build(&())?,
            terms: composed.terms.iter().map(|t| t.build(&())).collect::<Result<_>>()?,
        })
    }

    /// Returns every part with its path in the config.
    fn each(&self) -> Vec<(String, &dyn RlPart)> {
        let mut list: Vec<(String, &dyn RlPart)> = vec![
            ("curriculum".into(), &*self.curriculum),
            ("rollout/strategy".into(), &*self.strategy),
            ("advantage".into(), &*self.advantage),
            ("replay".into(), &*self.replay),
            ("loss/correction".into(), &*self.correction),
        ];
        list.extend(self.filters.iter().enumerate().map(|(i, p)| (format!("filters/{i}"), &**p as &dyn RlPart)));
        list.extend(
            self.modulations
                .iter()
                .enumerate()
                .map(|(i, p)| (format!("advantage/modulations/{i}"), &**p as &dyn RlPart)),
        );
        list.extend(self.terms.iter().enumerate().map(|(i, p)| (format!("loss/terms/{i}"), &**p as &dyn RlPart)));
        list
    }
    fn each_mut(&mut self) -> Vec<(String, &mut dyn RlPart)> {
        let mut list: Vec<(String, &mut dyn RlPart)> = vec![
            ("curriculum".into(), &mut *self.curriculum),
            ("rollout/strategy".into(), &mut *self.strategy),
            ("advantage".into(), &mut *self.advantage),
            ("replay".into(), &mut *self.replay),
            ("loss/correction".into(), &mut *self.correction),
        ];
        list.extend(
            self.filters.iter_mut().enumerate().map(|(i, p)| (format!("filters/{i}"), &mut **p as &mut dyn RlPart)),
        );
        list.extend(
            self.modulations
                .iter_mut()
                .enumerate()
                .map(|(i, p)| (format!("advantage/modulations/{i}"), &mut **p as &mut dyn RlPart)),
        );
        list.extend(
            self.terms.iter_mut().enumerate().map(|(i, p)| (format!("loss/terms/{i}"), &mut **p as &mut dyn RlPart)),
        );
        list
    }

    /// Returns the parts' metrics of the last step.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        let under = |prefix: &str, list: Vec<(&'static str, f64)>| -> Vec<(String, f64)> {
            list.into_iter().map(|(name, value)| (format!("{prefix}.{name}"), value)).collect()
        };
        let names = &self.prefixes;
        let mut list = under(&names.curriculum, self.curriculum.metrics());
        list.extend(under(&names.strategy, self.strategy.metrics()));
        list.extend(under(&names.advantage, self.advantage.metrics()));
        let modulations = self.modulations.iter().zip(&names.modulations);
        list.extend(modulations.flat_map(|(part, prefix)| under(prefix, part.metrics())));
        list.extend(under(&names.replay, self.replay.metrics()));
        list
    }
    /// Returns the union of the parts' needs.
    pub fn needs(&self) -> Needs {
        self.each().iter().fold(Needs::NONE, |all, (_, p)| all.union(p.needs()))
    }
    /// Reports needs of parts that this stage, its environment, its options or the other parts do not meet. The pointer
    /// of each problem is that of the part.
    pub fn contradictions(
        &self,
        config: &RlConfig,
        environment: &dyn Environment,
        sampler: &BackendFeatures,
    ) -> Vec<OptionProblem> {
        let mut problems = self.unmet_needs(config, environment, sampler);
        if config.rollout.asynchronous.is_some() && !self.correction.recomputes() {
            problems.push(
                OptionProblem::new(
                    "/loss/correction",
                    "asynchronous rollouts come from older weights, but `loss.correction` is off",
                )
                .help("use {kind: truncated}, {kind: masked} or {kind: sequence}"),
            );
        }
        problems.extend(self.critic_mismatches());
        problems
    }
    fn unmet_needs(
        &self,
        config: &RlConfig,
        environment: &dyn Environment,
        sampler: &BackendFeatures,
    ) -> Vec<OptionProblem> {
        let in_turns = config.rollout.asynchronous.is_none();
        // A program cannot be started in the middle of an episode.
        let starts = environment.prompts();
        // Given tokens are scored by the sampler, under the distribution that rollouts are sampled from.
        let scores_given = match sampler.forced_scoring {
            ForcedScoring::Always => true,
            ForcedScoring::Plain => config.rollout.temperature == 1.0,
            ForcedScoring::Never => false,
        };
        let offered = Needs {
            entropies: true,
            rollout_entropies: sampler.entropies,
            reference: true,
            values: true,
            forced_scores: sampler.forced_scoring != ForcedScoring::Never,
            fork: in_turns && starts,
            multi_turn: environment.max_turns() > 1,
            groups: config.rollout.group_size > 1,
            all_groups: in_turns,
            demonstrations: scores_given,
            altered_start: in_turns && scores_given && starts,
            step_scores: false,
        };
        let help = |need: &str| match need {
            "fork" | "altered_start" if !starts => "leave this part out: episodes of a program begin at its beginning",
            "groups" => "set `rollout.group_size` to at least 2",
            "fork" => "leave `rollout.asynchronous` out: groups that fork synchronize after every turn",
            "rollout_entropies" => "leave `rollout.backend` out: it gives no entropies",
            "forced_scores" => "leave `rollout.backend` out: it cannot score given tokens",
            "demonstrations" | "altered_start" if !scores_given => {
                "leave `rollout.backend` out: it cannot score given tokens at this temperature"
            }
            "altered_start" => "leave `rollout.asynchronous` out: its record does not store how an episode began",
            "all_groups" => {
                "leave this part or `rollout.asynchronous` out: asynchronous groups are filtered one by one"
            }
            "multi_turn" => "set `environment.max_turns` to at least 2",
            _ => "this stage does not support it: choose another part",
        };
        let of = |(at, part): (String, &dyn RlPart)| -> Vec<OptionProblem> {
            let missing = part.needs().missing(offered);
            missing
                .into_iter()
                .map(|need| OptionProblem::new(format!("/{at}"), format!("this part needs `{need}`")).help(help(need)))
                .collect()
        };
        self.each().into_iter().flat_map(of).collect()
    }
    /// Reports an advantage that reads values which no loss term trains, and trained values that no part reads.
    fn critic_mismatches(&self) -> Vec<OptionProblem> {
        let valued: Vec<usize> =
            self.terms.iter().enumerate().filter(|(_, t)| t.needs().values).map(|(i, _)| i).collect();
        match (self.advantage.needs().values, valued.is_empty()) {
            (true, true) => vec![
                OptionProblem::new("/advantage", "this part needs values, but no loss term trains the value model")
                    .help("add {kind: value} to `loss.terms`"),
            ],
            (false, false) => {
                let unused = |i: usize| {
                    OptionProblem::new(
                        format!("/loss/terms/{i}"),
                        "this term needs returns, but the advantage gives none",
                    )
                    .help("use advantage {kind: gae}")
                };
                valued.into_iter().map(unused).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the state of every stateful part, by its path in the config.
    pub fn save(&self) -> Value {
        let states: Map<String, Value> =
            self.each().into_iter().map(|(at, p)| (at, p.save())).filter(|(_, s)| !s.is_null()).collect();
        Value::Object(states)
    }
    /// Restores the state returned by [`RlParts::save`]. Errors: data, naming the part whose state does not fit.
    pub fn load(&mut self, state: &Value) -> Result<()> {
        let states = state.as_object().ok_or_else(|| Error::data("the part states of the checkpoint are not a map"))?;
        for (at, part) in self.each_mut() {
            part.load(states.get(&at).cloned().unwrap_or(json!(null))).at(&at)?;
        }
        Ok(())
    }
}
