//! Implements the scorer `process`: a user-defined program labels the agent's turns (`docs/custom-code.md`). The scorer
//! `http` ([`super::http`]) queries a service in the same way.

use super::scorer::{ScoringContext, StepScorer, turns};
use crate::custom_rows::{RowQuery, query_rows};
use serde_json::Value;
use std::cell::Cell;
use trainyard_core::{Error, Result};
use trainyard_envs::programs::{CustomCodeOptions, CustomCodePage, CustomCodeRole, CustomRoleOptions};
use trainyard_process::ProgramOptions;
use trainyard_tables::Trajectory;

/// User-defined code as a step scorer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScorerRole;

/// Step scorer that labels turns with user-defined code.
pub type CustomStepScorer<P> = CustomRoleOptions<ScorerRole, P>;

impl CustomCodeRole for ScorerRole {
    const ROLE: &'static str = "step_scorer";
    const BATCH: &'static str = "Maximum rows in one request.";
    const ON_ERROR: &'static str = "Effect of an exception in the program: `fail` ends the stage, with `skip` the \
        steps of the row stay without\nlabels.";
}

impl CustomCodePage<ProgramOptions> for ScorerRole {
    const SUMMARY: &'static str = "labels the agent's turns by a custom program";
    const DOC: &'static str = "The program gives each turn of the agent a number from 0 (wrong) to 1 (right),\n\
        or null for an unlabeled turn. It sees the messages, the answer, counts, the rewards, and the\n\
        problem, if the input `problems` has it; `correct` is whether the row's reward `answer` is above 0. Rows\n\
        are sent in requests of `batch` rows to `workers` processes. In Python a scorer is a function\n\
        with the decorator `@step_scorer` (`trainyard init --python`); `docs/custom-code.md` has the protocol for\n\
        any other language.\n\n\
        A program that dies or hangs ends the stage with a retryable error. An exception ends it with its\n\
        traceback; with `on_error: skip` the row has no labels, and the log has the first traceback.";
}

impl<P: CustomCodeOptions> StepScorer for CustomStepScorer<P> {
    fn kind(&self) -> &'static str {
        P::KIND
    }
    fn label(&self, rows: &[&Trajectory], context: &ScoringContext<'_>) -> Result<Vec<Vec<Option<f32>>>> {
        let peer = self.open(context.secrets, context.log)?;
        let query = RowQuery {
            peer: &*peer,
            op: "label",
            batch: self.batch,
            on_error: self.on_error,
            skipped: "has no labels",
            problems: context.problems,
            log: context.log,
            is_logged: &Cell::new(false),
        };
        let labels = query_rows(&query, rows, |row, response| read(response, turns(row)))?;
        Ok(rows.iter().zip(labels).map(|(row, labels)| labels.unwrap_or_else(|| vec![None; turns(row)])).collect())
    }
}

fn read(response: &Value, turns: usize) -> Result<Vec<Option<f32>>> {
    let wrong = |message: String| {
        Error::data(message)
            .help("return {\"labels\": […]} with a number from 0 to 1, or null, for each turn of the agent")
    };
    let Some(labels) = response.get("labels").and_then(Value::as_array) else {
        return Err(wrong(format!("the program returned `{response}` for a step scorer")));
    };
    if labels.len() != turns {
        return Err(wrong(format!("the program gave {} labels to {turns} turns", labels.len())));
    }
    let one = |label: &Value| match label {
        Value::Null => Ok(None),
        label => match label.as_f64().filter(|number| (0.0..=1.0).contains(number)) {
            Some(number) => Ok(Some(number as f32)),
            None => Err(wrong(format!("the program gave the label {label}"))),
        },
    };
    labels.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_turn_has_a_label_or_null() {
        assert_eq!(read(&json!({"labels": [0, null, 0.5]}), 3).unwrap(), [Some(0.0), None, Some(0.5)]);
        for (response, words) in [
            (json!({"value": 1}), "for a step scorer"),
            (json!({"labels": [1]}), "1 labels to 3 turns"),
            (json!({"labels": [1, 2, 0]}), "the label 2"),
            (json!({"labels": [1, "high", 0]}), "the label \"high\""),
        ] {
            let error = read(&response, 3).unwrap_err();
            assert!(error.message.contains(words) && error.help.is_some(), "{error}");
        }
    }
}
