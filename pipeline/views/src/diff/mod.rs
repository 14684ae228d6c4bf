//! Compares two artifacts, or two runs: what differs, and why.
//!
//! In all views A is the first name and B the second; a difference is B minus A. Manifests and journals come first.
//! Rows of tables and tensors of models are read in parts, and only where the content differs.

mod artifacts;
mod config;
mod excerpt;
mod files;
mod inputs;
mod join;
mod metrics;
mod models;
mod reasons;
mod rows;
mod runs;

pub use artifacts::{ArtifactDiff, ArtifactSide, ColumnsDiff, RetypedColumn, diff_artifacts};
pub(crate) use config::below;
pub use config::{ConfigChange, config_changes, map_changes};
pub use excerpt::{beginning, differing_parts};
pub use files::{ChangedFile, FilesDiff};
pub use inputs::{InputArtifact, InputChange};
pub use metrics::{ComparisonChange, MetricChange, comparison_changes, metric_changes};
pub use models::{ChangedTensor, ReshapedTensor, TensorsDiff};
pub use reasons::{ChangedStage, Reason};
pub use rows::{ChangedCell, ChangedColumn, ChangedRow, RowName, RowsDiff};
pub use runs::{RunSide, RunsDiff, StageResult, diff_runs};
