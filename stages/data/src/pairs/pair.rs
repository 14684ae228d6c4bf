//! Defines a chosen pair, and creates its rows in the output.

use super::cut;
use trainyard_tables::{StopReason, Trajectory};

/// Reward that distinguishes the chosen row from the rejected one; `data/import` uses it, too.
pub const REWARD: &str = "preference";

/// Two rows of a problem, each with its number of kept tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowPair {
    /// Index of the better row and its number of kept tokens; 0 = all tokens.
    pub better: (usize, usize),
    /// Index of the worse row and its number of kept tokens; 0 = all tokens.
    pub worse: (usize, usize),
}

impl RowPair {
    /// Returns the pair with each index replaced.
    pub fn map(self, number: impl Fn(usize) -> usize) -> Self {
        let map = |(index, end): (usize, usize)| (number(index), end);
        Self { better: map(self.better), worse: map(self.worse) }
    }
    /// Returns the chosen and the rejected side. `flip` exchanges the labels.
    pub fn sides(self, flip: bool) -> [(usize, usize); 2] {
        if flip { [self.worse, self.better] } else { [self.better, self.worse] }
    }
}

/// Returns the row of one side of pair `group` in the output, made from `row` up to token `end` (0 = all). `sample` is
/// 0 for the chosen side and 1 for the rejected one; `flip` is recorded if it is known.
pub fn side(row: &Trajectory, end: usize, (group, sample): (usize, u32), flip: Option<bool>) -> Trajectory {
    let mut side = if end == 0 { row.clone() } else { cut::cut(row, end) };
    side.id = format!("pair-{group}-{}", if sample == 0 { "chosen" } else { "rejected" });
    side.parents = vec![row.id.clone()];
    (side.group, side.sample) = (group as u32, sample);
    side.reward = f64::from(1 - sample);
    side.rewards.insert(REWARD.to_string(), side.reward);
    if let Some(flip) = flip {
        side.rewards.insert("flipped".to_string(), f64::from(u8::from(flip)));
    }
    if end > 0 {
        side.stop_reason = StopReason::End;
    }
    (side.fork_of, side.fork_at, side.advantages) = (None, None, None);
    side
}
