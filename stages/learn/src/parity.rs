//! Compares formulas with stored vectors, and returns the largest error of each case. Agreement with another
//! implementation in float64, gradients included, is the strongest evidence that a formula is the published one.
//!
//! A file is `{cases: [{kind, name, inputs, config, expected}]}` with all lists `[sequence][token]`. Per-token values
//! are compared where `mask` is 1, `kl` everywhere. Cases of parts that this build lacks are reported as not covered.

use crate::advantages::discounted_return::returns;
use crate::advantages::group::{AdvantageScale, Center};
use crate::advantages::{gae::Gae, group::GroupAdvantage, opo::Opo};
use crate::aggregate::Aggregate;
use crate::batch::{Batch, Group, LossBatch, Rollout, TokenGrid};
use crate::losses::kl::Estimator;
use crate::losses::{cispo::Cispo, clip::Clip, geo_mean::GeoMean, gspo::Gspo, value::ValueLoss};
use crate::modulations::whiten::Whiten;
use crate::part::{Advantage, LossTerm, Modulation};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};
use trainyard_tables::Trajectory;

/// Largest relative or absolute error of a case that agrees.
pub const TOLERANCE: f64 = 1e-9;

/// Result of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParityCase {
    /// Position in the file, from 0.
    pub index: usize,
    /// `advantage`, `loss`, `kl` or `value`.
    pub kind: String,
    /// Name of the formula in the file.
    pub name: String,
    /// Largest error over all expected values, each the smaller of relative and absolute error. `None` = not covered by
    /// this build.
    pub largest_error: Option<f64>,
}

impl ParityCase {
    /// Returns whether the case is covered and within [`TOLERANCE`].
    pub fn agrees(&self) -> bool {
        self.largest_error.is_some_and(|e| e <= TOLERANCE)
    }
}

/// Recomputes every case of a file's text. Errors: data, if the file is not in this format.
pub fn check(text: &str) -> Result<Vec<ParityCase>> {
    let file: Value = serde_json::from_str(text).map_err(|e| Error::data(format!("not a JSON file: {e}")))?;
    let cases = file["cases"].as_array().ok_or_else(|| Error::data("the file lacks the list `cases`"))?;
    cases.iter().enumerate().map(|(i, case)| check_case(i, case).at(format!("case {i}"))).collect()
}

fn check_case(index: usize, case: &Value) -> Result<ParityCase> {
    let text =
        |key: &str| case[key].as_str().map(str::to_string).ok_or_else(|| Error::data(format!("`{key}` is missing")));
    let (kind, name) = (text("kind")?, text("name")?);
    let largest_error = match recompute(&kind, &name, case)? {
        None => None,
        Some(found) => Some(compare(&found, case, kind == "kl")?),
    };
    Ok(ParityCase { index, kind, name, largest_error })
}

type ComputedGrids = BTreeMap<&'static str, TokenGrid>;

fn recompute(kind: &str, name: &str, case: &Value) -> Result<Option<ComputedGrids>> {
    match kind {
        "advantage" => advantage(name, case),
        "loss" => loss(name, case),
        "kl" => kl(name, case),
        "value" => value(name, case),
        _ => Ok(None),
    }
}

fn advantage(name: &str, case: &Value) -> Result<Option<ComputedGrids>> {
    let group =
        GroupAdvantage { epsilon: case["config"]["epsilon"].as_f64().unwrap_or(1e-6), ..GroupAdvantage::default() };
    let group = |center, scale| -> Box<dyn Advantage> { Box::new(GroupAdvantage { center, scale, ..group.clone() }) };
    match name {
        "grpo" => grouped(group(Center::Group, AdvantageScale::Group), false, case),
        "dr_grpo" => grouped(group(Center::Group, AdvantageScale::None), false, case),
        "rloo" => grouped(group(Center::LeaveOneOut, AdvantageScale::None), false, case),
        "reinforce_plus_plus_baseline" => grouped(group(Center::Group, AdvantageScale::None), true, case),
        "opo" => grouped(Box::new(Opo {}), false, case),
        "reinforce_plus_plus" | "gae" => by_token(name, case),
        _ => return Ok(None),
    }
    .map(Some)
}

/// Computes the advantages of a form that takes one reward per rollout and its group. With `whiten`, whitens them.
fn grouped(mut part: Box<dyn Advantage>, whiten: bool, case: &Value) -> Result<ComputedGrids> {
    let (batch, order) = batch(case)?;
    let mut values = part.assign(&batch);
    if whiten {
        Whiten::default().apply(&batch, &mut values);
    }
    let mut rows = vec![Vec::new(); values.len()];
    for (row, place) in values.into_iter().zip(order) {
        rows[place] = row;
    }
    Ok(BTreeMap::from([("advantages", rows)]))
}

/// Computes the advantages of a form that takes one reward per token; both such forms are whitened.
fn by_token(name: &str, case: &Value) -> Result<ComputedGrids> {
    let number =
        |key: &str| case["config"][key].as_f64().ok_or_else(|| Error::data(format!("config `{key}` is missing")));
    let rewards = grid(&case["inputs"]["token_rewards"], "token_rewards")?;
    let masks = mask(case)?;
    let gamma = number("gamma")?;
    let (mut advantages, returns): (TokenGrid, TokenGrid) = if name == "gae" {
        let part = Gae { gamma, lambda: number("lam")? };
        let values = grid(&case["inputs"]["values"], "values")?;
        let rows = rewards.iter().zip(&values).zip(&masks);
        let found: TokenGrid = rows.map(|((r, v), m)| part.advantages(r, v, m)).collect();
        let sums = found.iter().zip(&values).map(|(a, v)| a.iter().zip(v).map(|(a, v)| a + v).collect()).collect();
        (found, sums)
    } else {
        let found: TokenGrid = rewards.iter().zip(&masks).map(|(r, m)| returns(r, m, gamma)).collect();
        (found.clone(), found)
    };
    let rollout = |mask: &Vec<bool>| Rollout { mask: mask.clone(), ..Rollout::default() };
    let batch =
        Batch { step: 0, groups: vec![Group { rollouts: masks.iter().map(rollout).collect(), ..Group::default() }] };
    Whiten::default().apply(&batch, &mut advantages);
    Ok(BTreeMap::from([("advantages", advantages), ("returns", returns)]))
}

/// Returns the rollouts of a case by group, and the file's row of each.
fn batch(case: &Value) -> Result<(Batch, Vec<usize>)> {
    let group: Vec<u64> = list(&case["inputs"]["group"], "group")?.iter().map(|g| *g as u64).collect();
    let rewards = list(&case["inputs"]["reward"], "reward")?;
    let mask = mask(case)?;
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (row, g) in group.iter().enumerate() {
        groups.entry(*g).or_default().push(row);
    }
    let rollout = |&row: &usize| Rollout {
        trajectory: Trajectory { reward: rewards[row], ..Trajectory::default() },
        mask: mask[row].clone(),
        ..Rollout::default()
    };
    let batch = Batch {
        step: 0,
        groups: groups
            .values()
            .map(|rows| Group { rollouts: rows.iter().map(rollout).collect(), ..Group::default() })
            .collect(),
    };
    Ok((batch, groups.into_values().flatten().collect()))
}

fn loss(name: &str, case: &Value) -> Result<Option<ComputedGrids>> {
    let (inputs, config) = (&case["inputs"], &case["config"]);
    let number = |key: &str| config[key].as_f64().ok_or_else(|| Error::data(format!("config `{key}` is missing")));
    let (clip_low, clip_high) = (number("clip_ratio_low")?, number("clip_ratio_high")?);
    let part: Box<dyn LossTerm> = match name {
        "clip" | "clip_importance_corrected" => {
            Box::new(Clip { clip_low, clip_high, dual_clip: config["clip_ratio_c"].as_f64() })
        }
        "gspo" => Box::new(Gspo { clip_low, clip_high }),
        "cispo" => Box::new(Cispo { clip_low, clip_high }),
        "geo_mean" => Box::new(GeoMean { clip_low, clip_high }),
        _ => return Ok(None),
    };
    let mask = mask(case)?;
    let correction = inputs.get("rollout_is_weights").map(|v| grid(v, "rollout_is_weights")).transpose()?;
    let batch = LossBatch {
        logprobs: grid(&inputs["logprobs"], "logprobs")?,
        old_logprobs: grid(&inputs["old_logprobs"], "old_logprobs")?,
        advantages: grid(&inputs["advantages"], "advantages")?,
        // The geometric mean is a mean over sequences, regardless of the aggregation that the file names.
        weights: if name == "geo_mean" { equal_sequences(&mask) } else { aggregate(config)?.weights(&mask, None) },
        correction,
        mask,
        ..LossBatch::default()
    };
    let term = part.value(&batch);
    Ok(Some(BTreeMap::from([("loss", vec![vec![term.loss]]), ("grad_logprobs", term.d_logprobs)])))
}

/// Returns weights that sum to 1/B for every sequence.
fn equal_sequences(mask: &[Vec<bool>]) -> TokenGrid {
    let count = |row: &Vec<bool>| row.iter().filter(|m| **m).count() as f64;
    mask.iter()
        .map(|row| row.iter().map(|&m| if m { 1.0 / (count(row) * mask.len() as f64) } else { 0.0 }).collect())
        .collect()
}

fn value(name: &str, case: &Value) -> Result<Option<ComputedGrids>> {
    if name != "clipped_value" {
        return Ok(None);
    }
    let of = |key: &str| grid(&case["inputs"][key], key);
    let clip = case["config"]["clip"].as_f64().ok_or_else(|| Error::data("config `clip` is missing"))?;
    let mask = mask(case)?;
    let tokens = mask.iter().flatten().filter(|m| **m).count() as f64;
    let predictions = of("value_predictions")?;
    let batch = LossBatch {
        logprobs: predictions.clone(),
        weights: Aggregate::TokenMean.weights(&mask, None),
        values: Some(predictions),
        old_values: Some(of("values")?),
        returns: Some(of("returns")?),
        mask,
        ..LossBatch::default()
    };
    let term = ValueLoss { weight: 1.0, clip }.value(&batch);
    let clipped = term.sums.iter().map(|(_, sum)| sum / tokens).collect();
    Ok(Some(BTreeMap::from([("loss", vec![vec![term.loss]]), ("clip_fraction", vec![clipped])])))
}

fn aggregate(config: &Value) -> Result<Aggregate> {
    match config["aggregation"].as_str() {
        Some("token-mean") => Ok(Aggregate::TokenMean),
        Some("seq-mean-token-sum") => Ok(Aggregate::SequenceMeanTokenSum),
        Some("seq-mean-token-mean") => Ok(Aggregate::SequenceMeanTokenMean),
        Some("seq-mean-token-sum-norm") => Ok(Aggregate::SequenceMeanTokenSumNorm),
        other => Err(Error::data(format!("unknown aggregation {other:?}"))),
    }
}

fn kl(name: &str, case: &Value) -> Result<Option<ComputedGrids>> {
    let estimator = match name {
        "kl" => Estimator::K1,
        "abs" => Estimator::Absolute,
        "mse" => Estimator::K2,
        "low_var_kl" => Estimator::K3,
        _ => return Ok(None),
    };
    let logprobs = grid(&case["inputs"]["logprobs"], "logprobs")?;
    let reference = grid(&case["inputs"]["ref_logprobs"], "ref_logprobs")?;
    let of = |pick: fn((f64, f64)) -> f64| -> TokenGrid {
        logprobs
            .iter()
            .zip(&reference)
            .map(|(a, b)| a.iter().zip(b).map(|(&a, &b)| pick(estimator.value(a, b))).collect())
            .collect()
    };
    Ok(Some(BTreeMap::from([("kl", of(|v| v.0)), ("grad_logprobs", of(|v| v.1))])))
}

/// Returns the largest error over all expected lists. With `everywhere`, masked tokens are compared as well. Errors:
/// data, if an expected list was not computed.
fn compare(found: &ComputedGrids, case: &Value, everywhere: bool) -> Result<f64> {
    let expected = case["expected"].as_object().ok_or_else(|| Error::data("`expected` is missing"))?;
    let mask = if everywhere { None } else { Some(mask(case)?) };
    let mut largest: f64 = 0.0;
    for (key, want) in expected {
        let have = found
            .get(key.as_str())
            .ok_or_else(|| Error::data(format!("`{key}` is expected, but no part computes it")))?;
        if let Some(number) = want.as_f64() {
            largest = largest.max(error(have[0][0], number));
            continue;
        }
        let want = grid(want, key)?;
        if want.len() != have.len() || want.iter().zip(have).any(|(w, h)| w.len() != h.len()) {
            return Err(Error::data(format!("`{key}` differs in shape from its inputs")));
        }
        for (i, (w, h)) in want.iter().zip(have).enumerate() {
            for t in 0..w.len() {
                if mask.as_ref().is_none_or(|m| m[i][t]) {
                    largest = largest.max(error(h[t], w[t]));
                }
            }
        }
    }
    Ok(largest)
}

fn error(have: f64, want: f64) -> f64 {
    let absolute = (have - want).abs();
    if absolute.is_nan() { f64::INFINITY } else { absolute.min(absolute / want.abs().max(f64::MIN_POSITIVE)) }
}

fn mask(case: &Value) -> Result<Vec<Vec<bool>>> {
    Ok(grid(&case["inputs"]["mask"], "mask")?.iter().map(|row| row.iter().map(|m| *m != 0.0).collect()).collect())
}

fn list(value: &Value, name: &str) -> Result<Vec<f64>> {
    let items = value.as_array().ok_or_else(|| Error::data(format!("`{name}` is not a list")))?;
    items.iter().map(|v| v.as_f64().ok_or_else(|| Error::data(format!("`{name}` must contain only numbers")))).collect()
}

fn grid(value: &Value, name: &str) -> Result<TokenGrid> {
    let rows = value.as_array().ok_or_else(|| Error::data(format!("`{name}` is not a list")))?;
    rows.iter().map(|row| list(row, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::path::Path;

    /// Compares a few rows each, computed from the papers' formulas outside of this crate.
    #[test]
    fn independently_computed_numbers_agree() {
        let cases = check(include_str!("parity_sample.json")).unwrap();
        assert_eq!(cases.len(), 9);
        for case in cases {
            assert!(case.agrees(), "{case:?}");
        }
    }

    /// Compares with another implementation's numbers, from the folder in `TRAINYARD_TEST_DATA`.
    #[test]
    fn stored_vectors_agree() {
        let Some(folder) = std::env::var_os("TRAINYARD_TEST_DATA") else {
            // Writes past the test harness, which hides the output of passing tests.
            let _ =
                writeln!(std::io::stderr(), "skipped: {}: TRAINYARD_TEST_DATA names no folder of real data", file!());
            return;
        };
        let cases = check(&std::fs::read_to_string(Path::new(&folder).join("goldens/rl_core.json")).unwrap()).unwrap();
        assert_eq!(cases.len(), 66);
        for case in cases {
            assert!(case.agrees(), "{case:?}");
        }
    }

    #[test]
    fn wrong_numbers_are_found_and_wrong_files_rejected() {
        let text = concat!(
            r#"{"cases": [{"kind": "kl", "name": "kl", "inputs": {"logprobs": [[-1.0]], "ref_logprobs": [[-1.5]]}, "#,
            r#""config": {}, "expected": {"kl": [[0.6]]}}]}"#,
        );
        assert!(!check(text).unwrap()[0].agrees());
        assert!(check("{}").is_err());
        assert!(check(r#"{"cases": [{"kind": "kl"}]}"#).is_err());
    }
}
