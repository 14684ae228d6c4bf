//! Implements the rule `process`: a user-defined program judges each row (`docs/custom-code.md`). The rule `http`
//! ([`super::http`]) queries a service in the same way.

use super::rule::{FilterRule, RuleContext, RuleVerdict};
use crate::custom_rows::{RowQuery, query_rows};
use serde_json::Value;
use trainyard_core::{Error, Result};
use trainyard_envs::programs::{CustomCodeOptions, CustomCodePage, CustomCodeRole, CustomRoleOptions};
use trainyard_process::ProgramOptions;
use trainyard_tables::Trajectory;

/// User-defined code as a rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleRole;

/// Rule that rejects the rows that user-defined code does not keep.
pub type CustomRule<P> = CustomRoleOptions<RuleRole, P>;

impl CustomCodeRole for RuleRole {
    const ROLE: &'static str = "rule";
    const BATCH: &'static str = "Maximum rows in one request.";
    const ON_ERROR: &'static str =
        "Effect of an exception in the program: `fail` ends the stage, with `skip` the row stays.";
}

impl CustomCodePage<ProgramOptions> for RuleRole {
    const SUMMARY: &'static str = "keeps or rejects each row by a custom program";
    const DOC: &'static str = "Rejects the rows that the program `command` does not keep, with the reason that it\n\
        gives. It sees the messages, the answer, counts, the rewards, and the problem, if the input `problems` has\n\
        it; `correct` is whether the row's reward `answer` is above 0. Rows are sent in requests of `batch` rows\n\
        to `workers` processes. In Python a rule is a function with the decorator `@rule`\n\
        (`trainyard init --python`); `docs/custom-code.md` has the protocol for any other language.\n\n\
        A program that dies or hangs ends the stage with a retryable error. An exception ends it with its traceback;\n\
        with `on_error: skip` the row stays, and the log has the first traceback. Reason: rejected.";
}

impl<P: CustomCodeOptions> FilterRule for CustomRule<P> {
    fn kind(&self) -> &'static str {
        P::KIND
    }
    fn judge(&self, rows: &[&Trajectory], context: &RuleContext<'_>) -> Result<Vec<RuleVerdict>> {
        let peer = self.open(context.models.secrets(), context.log)?;
        let query = RowQuery {
            peer: &*peer,
            op: "judge",
            batch: self.batch,
            on_error: self.on_error,
            skipped: "stays",
            problems: context.problems,
            log: context.log,
        };
        let judged = query_rows(&query, rows, |_, response| read(response))?;
        Ok(judged.into_iter().map(|judged| judged.unwrap_or(RuleVerdict::Keep)).collect())
    }
}

fn read(response: &Value) -> Result<RuleVerdict> {
    let reason = response.get("reason").and_then(Value::as_str).unwrap_or_default();
    match response.get("keep").and_then(Value::as_bool) {
        Some(true) => Ok(RuleVerdict::Keep),
        Some(false) => Ok(RuleVerdict::reject("rejected", reason)),
        None => Err(Error::data(format!("the program returned `{response}` for a rule"))
            .help("return {\"keep\": true or false}, optionally with {\"reason\": \"…\"}")),
    }
}
