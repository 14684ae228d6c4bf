//! Implements curricula, which determine the order of problems.

pub mod epoch_sampler;
pub mod interaction_stages;
pub mod learnable;
pub mod levels;
pub mod uniform;

use crate::part::ProblemPool;

/// Returns the indexes of the problems of these levels, ascending, or of all problems if `levels` is empty.
fn of_levels(pool: &ProblemPool, levels: &[u32]) -> Vec<usize> {
    pool.problems
        .iter()
        .enumerate()
        .filter(|(_, p)| levels.is_empty() || levels.contains(&p.level))
        .map(|(i, _)| i)
        .collect()
}
