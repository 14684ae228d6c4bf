//! Parts that the pages about rollouts share: the artifact of an address, words for outcomes, trees of forks.

pub mod calls;
pub mod forks;
pub mod place;
#[cfg(test)]
pub mod test_store;
pub mod words;
