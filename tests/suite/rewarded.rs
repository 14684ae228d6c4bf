//! A small workflow of reinforcement learning, for tests of rewards.

const FILE: &str = r#"
version: 1
name: rewarded
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 40}}, rl: {levels: {1: 8}}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64,
          seed: 1}
  rl:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems }}
      rewards: REWARDS
      filters: []
      steps: 2
      problems_per_step: 2
      rollout: {group_size: 4, max_turn_tokens: 24}
"#;

/// Returns a workflow whose stage `rl` has these rewards.
pub fn workflow(rewards: &str) -> String {
    FILE.replace("REWARDS", rewards)
}
