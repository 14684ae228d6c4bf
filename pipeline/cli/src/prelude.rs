//! The prelude of crates that add stage kinds, parts and executors, each with its own program (`examples/extend`): the
//! traits, and all types that their signatures name.

// The program.
pub use trainyard_app::Catalogue;

// Options, checks, metrics, errors.
pub use serde_json::{Value, json};
pub use std::sync::Arc;
pub use trainyard_api::PartOptions;
pub use trainyard_core::{Chance, Declared, Error, Metric, OptionProblem, Reduce, Result};

// Stage kinds, and the rows that they read and write.
pub use trainyard_api::family::fill_schema;
pub use trainyard_api::{Ports, Prepared, Report, SimpleStage, Slot, Stage, StageContext, port};
pub use trainyard_core::{ArtifactKind, Cardinality, Facts, MetricRead, Placement, PortInfo, Producers, Wired};
pub use trainyard_data::io::{read_many_problems, write_problems, write_trajectories};
pub use trainyard_tables::{Message, Ordered, Problem, Status, StopReason, Trajectory};

// RL parts: advantages, corrections, curricula, filters, losses, modulations, replays, strategies; preference losses.
pub use trainyard_learn::corrections::Correction;
pub use trainyard_learn::preference_losses::{PairAnswer, PairTerm, PreferenceLoss, PreferencePair};
pub use trainyard_learn::{
    Action, Advantage, Aggregate, Batch, Curriculum, Draw, Filter, Grid, Group, GroupBudget, Live, LossTerm,
    Modulation, Needs, Part, PassRates, Pool, PoolProblem, Prefix, Progress, Replay, Replayed, Rollout, Scope, Spawn,
    Strategy, Term, TokenBatch, TurnSummary, Verdict,
};

// Environments with their tools, formats, verifiers and generators, and rewards.
pub use trainyard_envs::environments::dialogue::Dialogue;
pub use trainyard_envs::environments::{
    AfterTurn, Demonstration, DialogueEnvironment, DialogueOptions, EnvironmentOptions, EpisodeState, ExtraOptions,
    ProblemGenerator, Questions, ScriptedTurn, Setup, WithDialogue,
};
pub use trainyard_envs::rewards::RewardContext;
pub use trainyard_envs::{
    AgentTurn, Environment, Episode, GroupView, Observation, Outcome, Reward, Scene, Score, Step, Ticket, Tool,
    ToolCall, ToolChoice, ToolFormat, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec, Toolbox, Verifier,
};
pub use trainyard_process::Log;

// Models served over endpoints.
pub use trainyard_chat::{Chat, ChatOptions, Models, Question};

// Filter rules, import and export formats, synthesis methods.
pub use trainyard_data::export::{ExportFormat, FileKind, Form as ExportForm, Item as ExportItem, LeftOut};
pub use trainyard_data::filter::{Judgment, Rule, RuleContext};
pub use trainyard_data::import::{Convert, Format, Imported, Reading, Row};
pub use trainyard_data::solutions::Solution;
pub use trainyard_data::step_scorers::{ScoringContext, StepScorer};
pub use trainyard_data::synthesize::{Config as SynthesisOptions, Method, Synthesized, World};
pub use trainyard_envs::environments::Environments;

// Trackers.
pub use trainyard_app::tracking::{Around, Opened, Point, Seen, Tracker};

// Executors.
pub use trainyard_runtime::executors::{
    BoxFuture, Capabilities, Control, Ended, Executor, ExecutorKind, Handle, Launcher, Launching, Local, LocalOptions,
    Reports, State, Task,
};
