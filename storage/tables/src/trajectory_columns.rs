//! Converts [`Trajectory`] rows to and from Arrow columns, `rollout_format: 1`.

use crate::answer_check_columns;
use crate::decode::BatchColumns;
use crate::encode::{
    bool_lists, bools, lists, named_numbers, nested, numbers, optional_lists, optional_numbers, optional_strings,
    strings, structs,
};
use crate::extra::ExtraColumns;
use crate::problem_columns::{decode_messages, encode_messages, messages_type};
use crate::rows::TableRow;
use crate::schema::{self, list, optional, required, structure};
use crate::trajectory::{SamplingParams, Trajectory, Verdict};
use arrow_array::ArrayRef;
use arrow_array::types::{Float32Type, Float64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::DataType::{Boolean, Float32, Float64, UInt16, UInt32, UInt64, Utf8};
use arrow_schema::{Field, Schema, SchemaRef};
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use trainyard_core::Result;

static SAMPLING: LazyLock<Vec<Field>> =
    LazyLock::new(|| vec![required("temperature", Float64), required("top_p", Float64), required("top_k", UInt32)]);
static VERDICT: LazyLock<Vec<Field>> =
    LazyLock::new(|| vec![required("rule", Utf8), required("keep", Boolean), required("reason", Utf8)]);

fn schema(extra: ExtraColumns) -> SchemaRef {
    let mut columns = vec![
        required("id", Utf8),
        required("problem_id", Utf8),
        required("group", UInt32),
        required("sample", UInt32),
        required("token_ids", list(UInt32)),
        required("loss_mask", list(Boolean)),
        required("turn", list(UInt16)),
        optional("logprobs", list(Float32)),
        optional("entropies", list(Float32)),
        optional("weights_version", list(UInt32)),
        optional("advantages", list(Float32)),
        required("prompt_tokens", UInt32),
        optional("fork_of", Utf8),
        optional("fork_at", UInt32),
        required("step_ends", list(UInt32)),
        optional("step_labels", list(Float32)),
        optional("step_scores", list(Float32)),
        required("messages", messages_type(extra)),
        required("rewards", schema::named_numbers()),
        required("reward", Float64),
        required("turn_rewards", list(Float64)),
        required("stop_reason", Utf8),
        required("status", Utf8),
        required("turns", UInt32),
        required("tool_calls", UInt32),
        required("tool_errors", UInt32),
        optional("answer", Utf8),
        required("level", UInt32),
        required("sampling", structure(&SAMPLING)),
        required("environment", Utf8),
        required("seed", UInt64),
        optional("model_digest", Utf8),
        required("tokenizer_digest", Utf8),
        required("template_digest", Utf8),
        required("verdicts", list(structure(&VERDICT))),
        required("parents", list(Utf8)),
        optional("update", UInt32),
    ];
    columns.extend(extra.tools.then(|| optional("tools", Utf8)));
    columns.extend(extra.environment_tools.then(|| optional("environment_tools", Utf8)));
    columns.extend(extra.restarts.then(|| optional("restarts", list(UInt32))));
    columns.extend(extra.answer_check.then(answer_check_columns::columns).into_iter().flatten());
    columns.extend(extra.meta.then(|| optional("meta", Utf8)));
    // Only one key: the order of a hash map must not reach the file.
    Arc::new(Schema::new_with_metadata(columns, HashMap::from([("rollout_format".to_string(), "1".to_string())])))
}

impl TableRow for Trajectory {
    fn extra(rows: &[&Self]) -> ExtraColumns {
        let messages = ExtraColumns::of(rows.iter().flat_map(|r| &r.messages));
        let restarts = rows.iter().any(|r| !r.restarts.is_empty());
        let environment_tools = rows.iter().any(|r| r.environment_tools.is_some());
        let answer_check = rows.iter().any(|r| r.answer_check.is_some());
        let (tools, meta) = (rows.iter().any(|r| r.tools.is_some()), rows.iter().any(|r| r.meta.is_some()));
        ExtraColumns { tools, environment_tools, restarts, answer_check, meta, ..messages }
    }
    fn schema(extra: ExtraColumns) -> SchemaRef {
        schema(extra)
    }
    fn encode_column(rows: &[&Self], name: &str, extra: ExtraColumns) -> Option<ArrayRef> {
        Some(match name {
            "id" => strings(rows.iter().map(|r| r.id.as_str())),
            "problem_id" => strings(rows.iter().map(|r| r.problem_id.as_str())),
            "group" => numbers::<UInt32Type>(rows.iter().map(|r| r.group)),
            "sample" => numbers::<UInt32Type>(rows.iter().map(|r| r.sample)),
            "token_ids" => lists::<UInt32Type>(rows.iter().map(|r| r.token_ids.as_slice())),
            "loss_mask" => bool_lists(rows.iter().map(|r| r.loss_mask.as_slice())),
            "turn" => lists::<UInt16Type>(rows.iter().map(|r| r.turn.as_slice())),
            "logprobs" => optional_lists::<Float32Type>(rows.iter().map(|r| r.logprobs.as_deref())),
            "entropies" => optional_lists::<Float32Type>(rows.iter().map(|r| r.entropies.as_deref())),
            "weights_version" => optional_lists::<UInt32Type>(rows.iter().map(|r| r.weights_version.as_deref())),
            "advantages" => optional_lists::<Float32Type>(rows.iter().map(|r| r.advantages.as_deref())),
            "prompt_tokens" => numbers::<UInt32Type>(rows.iter().map(|r| r.prompt_tokens)),
            "fork_of" => optional_strings(rows.iter().map(|r| r.fork_of.as_deref())),
            "fork_at" => optional_numbers::<UInt32Type>(rows.iter().map(|r| r.fork_at)),
            "step_ends" => lists::<UInt32Type>(rows.iter().map(|r| r.step_ends.as_slice())),
            "step_labels" => optional_lists::<Float32Type>(rows.iter().map(|r| r.step_labels.as_deref())),
            "step_scores" => optional_lists::<Float32Type>(rows.iter().map(|r| r.step_scores.as_deref())),
            "messages" => encode_messages(rows.iter().map(|r| r.messages.as_slice()), extra),
            "rewards" => named_numbers(rows.iter().map(|r| &r.rewards)),
            "reward" => numbers::<Float64Type>(rows.iter().map(|r| r.reward)),
            "turn_rewards" => lists::<Float64Type>(rows.iter().map(|r| r.turn_rewards.as_slice())),
            "stop_reason" => words(rows.iter().map(|r| &r.stop_reason)),
            "status" => words(rows.iter().map(|r| &r.status)),
            "turns" => numbers::<UInt32Type>(rows.iter().map(|r| r.turns)),
            "tool_calls" => numbers::<UInt32Type>(rows.iter().map(|r| r.tool_calls)),
            "tool_errors" => numbers::<UInt32Type>(rows.iter().map(|r| r.tool_errors)),
            "answer" => optional_strings(rows.iter().map(|r| r.answer.as_deref())),
            "level" => numbers::<UInt32Type>(rows.iter().map(|r| r.level)),
            "sampling" => encode_sampling(rows),
            "environment" => strings(rows.iter().map(|r| r.environment.as_str())),
            "seed" => numbers::<UInt64Type>(rows.iter().map(|r| r.seed)),
            "model_digest" => optional_strings(rows.iter().map(|r| r.model_digest.as_deref())),
            "tokenizer_digest" => strings(rows.iter().map(|r| r.tokenizer_digest.as_str())),
            "template_digest" => strings(rows.iter().map(|r| r.template_digest.as_str())),
            "verdicts" => encode_verdicts(rows),
            "parents" => encode_parents(rows),
            "update" => optional_numbers::<UInt32Type>(rows.iter().map(|r| r.update)),
            "tools" => optional_strings(rows.iter().map(|r| r.tools.as_deref())),
            "environment_tools" => optional_strings(rows.iter().map(|r| r.environment_tools.as_deref())),
            "restarts" => encode_restarts(rows),
            "meta" => optional_strings(rows.iter().map(|r| r.meta.as_deref())),
            _ => return answer_check_columns::encode(rows, name),
        })
    }
    fn decode(columns: &BatchColumns<'_>) -> Result<Vec<Self>> {
        let mut rows = vec![Self::default(); columns.rows()];
        decode_tokens(columns, &mut rows)?;
        decode_outcome(columns, &mut rows)?;
        decode_origin(columns, &mut rows)?;
        Ok(rows)
    }
}

/// Moves the values of a column into a field of every row.
fn fill<V>(rows: &mut [Trajectory], values: Vec<V>, set: impl Fn(&mut Trajectory, V)) {
    rows.iter_mut().zip(values).for_each(|(row, value)| set(row, value));
}

fn decode_tokens(columns: &BatchColumns<'_>, rows: &mut [Trajectory]) -> Result<()> {
    fill(rows, columns.lists::<UInt32Type>("token_ids")?, |r, v| r.token_ids = v);
    fill(rows, columns.bool_lists("loss_mask")?, |r, v| r.loss_mask = v);
    fill(rows, columns.lists::<UInt16Type>("turn")?, |r, v| r.turn = v);
    fill(rows, columns.optional_lists::<Float32Type>("logprobs")?, |r, v| r.logprobs = v);
    fill(rows, columns.optional_lists::<Float32Type>("entropies")?, |r, v| r.entropies = v);
    fill(rows, columns.optional_lists::<UInt32Type>("weights_version")?, |r, v| r.weights_version = v);
    fill(rows, columns.optional_lists::<Float32Type>("advantages")?, |r, v| r.advantages = v);
    fill(rows, columns.numbers::<UInt32Type>("prompt_tokens")?, |r, v| r.prompt_tokens = v);
    fill(rows, columns.optional_strings("fork_of")?, |r, v| r.fork_of = v);
    fill(rows, columns.optional_numbers::<UInt32Type>("fork_at")?, |r, v| r.fork_at = v);
    fill(rows, columns.lists::<UInt32Type>("step_ends")?, |r, v| r.step_ends = v);
    fill(rows, columns.optional_lists::<Float32Type>("step_labels")?, |r, v| r.step_labels = v);
    fill(rows, columns.optional_lists::<Float32Type>("step_scores")?, |r, v| r.step_scores = v);
    Ok(())
}

fn decode_outcome(columns: &BatchColumns<'_>, rows: &mut [Trajectory]) -> Result<()> {
    fill(rows, decode_messages(columns)?, |r, v| r.messages = v);
    fill(rows, columns.optional_strings("tools")?, |r, v| r.tools = v);
    fill(rows, columns.optional_strings("environment_tools")?, |r, v| r.environment_tools = v);
    let restarts = columns.optional_lists::<UInt32Type>("restarts")?;
    fill(rows, restarts, |r, v| r.restarts = v.unwrap_or_default());
    fill(rows, columns.named_numbers("rewards")?, |r, v| r.rewards = v);
    fill(rows, columns.numbers::<Float64Type>("reward")?, |r, v| r.reward = v);
    fill(rows, columns.lists::<Float64Type>("turn_rewards")?, |r, v| r.turn_rewards = v);
    fill(rows, columns.words("stop_reason")?, |r, v| r.stop_reason = v);
    fill(rows, columns.words("status")?, |r, v| r.status = v);
    fill(rows, columns.numbers::<UInt32Type>("turns")?, |r, v| r.turns = v);
    fill(rows, columns.numbers::<UInt32Type>("tool_calls")?, |r, v| r.tool_calls = v);
    fill(rows, columns.numbers::<UInt32Type>("tool_errors")?, |r, v| r.tool_errors = v);
    fill(rows, columns.optional_strings("answer")?, |r, v| r.answer = v);
    fill(rows, answer_check_columns::decode(columns)?, |r, v| r.answer_check = v);
    fill(rows, decode_verdicts(columns)?, |r, v| r.verdicts = v);
    Ok(())
}

fn decode_origin(columns: &BatchColumns<'_>, rows: &mut [Trajectory]) -> Result<()> {
    fill(rows, columns.strings("id")?, |r, v| r.id = v);
    fill(rows, columns.strings("problem_id")?, |r, v| r.problem_id = v);
    fill(rows, columns.numbers::<UInt32Type>("group")?, |r, v| r.group = v);
    fill(rows, columns.numbers::<UInt32Type>("sample")?, |r, v| r.sample = v);
    fill(rows, columns.numbers::<UInt32Type>("level")?, |r, v| r.level = v);
    fill(rows, decode_sampling(columns)?, |r, v| r.sampling = v);
    fill(rows, columns.strings("environment")?, |r, v| r.environment = v);
    fill(rows, columns.numbers::<UInt64Type>("seed")?, |r, v| r.seed = v);
    fill(rows, columns.optional_strings("model_digest")?, |r, v| r.model_digest = v);
    fill(rows, columns.strings("tokenizer_digest")?, |r, v| r.tokenizer_digest = v);
    fill(rows, columns.strings("template_digest")?, |r, v| r.template_digest = v);
    fill(rows, columns.string_lists("parents")?, |r, v| r.parents = v);
    fill(rows, columns.optional_numbers::<UInt32Type>("update")?, |r, v| r.update = v);
    fill(rows, columns.optional_strings("meta")?, |r, v| r.meta = v);
    Ok(())
}

/// Returns the serde name of each value, so JSON and Parquet spell it alike.
fn words<'a, T: Serialize + 'a>(values: impl Iterator<Item = &'a T>) -> ArrayRef {
    let name = |value: &T| match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    };
    let names: Vec<_> = values.map(name).collect();
    strings(names.iter().map(String::as_str))
}

fn encode_sampling(rows: &[&Trajectory]) -> ArrayRef {
    let columns = vec![
        numbers::<Float64Type>(rows.iter().map(|r| r.sampling.temperature)),
        numbers::<Float64Type>(rows.iter().map(|r| r.sampling.top_p)),
        numbers::<UInt32Type>(rows.iter().map(|r| r.sampling.top_k)),
    ];
    structs(&structure(&SAMPLING), columns)
}

fn decode_sampling(columns: &BatchColumns<'_>) -> Result<Vec<SamplingParams>> {
    let parts = columns.structs("sampling", &Schema::new(SAMPLING.clone()))?;
    let (temperatures, top_ps, counts) = (
        parts.numbers::<Float64Type>("temperature")?,
        parts.numbers::<Float64Type>("top_p")?,
        parts.numbers::<UInt32Type>("top_k")?,
    );
    let sampling = temperatures.into_iter().zip(top_ps).zip(counts);
    Ok(sampling.map(|((temperature, top_p), top_k)| SamplingParams { temperature, top_p, top_k }).collect())
}

fn encode_verdicts(rows: &[&Trajectory]) -> ArrayRef {
    let all = || rows.iter().flat_map(|row| row.verdicts.iter());
    let columns = vec![
        strings(all().map(|v| v.rule.as_str())),
        bools(all().map(|v| v.keep)),
        strings(all().map(|v| v.reason.as_str())),
    ];
    nested(rows.iter().map(|row| row.verdicts.len()), structs(&structure(&VERDICT), columns), None)
}

fn encode_parents(rows: &[&Trajectory]) -> ArrayRef {
    let all = strings(rows.iter().flat_map(|r| r.parents.iter().map(String::as_str)));
    nested(rows.iter().map(|r| r.parents.len()), all, None)
}

/// Encodes an empty list as null.
fn encode_restarts(rows: &[&Trajectory]) -> ArrayRef {
    let restarts = rows.iter().map(|r| Some(r.restarts.as_slice()).filter(|restarts| !restarts.is_empty()));
    optional_lists::<UInt32Type>(restarts)
}

fn decode_verdicts(columns: &BatchColumns<'_>) -> Result<Vec<Vec<Verdict>>> {
    let (ranges, parts) = columns.struct_lists("verdicts", &Schema::new(VERDICT.clone()))?;
    let (rules, keeps, reasons) = (parts.strings("rule")?, parts.bools("keep")?, parts.strings("reason")?);
    let verdict = |i: usize| Verdict { rule: rules[i].clone(), keep: keeps[i], reason: reasons[i].clone() };
    Ok(ranges.into_iter().map(|range| range.map(verdict).collect()).collect())
}
