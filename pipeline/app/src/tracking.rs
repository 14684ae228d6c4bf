//! Runs as other programs follow them while they go on: learning curves, spans, lineage.
//!
//! A tracker is chosen in the site file (`tracking: [{kind: tensorboard}]`), so no workflow and no digest knows of it.
//! What happens in a run goes to a thread of each tracker; one that is slow or away holds nothing up and fails nothing:
//! what it could not be told is a note.

mod follow;
mod mlflow;
mod openlineage;
mod opentelemetry;
mod protobuf;
mod registry;
mod tensorboard;
#[cfg(test)]
mod testing;
mod tracker;
mod wandb;

pub use follow::{Tracking, follow};
pub use registry::{Trackers, family};
pub use tracker::{Around, Opened, Point, Seen, Tracker};
