//! Rule `process`: a user-defined program judges each row (`docs/own-code.md`). A service is queried in the same way
//! ([`super::http`]).

use super::rule::{FilterRule, RuleContext, RuleVerdict};
use crate::custom_rows::{RowQuery, query_rows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_envs::programs::{BatchSize, CustomCodeOptions, ExceptionPolicy};
use trainyard_process::{Hello, ProgramOptions};
use trainyard_tables::Trajectory;

/// Rejects the rows that the user's own code does not keep.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(bound = "P: CustomCodeOptions")]
pub struct CustomRule<P> {
    /// Program or service that judges rows.
    #[serde(flatten)]
    pub peer: P,
    /// Maximum rows in one request.
    pub batch: BatchSize,
    /// With `trainyard_bridge`, the name of the function, if the program has several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Effect of an exception in the program: `fail` ends the stage, with `skip` the row stays.
    pub on_error: ExceptionPolicy,
}

/// Documentation of such a rule.
pub trait CustomRuleDocs: CustomCodeOptions {
    /// Summary, as in [`PartOptions`].
    const SUMMARY: &'static str;
    /// Documentation, as in [`PartOptions`].
    const DOC: &'static str;
}

impl CustomRuleDocs for ProgramOptions {
    const SUMMARY: &'static str = "a program of yours keeps or rejects each row";
    const DOC: &'static str = "Rejects the rows that the program `command` does not keep, with the reason that it\n\
        gives. It sees the messages, the answer, counts, the rewards, and the problem, if the input `problems` has\n\
        it; `correct` is whether the row's reward `answer` is above 0. All rows are asked for in requests of `batch`,\n\
        from `workers` processes. In Python a rule is a function with the decorator `@rule`\n\
        (`trainyard init --python`); `docs/own-code.md` has the protocol for any other language.\n\n\
        A program that dies or hangs ends the stage with a retryable error. An exception ends it with its traceback;\n\
        with `on_error: skip` the row stays, and the log has the first traceback. Reason: rejected.";
}

impl<P: CustomRuleDocs> PartOptions for CustomRule<P> {
    const KIND: &'static str = P::KIND;
    const SUMMARY: &'static str = P::SUMMARY;
    const DOC: &'static str = P::DOC;
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = self.peer.problems();
        problems.extend(self.batch.problem());
        problems
    }
}

impl<P: CustomRuleDocs> FilterRule for CustomRule<P> {
    fn kind(&self) -> &'static str {
        P::KIND
    }
    fn judge(&self, rows: &[&Trajectory], context: &RuleContext<'_>) -> Result<Vec<RuleVerdict>> {
        let hello = Hello { role: "rule", name: &self.name, seed: 0 };
        let peer = self.peer.open(hello, context.models.secrets(), context.log)?;
        let asking = RowQuery {
            peer: &*peer,
            op: "judge",
            batch: self.batch,
            on_error: self.on_error,
            skipped: "stays",
            problems: context.problems,
            log: context.log,
        };
        let judged = query_rows(&asking, rows, |_, said| read(said))?;
        Ok(judged.into_iter().map(|judged| judged.unwrap_or(RuleVerdict::Keep)).collect())
    }
}

fn read(said: &Value) -> Result<RuleVerdict> {
    let reason = said.get("reason").and_then(Value::as_str).unwrap_or_default();
    match said.get("keep").and_then(Value::as_bool) {
        Some(true) => Ok(RuleVerdict::Keep),
        Some(false) => Ok(RuleVerdict::reject("rejected", reason)),
        None => Err(Error::data(format!("the program answered `{said}` for a rule"))
            .help("answer {\"keep\": true or false}, with {\"reason\": \"…\"} if there is one")),
    }
}
