//! The bottom of the house: plain data that every other crate speaks.
//!
//! What: identifiers, digests, the artifact and attempt records, error kinds, the catalogue of stage kinds, units, and the two
//! injected effects (clock and chance). Why here: `spec`, `engine`, `store` and the stage rooms must agree on these types without
//! seeing each other. Refuses: I/O, async runtimes, arrow, candle, polars. Nothing in this crate reads the wall clock except
//! [`clock::SystemClock`], and nothing draws ambient chance.

pub mod artifact;
pub mod attempt;
pub mod catalogue;
pub mod chance;
pub mod clock;
pub mod digest;
pub mod error;
pub mod event;
pub mod ids;
pub mod metric;
pub mod units;

pub use artifact::{ArtifactKind, ArtifactRef, FileEntry, Manifest, Output};
pub use catalogue::{Cardinality, Catalogue, KindInfo, OptionProblem, Placement, PortInfo, Wired, above};
pub use chance::Chance;
pub use clock::{Clock, SystemClock};
pub use digest::Digest;
pub use error::{Error, ErrorKind, Result};
pub use ids::{AttemptNumber, Epoch, RunId, StageKey};
pub use metric::{Comparison, Declared, Metric, MetricRead, Of, Producer, Producers, Reduce};
