//! Reads and writes the `results` table of an evaluation: one row per model × problem × sample, from which every metric
//! and every paired comparison is computed.
//!
//! The columns, in this order:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `model` | string | name in the evaluation |
//! | `problem_id` | string | cluster of all its samples |
//! | `level` | i64 | difficulty, 0 = unknown |
//! | `sample` | i64 | −1 = the greedy one, otherwise from 0 |
//! | `correct` | bool, null | verified; null = infrastructure failure, counted separately |
//! | `answer` | string, null | as the environment read it |
//! | `reward` | f64, null | outcome reward: 1 = correct, 0 = incorrect; null = infrastructure failure |
//! | `stop_reason` | string | `answer`, `end`, `length`, … |
//! | `turns`, `tool_calls`, `tool_errors`, `tokens` | i64 | `tokens` = sampled ones |
//! | `logprob` | f64, null | sum over its sampled tokens, in nats, under the sampling distribution; null = greedy |
//! | `prm_min`, `prm_product`, `prm_last` | f64, null | reduced step scores, if a process reward model was given |
//! | `rollout` | string, null | id in the output `trajectories`; null = not kept |
//! | `expected`, `verifier` | string, null | what the answer was compared with, and by which verifier |
//! | `unreadable` | string, null | why the episode has no readable answer; null = it has one |
//!
//! An infrastructure failure is a null, never a 0.

use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type};
use arrow_array::{Array, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use serde::{Deserialize, Serialize};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{AnswerCheck, TableBuilder, read_batches};

/// Fact about a table of results: the names of its models.
pub const MODELS_FACT: &str = "models";

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ResultRow {
    /// Name of the model in the evaluation.
    pub model: String,
    /// Id of the problem; statistics cluster samples by it.
    pub problem_id: String,
    /// Difficulty; 0 = unknown.
    pub level: u32,
    /// Number of the sample; −1 = greedy.
    pub sample: i32,
    /// Whether the answer is correct; `None` = infrastructure failure.
    pub correct: Option<bool>,
    /// Answer as the environment read it; `None` if the episode has no answer.
    pub answer: Option<String>,
    /// Reward of the outcome: 1 = correct, 0 = incorrect; `None` = infrastructure failure.
    pub reward: Option<f64>,
    /// Reason for the end of the episode: `answer`, `end`, `length`, …
    pub stop_reason: String,
    /// Turns that the agent took.
    pub turns: u32,
    /// Tool calls of the episode.
    pub tool_calls: u32,
    /// Tool calls that failed.
    pub tool_errors: u32,
    /// Number of sampled tokens.
    pub tokens: u32,
    /// Sum of log-probabilities over the sampled tokens; `None` = greedy.
    pub logprob: Option<f64>,
    /// Lowest step score of the process reward model; `None` without one.
    pub prm_min: Option<f64>,
    /// Product of the step scores; `None` without a process reward model.
    pub prm_product: Option<f64>,
    /// Score of the last step; `None` without a process reward model.
    pub prm_last: Option<f64>,
    /// Rollout id; `None` = not kept.
    pub rollout: Option<String>,
    /// Expected answer; `None` = infrastructure failure, or a table of a version before this column.
    pub expected: Option<String>,
    /// Kind of the verifier that compared the answers.
    pub verifier: Option<String>,
    /// Reason why the episode has no readable answer; `None` if there is one.
    pub unreadable: Option<String>,
}

impl ResultRow {
    /// Sets the columns of the check of the answer.
    #[must_use]
    pub fn checked(self, check: Option<&AnswerCheck>) -> Self {
        Self {
            expected: check.map(|c| c.expected.clone()),
            verifier: check.map(|c| c.verifier.clone()),
            unreadable: check.and_then(|c| c.unreadable.clone()),
            ..self
        }
    }
}

/// Writes the table in the order of the rows.
pub fn write_results(path: &Path, rows: &[ResultRow]) -> Result<u64> {
    let count = |of: fn(&ResultRow) -> u32| rows.iter().map(move |r| Some(i64::from(of(r))));
    TableBuilder::new()
        .string("model", rows.iter().map(|r| &r.model))
        .string("problem_id", rows.iter().map(|r| &r.problem_id))
        .i64("level", count(|r| r.level))
        .i64("sample", rows.iter().map(|r| Some(i64::from(r.sample))))
        .bool("correct", rows.iter().map(|r| r.correct))
        .optional_string("answer", rows.iter().map(|r| r.answer.as_ref()))
        .f64("reward", rows.iter().map(|r| r.reward))
        .string("stop_reason", rows.iter().map(|r| &r.stop_reason))
        .i64("turns", count(|r| r.turns))
        .i64("tool_calls", count(|r| r.tool_calls))
        .i64("tool_errors", count(|r| r.tool_errors))
        .i64("tokens", count(|r| r.tokens))
        .f64("logprob", rows.iter().map(|r| r.logprob))
        .f64("prm_min", rows.iter().map(|r| r.prm_min))
        .f64("prm_product", rows.iter().map(|r| r.prm_product))
        .f64("prm_last", rows.iter().map(|r| r.prm_last))
        .optional_string("rollout", rows.iter().map(|r| r.rollout.as_ref()))
        .optional_string("expected", rows.iter().map(|r| r.expected.as_ref()))
        .optional_string("verifier", rows.iter().map(|r| r.verifier.as_ref()))
        .optional_string("unreadable", rows.iter().map(|r| r.unreadable.as_ref()))
        .write(path)
}

/// Reads a table written by [`write_results`]. Errors: data, naming the file and the column.
pub fn read_results(path: &Path) -> Result<Vec<ResultRow>> {
    let (_, batches) = read_batches(path)?;
    let mut rows = Vec::new();
    for batch in &batches {
        rows.extend(decode(batch).map_err(|e| e.at(path.display()))?);
    }
    Ok(rows)
}

fn decode(batch: &RecordBatch) -> Result<Vec<ResultRow>> {
    let text = |name: &str| -> Result<Vec<Option<String>>> {
        Ok(column::<StringArray>(batch, name)?.iter().map(|v| v.map(str::to_string)).collect())
    };
    let (model, problem, answer, stop) = (text("model")?, text("problem_id")?, text("answer")?, text("stop_reason")?);
    let rollout = text("rollout")?;
    // Tables of versions before these columns lack them.
    let later = |name: &str| match batch.column_by_name(name) {
        Some(_) => text(name),
        None => Ok(vec![None; batch.num_rows()]),
    };
    let (expected, verifier, unreadable) = (later("expected")?, later("verifier")?, later("unreadable")?);
    let correct: Vec<Option<bool>> = column::<BooleanArray>(batch, "correct")?.iter().collect();
    let integers = |name: &str| numbers::<Int64Type>(batch, name);
    let (level, sample, turns) = (integers("level")?, integers("sample")?, integers("turns")?);
    let (calls, errors, tokens) = (integers("tool_calls")?, integers("tool_errors")?, integers("tokens")?);
    let floats = |name: &str| numbers::<Float64Type>(batch, name);
    let (reward, logprob) = (floats("reward")?, floats("logprob")?);
    let (lowest, product, last) = (floats("prm_min")?, floats("prm_product")?, floats("prm_last")?);
    let count = |value: Option<i64>, name: &str| {
        value
            .and_then(|v| u32::try_from(v).ok())
            .ok_or_else(|| Error::data(format!("column `{name}` is {value:?}, expected a count")))
    };
    let some = |value: &Option<String>, name: &str| {
        value.clone().ok_or_else(|| Error::data(format!("column `{name}` is null")))
    };
    let row = |i: usize| -> Result<ResultRow> {
        Ok(ResultRow {
            model: some(&model[i], "model")?,
            problem_id: some(&problem[i], "problem_id")?,
            level: count(level[i], "level")?,
            sample: sample[i]
                .and_then(|v| i32::try_from(v).ok())
                .ok_or_else(|| Error::data("column `sample` is not a sample number"))?,
            correct: correct[i],
            answer: answer[i].clone(),
            reward: reward[i],
            stop_reason: some(&stop[i], "stop_reason")?,
            turns: count(turns[i], "turns")?,
            tool_calls: count(calls[i], "tool_calls")?,
            tool_errors: count(errors[i], "tool_errors")?,
            tokens: count(tokens[i], "tokens")?,
            logprob: logprob[i],
            prm_min: lowest[i],
            prm_product: product[i],
            prm_last: last[i],
            rollout: rollout[i].clone(),
            expected: expected[i].clone(),
            verifier: verifier[i].clone(),
            unreadable: unreadable[i].clone(),
        })
    };
    (0..batch.num_rows()).map(row).collect()
}

fn numbers<T: ArrowPrimitiveType>(batch: &RecordBatch, name: &str) -> Result<Vec<Option<T::Native>>> {
    Ok(column::<PrimitiveArray<T>>(batch, name)?.iter().collect())
}

pub(crate) fn column<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Result<&'a A> {
    let help = "wire the output `results` of an `evaluate` stage";
    let column = batch
        .column_by_name(name)
        .ok_or_else(|| Error::data(format!("the table has no column `{name}`")).help(help))?;
    column
        .as_any()
        .downcast_ref::<A>()
        .ok_or_else(|| Error::data(format!("column `{name}` is {}", column.data_type())).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let failed = ResultRow {
            model: "rl".into(),
            problem_id: "b".into(),
            sample: 3,
            stop_reason: "error".into(),
            ..ResultRow::default()
        };
        let scored = ResultRow {
            correct: Some(true),
            answer: Some("7".into()),
            sample: -1,
            prm_last: Some(0.25),
            rollout: Some("evaluate/rl/greedy/b/0".into()),
            tokens: 9,
            level: 2,
            ..failed.clone()
        };
        let unreadable = AnswerCheck {
            expected: "7".into(),
            verifier: "numeric".into(),
            unreadable: Some("no number in the answer".into()),
            ..AnswerCheck::default()
        };
        let unreadable = scored.clone().checked(Some(&unreadable));
        write_results(&path, &[scored.clone(), failed.clone(), unreadable.clone()]).unwrap();
        assert_eq!(read_results(&path).unwrap(), [scored, failed, unreadable]);
    }

    #[test]
    fn tables_without_checks_of_answers_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let row =
            ResultRow { model: "rl".into(), problem_id: "b".into(), answer: Some("7".into()), ..ResultRow::default() };
        write_results(&path, std::slice::from_ref(&row)).unwrap();
        let (schema, batches) = read_batches(&path).unwrap();
        let kept: Vec<usize> = (0..schema.fields().len() - 3).collect();
        let older = batches[0].project(&kept).unwrap();
        trainyard_tables::write_batches(&path, older.schema(), &[older]).unwrap();
        assert!(trainyard_tables::read_schema(&path).unwrap().field_with_name("unreadable").is_err());
        assert_eq!(read_results(&path).unwrap(), [row]);
    }

    #[test]
    fn other_tables_are_rejected_by_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        TableBuilder::new().string("model", ["a"]).write(&path).unwrap();
        assert!(read_results(&path).unwrap_err().message.contains("problem_id"));
    }
}
