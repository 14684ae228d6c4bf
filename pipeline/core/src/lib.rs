//! Defines the plain data that all crates of Trainyard share: identifiers, digests, the records of artifacts, attempts
//! and runs, error kinds, descriptions of stage kinds, units, results that arrive once, and the two injected effects
//! (clock and chance).
//!
//! The other crates agree on these types without depending on each other. The crate does no I/O: only
//! [`clock::SystemClock`] reads the machine's clock, and no random number comes from the machine.
#![warn(missing_docs)]

pub mod artifact;
pub mod attempt;
pub mod canonical;
pub mod chance;
pub mod clock;
pub mod digest;
pub mod error;
pub mod event;
pub mod ids;
pub mod instance;
pub mod kinds;
mod lazy_schema;
mod log_record;
pub mod metric;
pub mod option_list;
pub mod panics;
pub mod peers;
pub mod process_stat;
pub mod progress;
pub mod promise;
pub mod resources;
pub mod secret;
pub mod source;
pub mod statistics;
pub mod suggest;
pub mod units;

pub use artifact::{ArtifactKind, ArtifactRef, FileEntry, Manifest, Output};
pub use chance::Chance;
pub use clock::{Clock, SystemClock};
pub use digest::Digest;
pub use error::{Error, ErrorKind, Result};
pub use ids::{AttemptNumber, Epoch, RunId, StageKey};
pub use instance::{AxisInstance, AxisValue};
pub use kinds::{
    Cardinality, Facts, KindInfo, OptionProblem, Placement, PortInfo, StageKinds, ValidatedOptions, WiredInputs, above,
};
pub use lazy_schema::LazySchema;
pub use metric::{Comparison, ComparisonField, DeclaredMetrics, MetricInfo, MetricRead, Producer, Producers, Reduce};
pub use process_stat::ProcessStat;
pub use promise::{Promise, Resolver};
pub use secret::{Secret, SecretName, Secrets};
