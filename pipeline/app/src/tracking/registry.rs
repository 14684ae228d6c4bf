//! Lists the trackers of this build, one line each, sorted by kind.

use super::mlflow::{Mlflow, MlflowOptions};
use super::openlineage::{OpenLineage, OpenLineageOptions};
use super::opentelemetry::{OpenTelemetry, OpenTelemetryOptions};
use super::tensorboard::{TensorBoard, TensorBoardOptions};
use super::tracker::{Tracker, TrackerContext};
use super::wandb::{Wandb, WandbOptions};
use trainyard_api::Family;
use trainyard_api::family::PartKind;

/// Trackers that a site file may name under `tracking`.
pub type Trackers = Family<dyn Tracker, TrackerContext>;

type TrackerKind = PartKind<dyn Tracker, TrackerContext>;

/// Returns all trackers of this build.
pub fn family() -> Trackers {
    let members = vec![
        TrackerKind::new(|options: MlflowOptions, _| Ok(Box::new(Mlflow::new(options)?))),
        TrackerKind::new(|options: OpenLineageOptions, context| Ok(Box::new(OpenLineage::new(options, context)?))),
        TrackerKind::new(|options: OpenTelemetryOptions, _| Ok(Box::new(OpenTelemetry::new(options)?))),
        TrackerKind::new(|options: TensorBoardOptions, context| Ok(Box::new(TensorBoard::new(&options, context)))),
        TrackerKind::new(|options: WandbOptions, context| Ok(Box::new(Wandb::new(options, context)))),
    ];
    Family::new("trackers", "tracker", members)
}
