//! Defines the contract between the orchestrator and all stage crates: the definition of a stage, its context, and its
//! parts.
//!
//! A stage is a pure function of its config, its inputs and its seed, with files as inputs and outputs. It accesses
//! local folders only: the attempt fetches inputs from the store before the stage runs and publishes outputs after it.

#![warn(missing_docs)]

pub mod appended_lines;
pub mod checkpoint;
pub mod checkpoint_folder;
pub mod context;
pub mod curves;
pub mod family;
pub mod filter_tables;
pub mod registry;
pub mod report;
pub mod requests;
pub mod scratch_file;
pub mod simple_stage;
pub mod slot;
pub mod stage;
pub mod trial;

pub use context::{
    CancelToken, CheckpointStore, DiscardingCheckpoints, InputArtifact, Reporter, SilentReporter, StageContext,
};
pub use family::{AnyFamily, Family, ParsedPart, PartKind, PartOptions, PartPage};
pub use registry::Stages;
pub use report::StageReport;
pub use requests::{RequestCache, RequestsInMemory};
pub use scratch_file::ScratchFile;
pub use simple_stage::{SimpleStage, SimpleStageKind};
pub use slot::Slot;
pub use stage::{DynPreparedOptions, DynStage, Ports, PreparedOptions, Stage, erase, port};
pub use trial::{Component, Trial, TrialEpisode};
