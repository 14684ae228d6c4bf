//! What all workers of a pool have in common.

use crate::tools::ToolLimits;
use crate::tools::cpython::installation::Installation;

/// Pools are kept by it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolKey {
    pub limits: ToolLimits,
    /// The interpreter that the workers supervise; none if they have the embedded one.
    pub cpython: Option<Installation>,
}
