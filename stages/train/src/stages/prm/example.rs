//! Defines one rollout as input of the scoring head: its tokens, its labeled steps and its outcome.

use trainyard_core::{Error, Result};
use trainyard_tables::Trajectory;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Example {
    /// Token ids of the whole rollout.
    pub tokens: Vec<u32>,
    /// (last token of the step, label); NaN = read, but not labeled.
    pub steps: Vec<(usize, f64)>,
    pub problem: String,
    /// Whether the rollout's outcome is correct, if known; the last entry of `steps` is then its end.
    pub right: Option<bool>,
    pub tool_calls: u32,
    /// Tool calls that failed.
    pub tool_errors: u32,
}

impl Example {
    /// Counts the steps that have a label.
    pub fn labeled(&self) -> usize {
        self.steps.iter().filter(|(_, label)| !label.is_nan()).count()
    }
}

/// Returns the labeled steps of a row, and also its last step if the outcome is known. Errors: data, if list lengths do
/// not match.
pub fn example(row: &Trajectory, right: Option<bool>) -> Result<Example> {
    let unlabeled = vec![f32::NAN; row.step_ends.len()];
    let labels = row.step_labels.as_deref().unwrap_or(&unlabeled);
    if labels.len() != row.step_ends.len() {
        let message =
            format!("rollout `{}` has {} step labels, but {} steps", row.id, labels.len(), row.step_ends.len());
        return Err(Error::data(message).help("set `steps` to the unit of the labels (`lines` or `turns`)"));
    }
    let mut steps = Vec::new();
    for (i, (&end, &label)) in row.step_ends.iter().zip(labels).enumerate() {
        if label.is_nan() && !(right.is_some() && i + 1 == labels.len()) {
            continue;
        }
        if !(label.is_nan() || (0.0..=1.0).contains(&label)) || end == 0 || end as usize > row.token_ids.len() {
            return Err(Error::data(format!("rollout `{}` has the label {label} at token {end}", row.id))
                .help("labels are probabilities in 0..1"));
        }
        steps.push((end as usize - 1, f64::from(label)));
    }
    // Without a step there is no position at which the outcome is read.
    let right = right.filter(|_| !steps.is_empty());
    let (tool_calls, tool_errors) = (row.tool_calls, row.tool_errors);
    Ok(Example {
        tokens: row.token_ids.clone(),
        steps,
        problem: row.problem_id.clone(),
        right,
        tool_calls,
        tool_errors,
    })
}

/// Returns 1 / (1 + e⁻ᶻ), the probability of a logit.
pub fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlabeled_steps_are_left_out_and_wrong_labels_refused() {
        let row = |ends: &[u32], labels: &[f32]| Trajectory {
            token_ids: vec![1; 9],
            step_ends: ends.to_vec(),
            step_labels: Some(labels.to_vec()),
            ..Trajectory::default()
        };
        assert_eq!(example(&row(&[3, 6, 9], &[0.5, f32::NAN, 1.0]), None).unwrap().steps, [(2, 0.5), (8, 1.0)]);
        assert!(example(&row(&[3], &[1.5]), None).is_err());
        assert!(example(&row(&[3, 6], &[1.0]), None).unwrap_err().help.unwrap().contains("turns"));
        assert!(example(&row(&[12], &[1.0]), None).is_err());
    }
}
