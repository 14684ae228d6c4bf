//! The bottom of the workspace: plain data that every other crate speaks.
//!
//! Identifiers, digests, artifact and attempt records, error kinds, what stage kinds tell about themselves, units, and the two injected
//! effects (clock and chance). Nothing here does I/O; only [`clock::SystemClock`] reads the wall clock, and nothing draws ambient
//! chance.

pub mod artifact;
pub mod attempt;
pub mod chance;
pub mod clock;
pub mod digest;
pub mod error;
pub mod event;
pub mod ids;
pub mod kinds;
pub mod metric;
pub mod units;

pub use artifact::{ArtifactKind, ArtifactRef, FileEntry, Manifest, Output};
pub use chance::Chance;
pub use clock::{Clock, SystemClock};
pub use digest::Digest;
pub use error::{Error, ErrorKind, Result};
pub use ids::{AttemptNumber, Epoch, RunId, StageKey};
pub use kinds::{Cardinality, KindInfo, OptionProblem, Placement, PortInfo, StageKinds, Wired, above};
pub use metric::{Comparison, Declared, Metric, MetricRead, Of, Producer, Producers, Reduce};
