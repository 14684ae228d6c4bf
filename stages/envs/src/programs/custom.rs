//! Defines user-defined code that receives many items in a request. Every role, such as a reward or a rule of
//! `data/filter`, has one kind for programs (`process`) and one for services (`http`).
//!
//! A role describes its options ([`CustomCodeRole`]) and has a page for each kind of code ([`CustomCodePage`]).

use super::batches::{BatchSize, ExceptionPolicy};
use super::custom_code_options::CustomCodeOptions;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Result, Secrets};
use trainyard_process::{Hello, ProgramLog, ProgramService};

/// Documentation of a role for code of the kind `P`.
pub trait CustomCodePage<P> {
    /// Summary, as in [`PartOptions`].
    const SUMMARY: &'static str;
    /// Documentation, as in [`PartOptions`].
    const DOC: &'static str;
}

/// Role of user-defined code in a stage.
pub trait CustomCodeRole: Debug + Clone + Default + PartialEq + Send + Sync + 'static {
    /// Role in the handshake with programs.
    const ROLE: &'static str;
    /// Description of the option `batch`.
    const BATCH: &'static str;
    /// Description of the option `name`.
    const NAME: &'static str = "With `trainyard_bridge`, the name of the function, if the program has several.";
    /// Description of the option `on_error`.
    const ON_ERROR: &'static str;
    /// Returns the metrics, as in [`PartOptions`].
    fn metrics() -> Vec<MetricInfo> {
        Vec::new()
    }
}

/// Options of user-defined code of the kind `P` in the role `R`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(bound = "R: CustomCodeRole, P: CustomCodeOptions", transform = describe::<R>)]
pub struct CustomRoleOptions<R, P> {
    /// Program or service that answers.
    #[serde(flatten)]
    pub peer: P,
    /// [`CustomCodeRole::BATCH`].
    pub batch: BatchSize,
    /// [`CustomCodeRole::NAME`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// [`CustomCodeRole::ON_ERROR`].
    pub on_error: ExceptionPolicy,
    #[serde(skip)]
    role: PhantomData<R>,
}

/// Writes the descriptions of a role into the schema of its options.
fn describe<R: CustomCodeRole>(schema: &mut Schema) {
    for (option, description) in [("batch", R::BATCH), ("name", R::NAME), ("on_error", R::ON_ERROR)] {
        if let Some(value) = schema.pointer_mut(&format!("/properties/{option}/description")) {
            *value = json!(description);
        }
    }
}

impl<R: CustomCodeRole, P: CustomCodeOptions> CustomRoleOptions<R, P> {
    /// Returns the program or service. Sends no request yet. Errors: those of [`CustomCodeOptions::open`].
    pub fn open(&self, secrets: &Secrets, log: &ProgramLog) -> Result<Arc<dyn ProgramService>> {
        self.peer.open(Hello { role: R::ROLE, name: &self.name, seed: 0 }, secrets, log)
    }
}

impl<R: CustomCodeRole + CustomCodePage<P>, P: CustomCodeOptions> PartOptions for CustomRoleOptions<R, P> {
    const KIND: &'static str = P::KIND;
    const SUMMARY: &'static str = <R as CustomCodePage<P>>::SUMMARY;
    const DOC: &'static str = <R as CustomCodePage<P>>::DOC;
    fn metrics() -> Vec<MetricInfo> {
        R::metrics()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = self.peer.problems();
        problems.extend(self.batch.problem());
        problems
    }
}
