//! Implements `none`, no replay: updates use only new rollouts.

use crate::batch::{Batch, TokenGrid};
use crate::part::{Replay, ReplayedRollout, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Chance;

/// `none` has no options.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoReplay {}

impl PartOptions for NoReplay {
    const KIND: &'static str = "none";
    const SUMMARY: &'static str = "only fresh rollouts";
    const DOC: &'static str = "Replays nothing.";
}

impl RlPart for NoReplay {}

impl Replay for NoReplay {
    fn offer(&mut self, _batch: &Batch, _advantages: &TokenGrid) {}
    fn draw(&mut self, _step: u64, _chance: &Chance) -> Vec<ReplayedRollout> {
        Vec::new()
    }
}
