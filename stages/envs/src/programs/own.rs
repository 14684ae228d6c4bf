//! User-defined code that receives many items in a request: one kind for programs (`process`) and one for services
//! (`http`) in every role, such as a reward or a rule of `data/filter`.
//!
//! A role describes its options ([`OwnRole`]) and has a page for each kind of code ([`OwnPage`]).

use super::answers::{Batch, OnError};
use super::peer_options::PeerOptions;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use trainyard_api::PartOptions;
use trainyard_core::{Metric, OptionProblem, Result, Secrets};
use trainyard_process::{Hello, Log, Peer};

/// Documentation of a role for code of the kind `P`.
pub trait OwnPage<P> {
    /// Summary, as in [`PartOptions`].
    const SUMMARY: &'static str;
    /// Documentation, as in [`PartOptions`].
    const DOC: &'static str;
}

/// Role of user-defined code in a stage.
pub trait OwnRole: Debug + Clone + Default + PartialEq + Send + Sync + 'static {
    /// Role in the handshake with programs.
    const ROLE: &'static str;
    /// Description of the option `batch`.
    const BATCH: &'static str;
    /// Description of the option `name`.
    const NAME: &'static str = "With `trainyard_bridge`, the name of the function, if the program has several.";
    /// Description of the option `on_error`.
    const ON_ERROR: &'static str;
    /// Returns the metrics, as in [`PartOptions`].
    fn metrics() -> Vec<Metric> {
        Vec::new()
    }
}

/// Options of user-defined code of the kind `P` in the role `R`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(bound = "R: OwnRole, P: PeerOptions", transform = describe::<R>)]
pub struct OwnOptions<R, P> {
    /// Program or service that answers.
    #[serde(flatten)]
    pub peer: P,
    /// [`OwnRole::BATCH`].
    pub batch: Batch,
    /// [`OwnRole::NAME`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// [`OwnRole::ON_ERROR`].
    pub on_error: OnError,
    #[serde(skip)]
    role: PhantomData<R>,
}

/// Describes the options of a role.
fn describe<R: OwnRole>(schema: &mut Schema) {
    for (option, description) in [("batch", R::BATCH), ("name", R::NAME), ("on_error", R::ON_ERROR)] {
        if let Some(value) = schema.pointer_mut(&format!("/properties/{option}/description")) {
            *value = json!(description);
        }
    }
}

impl<R: OwnRole, P: PeerOptions> OwnOptions<R, P> {
    /// Returns the program or service. Sends no request yet. Errors: as of [`PeerOptions::open`].
    pub fn open(&self, secrets: &Secrets, log: &Log) -> Result<Arc<dyn Peer>> {
        self.peer.open(Hello { role: R::ROLE, name: &self.name, seed: 0 }, secrets, log)
    }
}

impl<R: OwnRole + OwnPage<P>, P: PeerOptions> PartOptions for OwnOptions<R, P> {
    const KIND: &'static str = P::KIND;
    const SUMMARY: &'static str = <R as OwnPage<P>>::SUMMARY;
    const DOC: &'static str = <R as OwnPage<P>>::DOC;
    fn metrics() -> Vec<Metric> {
        R::metrics()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = self.peer.problems();
        problems.extend(self.batch.problem());
        problems
    }
}
