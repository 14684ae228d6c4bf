//! Sends learning curves, spans and lineage of a run to other programs while the run proceeds
//! (`docs/design/0030-trackers.md`).
//!
//! The site file configures trackers (`tracking: [{kind: tensorboard}]`), so no workflow and no digest depends on them.
//! Each tracker has a thread and a queue of events. A slow or unreachable tracker neither delays nor fails the run; a
//! note reports its lost events.

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

pub use follow::{TrackingObserver, follow};
pub use registry::{Trackers, family};
pub use tracker::{Point, RunStart, Tracker, TrackerContext, TrackerEvent};
