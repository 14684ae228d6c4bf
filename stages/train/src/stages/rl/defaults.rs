//! Defines default values of the options of `rl`.

pub fn steps() -> u64 {
    40
}
pub fn problems_per_step() -> usize {
    32
}
pub fn one() -> u64 {
    1
}
pub fn minibatches() -> usize {
    2
}
pub fn micro_batch_tokens() -> usize {
    8192
}
pub fn validate_problems() -> usize {
    200
}
pub fn checkpoint_every() -> u64 {
    5
}
pub fn keep_rollouts() -> usize {
    256
}
pub fn group_size() -> u32 {
    8
}
pub fn temperature() -> f64 {
    1.0
}
pub fn turn_tokens() -> usize {
    128
}
pub fn episode_tokens() -> usize {
    768
}
pub fn running() -> usize {
    256
}
