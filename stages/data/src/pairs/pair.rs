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
    /// Returns the chosen and the rejected row of the output. `flip` exchanges the labels; with `mark`, both rows
    /// record whether the labels were exchanged.
    pub fn rows(self, rows: &[Trajectory], group: usize, flip: bool, mark: bool) -> [Trajectory; 2] {
        let (chosen, rejected) = if flip { (self.worse, self.better) } else { (self.better, self.worse) };
        let side = |(index, end): (usize, usize), sample: u32, name: &str| {
            let row = &rows[index];
            let mut side = if end == 0 { row.clone() } else { cut::cut(row, end) };
            side.id = format!("pair-{group}-{name}");
            side.parents = vec![row.id.clone()];
            (side.group, side.sample) = (group as u32, sample);
            side.reward = f64::from(1 - sample);
            side.rewards.insert(REWARD.to_string(), side.reward);
            if mark {
                side.rewards.insert("flipped".to_string(), f64::from(u8::from(flip)));
            }
            if end > 0 {
                side.stop_reason = StopReason::End;
            }
            (side.fork_of, side.fork_at, side.advantages) = (None, None, None);
            side
        };
        [side(chosen, 0, "chosen"), side(rejected, 1, "rejected")]
    }
}
