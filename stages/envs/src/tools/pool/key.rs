//! Defines the common properties of all workers of a pool.

use crate::tools::ToolLimits;
use crate::tools::cpython::installation::Installation;
use crate::tools::sql::SqlLimits;

/// Work of a worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkerKind {
    /// Programs in the embedded Python.
    Monty,
    /// Programs in processes of this interpreter, which the worker supervises.
    Cpython(Installation),
    /// Queries of the tool `sql`.
    Sql(SqlLimits),
}

/// Key of a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolKey {
    pub limits: ToolLimits,
    pub kind: WorkerKind,
}

impl PoolKey {
    /// Returns the interpreter that the workers supervise, if they do not run the calls themselves.
    pub fn installation(&self) -> Option<&Installation> {
        match &self.kind {
            WorkerKind::Cpython(installation) => Some(installation),
            WorkerKind::Monty | WorkerKind::Sql(_) => None,
        }
    }
    /// Returns whether calls leave the state of a session as it was.
    pub fn is_stateless(&self) -> bool {
        matches!(self.kind, WorkerKind::Sql(_))
    }
}
