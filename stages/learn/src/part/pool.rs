//! Defines the problems that curricula and strategies choose from.

use std::collections::BTreeMap;

/// Data of one problem that is available to curricula and strategies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolProblem {
    /// Id of the row in the `problems` artifact.
    pub id: String,
    /// Difficulty level; curricula count pass rates by it.
    pub level: u32,
    /// Lines of a worked solution, for strategies that reveal a part of it; empty if there is no solution.
    pub hints: Vec<String>,
    /// Demonstrations of the problem; filled only if a part needs them.
    pub demonstrations: Vec<PoolDemonstration>,
}

/// Demonstration of a problem, as the tokens of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolDemonstration {
    /// Id of the row in the `demonstrations` artifact.
    pub id: String,
    /// `[turn][token]`, stop tokens included.
    pub turns: Vec<Vec<u32>>,
}

/// Problems that RL may draw from, in artifact order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProblemPool {
    /// Problems; parts refer to them by index.
    pub problems: Vec<PoolProblem>,
}

impl ProblemPool {
    /// Maps each level to its places in the pool, both ascending.
    pub fn by_level(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut levels: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, p) in self.problems.iter().enumerate() {
            levels.entry(p.level).or_default().push(i);
        }
        levels
    }
}
