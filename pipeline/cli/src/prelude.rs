//! Exports the traits, and the types in their signatures, that custom crates with stage kinds, parts and executors need
//! (`examples/extend`).

// The program.
pub use trainyard_app::Catalogue;

// Options, checks, metrics, errors.
pub use serde_json::{Value, json};
pub use std::sync::Arc;
pub use trainyard_api::PartOptions;
pub use trainyard_core::{Chance, DeclaredMetrics, Error, MetricInfo, OptionProblem, Reduce, Result};

// Stage kinds, and the rows that they read and write.
pub use trainyard_api::family::fill_schema;
pub use trainyard_api::{Ports, PreparedOptions, SimpleStage, Slot, Stage, StageContext, StageReport, port};
pub use trainyard_core::{ArtifactKind, Cardinality, Facts, MetricRead, Placement, PortInfo, Producers, WiredInputs};
pub use trainyard_data::io::{read_many_problems, write_problems, write_trajectories};
pub use trainyard_tables::{EpisodeStatus, Message, OrderedValue, Problem, StopReason, Trajectory};

// RL parts: advantages, corrections, curricula, filters, losses, modulations, replays, strategies; preference losses.
pub use trainyard_learn::corrections::Correction;
pub use trainyard_learn::preference_losses::{PairAnswer, PairTerm, PreferenceLoss, PreferencePair};
pub use trainyard_learn::{
    Advantage, Aggregate, Batch, Curriculum, Draw, EpisodePrefix, Filter, Group, GroupBudget, LiveSequence, LossBatch,
    LossTerm, Modulation, Needs, PassRates, PoolDemonstration, PoolProblem, ProblemPool, Progress, Replay,
    ReplayedRollout, RlPart, Rollout, RolloutVerdict, Spawn, Strategy, StrategyAction, TermScope, TermValue, TokenGrid,
    TurnSummary,
};

// Environments with their tools, formats, verifiers and generators, and rewards.
pub use trainyard_envs::environments::dialogue::Dialogue;
pub use trainyard_envs::environments::{
    AfterTurn, Demonstration, DialogueEnvironment, DialogueOptions, EnvironmentOptions, EnvironmentSetup, EpisodeState,
    ExtraOptions, ProblemGenerator, QuestionOptions, ScriptedTurn, WithDialogue,
};
pub use trainyard_envs::rewards::RewardContext;
pub use trainyard_envs::{
    AgentTool, AgentTurn, Environment, Episode, EpisodeStep, GroupView, Observation, Outcome, PendingToolResult,
    Reward, Score, ScoringGroup, ToolCall, ToolConfig, ToolFormat, ToolHost, ToolLimits, ToolResult, ToolSession,
    ToolSpec, Toolbox, Verifier,
};
pub use trainyard_process::ProgramLog;

// Models served over endpoints.
pub use trainyard_chat::{ChatClient, ChatOptions, ChatRequest, Models};

// Filter rules, import and export formats, synthesis methods.
pub use trainyard_data::export::{ExportForm, ExportFormat, ExportItem, ExportOmissions, FileKind};
pub use trainyard_data::filter::{
    FilterRule, RowEdit, RuleColumns, RuleContext, RulePass, RuleRows, RuleVerdict, TokenCounter, each_row,
};
pub use trainyard_data::import::{ImportContext, ImportFormat, ImportRow, ImportedRows, RowConverter};
pub use trainyard_data::solutions::Solution;
pub use trainyard_data::step_scorers::{ScoringContext, StepScorer};
pub use trainyard_data::synthesize::{
    SynthesisConfig as SynthesisOptions, SynthesisContext, SynthesisMethod, SynthesisOutput,
};
pub use trainyard_envs::environments::Environments;

// Trackers.
pub use trainyard_app::tracking::{Point, RunStart, Tracker, TrackerContext, TrackerEvent};

// Executors.
pub use trainyard_runtime::executors::{
    AttemptExit, AttemptReporter, AttemptState, AttemptTask, BoxFuture, Capabilities, Control, Executor,
    ExecutorContext, ExecutorKind, Handle, Launcher, LocalExecutor, LocalOptions,
};
