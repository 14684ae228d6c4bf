//! Merges a config over a named composition, and reads the resulting parts.
//!
//! A workflow contains only the differences from a published method, and these are merged over the method's options
//! ([`merge`]). The expansion removes the name, so two spellings of one method have the same digest.

use crate::corrections::Correction;
use crate::merge::merge;
use crate::part::{Advantage, Curriculum, Filter, LossTerm, Modulation, Replay, Strategy};
use crate::{LearnParts, compositions, mechanism};
use serde_json::{Value, json};
use trainyard_api::Slot;
use trainyard_core::{Error, OptionProblem, Result};

/// Expands the keys `algorithm` and `mechanism` of the options of `rl`. Parts are not parsed, so their defaults are not
/// filled in.
///
/// Errors: invalid, if the config is not a map or one of the two keys is invalid.
pub fn resolve_algorithm(parts: &LearnParts, config: Value) -> Result<Value> {
    let Value::Object(mut config) = config else { return Err(Error::invalid("the options of `rl` must be a map")) };
    let mut mechanism = mechanism::take(&mut config)?;
    let algorithm = config.remove("algorithm");
    let name = match mechanism.as_mut().and_then(|with| with.remove("algorithm")).or(algorithm) {
        Some(Value::String(name)) => name,
        Some(other) => return Err(Error::invalid(format!("`algorithm` must be a name, found {other}"))),
        None => compositions::DEFAULT.to_string(),
    };
    let base = *parts.algorithms.build(&Value::String(name), &())?;
    let arm = merge(base, Value::Object(config));
    // The mechanism is merged over the whole arm, so that another `kind` discards the options of both the composition
    // and the config.
    Ok(match mechanism {
        Some(with) => merge(arm, Value::Object(with)),
        None => arm,
    })
}

/// Expands like [`resolve_algorithm`], and fills in every part's defaults. A part that does not exist or does not parse
/// stays unchanged.
pub fn expand(parts: &LearnParts, config: Value) -> Result<Value> {
    let mut config = resolve_algorithm(parts, config)?;
    ComposedParts::read(parts, &mut config);
    Ok(config)
}

/// Parts of a config, each parsed once. Fields are named by their key in the config.
pub struct ComposedParts {
    /// `curriculum`: order of the problems.
    pub curriculum: Slot<dyn Curriculum>,
    /// `rollout.strategy`: sequences to sample and to keep.
    pub strategy: Slot<dyn Strategy>,
    /// `filters`, in the order in which they are applied.
    pub filters: Vec<Slot<dyn Filter>>,
    /// `advantage`, without its list of modulations.
    pub advantage: Slot<dyn Advantage>,
    /// `advantage.modulations`, in the order in which they are applied.
    pub modulations: Vec<Slot<dyn Modulation>>,
    /// `replay`: earlier rollouts in the update.
    pub replay: Slot<dyn Replay>,
    /// `loss.correction`: importance weights for foreign samples.
    pub correction: Slot<dyn Correction>,
    /// `loss.terms`, whose losses add up.
    pub terms: Vec<Slot<dyn LossTerm>>,
    /// Value of `advantage.modulations`, if it is not a list.
    not_a_list: Option<Value>,
}

impl ComposedParts {
    /// Reads the parts of a config that [`resolve_algorithm`] returned, and fills in their defaults in place.
    pub fn read(parts: &LearnParts, config: &mut Value) -> Self {
        let (advantage, modulations, not_a_list) = read_advantage(parts, config.get_mut("advantage"));
        Self {
            curriculum: Slot::read_at(&parts.curricula, "/curriculum", config),
            strategy: Slot::read_at(&parts.strategies, "/rollout/strategy", config),
            filters: Slot::read_all(&parts.filters, "/filters", config.get_mut("filters")),
            advantage,
            modulations,
            replay: Slot::read_at(&parts.replay, "/replay", config),
            correction: Slot::read_at(&parts.corrections, "/loss/correction", config),
            terms: Slot::read_all(&parts.losses, "/loss/terms", config.pointer_mut("/loss/terms")),
            not_a_list,
        }
    }
    /// Returns problems with the options of each part, at their pointers into the config.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.curriculum.problems();
        problems.extend(self.strategy.problems());
        problems.extend(self.filters.iter().flat_map(Slot::problems));
        problems.extend(self.advantage.problems());
        if let Some(other) = &self.not_a_list {
            problems.push(
                OptionProblem::new("/advantage/modulations", format!("{other} is not a list"))
                    .help("write for example [{kind: whiten}]"),
            );
        }
        problems.extend(self.modulations.iter().flat_map(Slot::problems));
        problems.extend(self.replay.problems());
        problems.extend(self.correction.problems());
        problems.extend(self.terms.iter().flat_map(Slot::problems));
        problems
    }
}

type ReadAdvantage = (Slot<dyn Advantage>, Vec<Slot<dyn Modulation>>, Option<Value>);

/// Reads `advantage`, whose map holds the list of modulations in addition to the options of the part. Defaults are
/// filled in for both or, if the part cannot be read, for neither.
fn read_advantage(parts: &LearnParts, options: Option<&mut Value>) -> ReadAdvantage {
    let mut missing = Value::Null;
    let options = options.unwrap_or(&mut missing);
    let mut part = options.clone();
    let mut list = part.as_object_mut().and_then(|map| map.remove("modulations")).unwrap_or_else(|| json!([]));
    let advantage = Slot::read(&parts.advantages, "/advantage", &mut part);
    let modulations = Slot::read_all(&parts.modulations, "/advantage/modulations", Some(&mut list));
    let not_a_list = (!list.is_array()).then(|| list.clone());
    if advantage.is_read() {
        part["modulations"] = list;
        *options = part;
    }
    (advantage, modulations, not_a_list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(config: Value) -> Result<Value> {
        super::expand(&LearnParts::standard(), config)
    }

    #[test]
    fn expansion_is_complete_and_idempotent() {
        for name in LearnParts::standard().algorithms.names() {
            let once = expand(json!({"algorithm": name, "steps": 3})).unwrap();
            assert!(once.get("algorithm").is_none());
            assert_eq!(once["curriculum"]["promote_at"], json!(0.7));
            assert_eq!(expand(once.clone()).unwrap(), once, "{}", name);
        }
    }

    #[test]
    fn two_spellings_of_one_method_are_equal() {
        let spelled =
            expand(json!({"algorithm": "grpo", "advantage": {"center": "leave_one_out", "scale": "none"}})).unwrap();
        assert_eq!(spelled, expand(json!({"algorithm": "rloo"})).unwrap());
    }

    #[test]
    fn unknown_algorithm_error_lists_valid_names() {
        let e = expand(json!({"algorithm": "gpro"})).unwrap_err();
        assert!(e.to_string().contains("gpro") && e.to_string().contains("dr_grpo"), "{e}");
    }

    #[test]
    fn invalid_part_is_unchanged_and_the_others_are_completed() {
        let wrong = json!({"kind": "clip", "clip_hgh": 1});
        let advantage = json!({"kind": "grup", "modulations": ["whiten"]});
        let given =
            json!({"loss": {"terms": [wrong, "cispo"]}, "filters": ["voidturn"], "advantage": advantage, "replay": 3});
        let full = expand(given).unwrap();
        assert_eq!((&full["loss"]["terms"][0], &full["loss"]["terms"][1]["clip_high"]), (&wrong, &json!(0.28)));
        assert_eq!(
            (&full["filters"], &full["advantage"], &full["replay"]),
            (&json!(["voidturn"]), &advantage, &json!(3))
        );
        assert_eq!(full["curriculum"]["promote_at"], json!(0.7));
    }
}
