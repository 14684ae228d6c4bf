//! Stores artifacts and journals at a URL. The crate implements create-only puts, publication by manifests, fencing of
//! writers, and garbage collection.
//!
//! A local folder and a bucket give the same guarantees with the same code (`docs/design/0004`). Every decision is one
//! create-only put. No decision depends on a listing, and no protocol relies on deletion. Opening a store sends a
//! probe, which verifies that two writers cannot create the same name. `object_store` is the only storage trait; tests
//! inject faults by wrapping it (`tests/kit/src/faults.rs`).
//!
//! ```text
//! objects/<aa>/<sha256>                                   payload files
//! artifacts/<aa>/<stage-digest>/<generation>.json         manifests
//! checkpoints/<aa>/<stage-digest>/<step>-<attempt>.json   resume points
//! computing/<stage-digest>.<generation>.<n>               claims of the runs that compute a stage
//! plans/<aa>/<plan and selection>/<number>                claims of runs
//! pins/<aa>/<stage-digest>/<generation>/<n>               user's pins: keep this artifact
//! indexes/messages/<output-digest>                         indexes of messages for searches; a cache
//! tags/<yyyy-mm>/<run-id>/<n>                             user's tags of a run
//! notes/<aa>/<output-digest>/<n>                          user's notes about an output or its rows
//! runs/<yyyy-mm>/<run-id>/journal/<seq>                   the run's events
//! runs/<yyyy-mm>/<run-id>/summary/<seq>                   summary of a long run that ended
//! runs/<yyyy-mm>/<run-id>/attempts/<stage>/<n>/…          spec.json, cancel, heartbeat.json, progress.json,
//!                                                         result.json or failure.json, chunks of log and
//!                                                         metrics, nodes/<rank>…
//! schedules/<name>/<tick>                                 one object per fired tick
//! schedules/<name>/log/<number>                           decisions about a schedule, in order
//! schedules/<name>/state/<number>                         state of a schedule after the log up to a number
//! schedules/<name>/texts/<sha256>                         copies of the files of a schedule
//! ```
//!
//! ```
//! use trainyard_store::{CreateOutcome, Store, StoreOptions};
//!
//! # fn main() -> trainyard_core::Result<()> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
//! # runtime.block_on(async {
//! let store = Store::open("memory://", StoreOptions::default()).await?;
//! let (digest, size) = store.put_object("weights".into()).await?;
//! assert_eq!(store.read_object(&digest).await?, "weights");
//! assert!(store.has_object(&digest, size).await?);
//!
//! assert_eq!(store.create("schedules/nightly/1", "us".into()).await?, CreateOutcome::Ours);
//! let theirs = CreateOutcome::Theirs("us".into());
//! assert_eq!(store.create("schedules/nightly/1", "them".into()).await?, theirs);
//! # Ok(())
//! # })
//! # }
//! ```
#![warn(missing_docs)]

pub mod attempts;
pub mod checkpoints;
mod collected_manifest;
pub mod conformance;
mod connection;
mod credentials;
mod damage;
mod download;
mod error;
pub mod fetch;
pub mod garbage;
mod indexes;
pub mod journal;
pub mod layout;
mod local;
mod location;
pub mod manifests;
pub mod notes;
pub mod objects;
mod options;
mod peers;
pub mod pins;
mod registry;
mod requests;
mod retry;
mod root;
pub mod runs;
mod schemes;
mod statements;
mod store;
pub mod streams;
pub mod tags;
mod upload;

pub use checkpoints::{FetchedCheckpoint, SkippedCheckpoint};
pub use collected_manifest::CollectedManifest;
pub use connection::{CreateOutcome, ObjectEntry};
pub use credentials::credentials;
pub use fetch::FetchMode;
pub use garbage::{GarbagePlan, GarbagePolicy, GarbageSummary};
pub use journal::{AppendError, BatchHeader, JournalBatch, JournalReader, JournalWriter, WriterFenced};
pub use manifests::PublishOutcome;
pub use notes::Note;
pub use options::{MissingFolder, StoreOptions};
pub use pins::Pin;
pub use schemes::install_tls;
pub use store::Store;
pub use streams::AttemptStream;
pub use tags::Tag;
