//! What a crate needs to add stage kinds, parts and executors, and to be its own program (`examples/extend`).

pub use serde_json::Value;
pub use std::sync::Arc;
pub use trainyard_api::family::fill_schema;
pub use trainyard_api::{PartOptions, Ports, Prepared, Slot, Stage, StageContext, port};
pub use trainyard_app::Catalogue;
pub use trainyard_core::{ArtifactKind, Cardinality, Chance, Error, Metric, OptionProblem, Result};
pub use trainyard_envs::environments::dialogue::Dialogue;
pub use trainyard_envs::environments::{
    Demonstration, DialogueEnvironment, DialogueOptions, ExtraOptions, ProblemGenerator, ScriptedTurn, WithDialogue,
};
pub use trainyard_envs::{Environment, Episode, GroupView, Reward, Score, ToolHost};
pub use trainyard_learn::{LossTerm, Part, Term, TokenBatch};
pub use trainyard_runtime::executors::{Executor, ExecutorKind, Launcher, Launching, Local};
pub use trainyard_tables::{Message, Problem, Trajectory, write_problems};
