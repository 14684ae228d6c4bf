//! Implements the rule `process`: a user-defined program judges each row (`docs/custom-code.md`). The rule `http`
//! ([`super::http`]) queries a service in the same way.

use crate::custom_rows::{EPISODE_COLUMNS, RowQuery, query_rows};
use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use serde_json::Value;
use std::cell::Cell;
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_envs::programs::{CustomCodeOptions, CustomCodePage, CustomCodeRole, CustomRoleOptions};
use trainyard_process::{ProgramOptions, ProgramService};
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
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&EPISODE_COLUMNS)
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let peer = self.open(context.models.secrets(), context.log)?;
        Ok(Box::new(CustomPass { rule: self, peer, context, skipped: Cell::new(false) }))
    }
}

struct CustomPass<'a, P> {
    rule: &'a CustomRule<P>,
    peer: Arc<dyn ProgramService>,
    context: &'a RuleContext<'a>,
    /// Whether a skipped row was logged.
    skipped: Cell<bool>,
}

impl<P: CustomCodeOptions> RulePass for CustomPass<'_, P> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let query = RowQuery {
            peer: &*self.peer,
            op: "judge",
            batch: self.rule.batch,
            on_error: self.rule.on_error,
            skipped: "stays",
            problems: self.context.problems,
            log: self.context.log,
            is_logged: &self.skipped,
        };
        let rows: Vec<&Trajectory> = rows.trajectories()?.iter().collect();
        let judged = query_rows(&query, &rows, |_, response| read(response))?;
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
