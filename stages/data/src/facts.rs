//! Names of facts about artifacts that stages hand to the stages behind them, before anything runs.

/// The environment that problems are made for, as in their column `environment`.
pub const ENVIRONMENT: &str = "environment";
