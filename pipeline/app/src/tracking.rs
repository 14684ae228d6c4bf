//! Live tracking of runs in other programs: learning curves, spans, lineage.
//!
//! A tracker is configured in the site file (`tracking: [{kind: tensorboard}]`), so no workflow and no digest depends
//! on it. Events of a run go to one thread per tracker; a slow or unreachable tracker neither delays nor fails the run:
//! lost events are reported as a note.

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
