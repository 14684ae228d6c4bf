//! Defines the names of facts about artifacts that stages pass to later stages before a run.

/// Environment of problems, as in their column `environment`.
pub const ENVIRONMENT: &str = "environment";
