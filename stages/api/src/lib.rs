//! What a stage is, what it is given and what it is composed of: the contract between the orchestrator and every stage room.
//!
//! A stage is a pure function of its config, its inputs and its seed, with files as inputs and outputs. It sees local folders
//! only; the attempt runner fetches inputs from the store before and publishes outputs after. Refuses: store access, ambient
//! time or chance, knowledge of other stages.

pub mod context;
pub mod parts;
pub mod registry;
pub mod report;
pub mod stage;

pub use context::{CancelToken, CheckpointStore, InputArtifact, Reporter, StageContext};
pub use parts::{Kinds, PartKind, PartOptions};
pub use registry::Registry;
pub use report::Report;
pub use stage::{DynStage, Ports, Stage, port};
