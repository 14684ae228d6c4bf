//! Defines the common properties of all workers of a pool.

use crate::tools::ToolLimits;
use crate::tools::cpython::installation::Installation;

/// Key of a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolKey {
    pub limits: ToolLimits,
    /// Interpreter that the workers supervise; `None` = the embedded one.
    pub cpython: Option<Installation>,
}
