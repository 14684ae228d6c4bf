//! Defines [`TokenConstraint`], the trait of rules about the tokens that a turn may contain.

use std::ops::Range;
use std::sync::Arc;

/// Ids that cannot come next, as ascending ranges.
pub type ForbiddenTokens = Arc<Vec<Range<u32>>>;

/// A rule about the tokens of one turn. It keeps the state after the tokens so far.
pub trait TokenConstraint: Send + Sync {
    /// Returns the ids below `vocabulary` that cannot come next, or `None` if no token can.
    fn forbidden(&mut self, vocabulary: u32) -> Option<ForbiddenTokens>;
    /// Adds a sampled token to the state.
    fn advance(&mut self, token: u32);
    /// Returns the same rule in the same state, for another sequence.
    fn fork(&self) -> Box<dyn TokenConstraint>;
}
