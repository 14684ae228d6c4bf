//! Implements `opo`, the reward relative to the length-weighted mean of its group. The baseline of least gradient
//! variance weighs each rollout by the squared norm of its gradient, which grows with its length (2505.23585).

use crate::batch::{Batch, TokenGrid};
use crate::part::{Advantage, Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;

/// `opo` has no options.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Opo {}

impl PartOptions for Opo {
    const KIND: &'static str = "opo";
    const SUMMARY: &'static str = "reward relative to the length-weighted mean of the group (OPO)";
    const DOC: &'static str = "A = r − Σ_j n_j·r_j / Σ_j n_j over the group, with n = tokens in the loss; the\n\
        same for every token of a rollout. There is no scale. Source: 2505.23585.";
}

impl RlPart for Opo {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
}

impl Advantage for Opo {
    fn assign(&mut self, batch: &Batch) -> TokenGrid {
        let mut values = Vec::with_capacity(batch.len());
        for group in &batch.groups {
            let lengths = group.rollouts.iter().map(|r| r.loss_tokens() as f64);
            let weighted: f64 = group.rollouts.iter().zip(lengths.clone()).map(|(r, n)| n * r.trajectory.reward).sum();
            let tokens: f64 = lengths.sum();
            let baseline = if tokens > 0.0 { weighted / tokens } else { 0.0 };
            values.extend(group.rollouts.iter().map(|r| r.trajectory.reward - baseline));
        }
        batch.spread(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Group, Rollout};
    use trainyard_tables::Trajectory;

    #[test]
    fn long_rollouts_weigh_more() {
        let rollout = |reward: f64, tokens: usize| Rollout {
            trajectory: Trajectory { reward, ..Trajectory::default() },
            mask: vec![true; tokens],
            ..Rollout::default()
        };
        let groups = vec![Group { rollouts: vec![rollout(1.0, 3), rollout(0.0, 1)], ..Group::default() }];
        let a = Opo {}.assign(&Batch { step: 0, groups });
        assert_eq!(a, vec![vec![0.25; 3], vec![-0.75]]);
    }
}
