//! `none`: no replay; updates use only new rollouts.

use crate::batch::{Batch, Grid};
use crate::part::{Part, Replay, Replayed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Chance;

/// `none` has no options.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct None {}

impl PartOptions for None {
    const KIND: &'static str = "none";
    const SUMMARY: &'static str = "only fresh rollouts";
    const DOC: &'static str = "Replays nothing.";
}

impl Part for None {}

impl Replay for None {
    fn offer(&mut self, _batch: &Batch, _advantages: &Grid) {}
    fn draw(&mut self, _step: u64, _chance: &Chance) -> Vec<Replayed> {
        Vec::new()
    }
}
