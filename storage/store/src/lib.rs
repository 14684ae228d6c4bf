//! Artifacts and journal by URL over `object_store`: create-only puts, manifests, publication, fencing, garbage collection.
//!
//! Why so: a laptop's folder and a bucket must keep the same promises with the same code (`docs/design/0004`). Everything that
//! decides anything is one create-only put; nothing is decided by a listing alone and no protocol relies on deletion. Refuses: a
//! store that lets two writers create one name (proved by a probe when it is opened), and a second storage trait above
//! `object_store`: tests inject faults by wrapping that one ([`faults`]).
//!
//! ```text
//! objects/<aa>/<sha256>                                   payload files
//! artifacts/<aa>/<stage-digest>/<generation>.json         manifests
//! checkpoints/<aa>/<stage-digest>/<step>-<attempt>.json   resume points
//! runs/<yyyy-mm>/<run-id>/journal/<seq>                   the run's events
//! runs/<yyyy-mm>/<run-id>/attempts/<stage>/<n>/…          spec.json, result.json, log and metric chunks
//! schedules/<name>/<tick>                                 one object per fired tick
//! ```

pub mod attempts;
pub mod checkpoints;
pub mod conformance;
mod connection;
mod damage;
pub mod faults;
pub mod fetch;
pub mod garbage;
pub mod journal;
pub mod layout;
mod local;
pub mod manifests;
pub mod objects;
mod options;
mod place;
mod problem;
pub mod runs;
mod s3;
mod store;
mod upload;

pub use attempts::Chunk;
pub use connection::Created;
pub use fetch::FetchMode;
pub use garbage::{GarbageDone, GarbagePlan};
pub use journal::{AppendError, Batch, Fenced, Header, JournalReader, JournalWriter};
pub use manifests::Published;
pub use options::{Missing, StoreOptions};
pub use s3::install_tls;
pub use store::Store;
