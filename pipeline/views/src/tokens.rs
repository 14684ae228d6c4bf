//! Shows the tokens of a trajectory with one value each, and finds the tokenizer that made them.

use crate::find::ResolvedOutput;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap, VecDeque};
use trainyard_core::{Error, Manifest, Output, Result};
use trainyard_store::Store;

/// File of a tokenizer in a model's folder.
const TOKENIZER: &str = "tokenizer.json";
/// Maximum manifests that are searched for a tokenizer.
const MAX_SEARCHED: usize = 50;
/// Columns that a row of tokens may have.
pub(crate) const COLUMNS: [&str; 11] = [
    "token_ids",
    "loss_mask",
    "turn",
    "logprobs",
    "entropies",
    "advantages",
    "weights_version",
    "restarts",
    "step_ends",
    "step_labels",
    "step_scores",
];

/// Value that is shown of each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenValue {
    /// 1 for tokens in the loss, otherwise 0.
    Loss,
    /// Log-probability of a sampled token.
    Logprob,
    /// Entropy of the distribution of a sampled token, in nats.
    Entropy,
    /// Advantage of a sampled token.
    Advantage,
    /// Label of the token's step, or else its score, or else the number of the step.
    Step,
}

/// Tokens of a trajectory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenPage {
    /// Shown value.
    pub value: TokenValue,
    /// Lowest and highest value; null if no token has one.
    pub range: Option<(f64, f64)>,
    /// Number of contexts: sequences that the model read separately.
    pub contexts: usize,
    /// Tokens of all contexts, in order.
    pub tokens: Vec<TokenRow>,
}

/// Token of a trajectory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenRow {
    /// Position in the row's lists, from 0.
    pub position: usize,
    /// Token id.
    pub token: u32,
    /// Decoded text; null if the tokenizer was not found.
    pub text: Option<String>,
    /// Agent turn, from 0.
    pub turn: Option<u64>,
    /// Whether the token is in the loss.
    pub mask: bool,
    /// The shown value; null if the row lacks it.
    pub value: Option<f64>,
    /// Number of the context that begins with this token, from 1; the first context has no mark.
    pub context_starts: Option<usize>,
    /// Whether a turn begins with this token.
    pub turn_starts: bool,
    /// Number of the step that ends with this token, from 1.
    pub step_ends: Option<usize>,
}

impl TokenValue {
    /// Names of all values.
    pub const NAMES: [&str; 5] = ["loss", "logprob", "entropy", "advantage", "step"];

    /// Returns the value with this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Loss, Self::Logprob, Self::Entropy, Self::Advantage, Self::Step];
        all.into_iter().find(|value| value.name() == name)
    }
    /// Returns the name of the value.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
    /// Returns the column that a row needs for the value.
    fn column(self) -> &'static str {
        match self {
            Self::Loss => "loss_mask",
            Self::Logprob => "logprobs",
            Self::Entropy => "entropies",
            Self::Advantage => "advantages",
            Self::Step => "step_ends",
        }
    }
}

/// Shows the tokens of a row with a value, by default the log-probability or else the loss mask. Errors: invalid (the
/// row has no such column), data (lists of different lengths).
pub fn page(row: &Map<String, Value>, value: Option<TokenValue>) -> Result<TokenPage> {
    let ids = required(row, "token_ids")?;
    let value = value.unwrap_or(if list(row, "logprobs").is_some() { TokenValue::Logprob } else { TokenValue::Loss });
    required(row, value.column())?;
    let mask = same_length(row, "loss_mask", ids.len())?;
    let turns = same_length(row, "turn", ids.len())?;
    let restarts = positions(row, "restarts");
    let step_ends = positions(row, "step_ends");
    let values = values(row, value, ids.len(), mask, &step_ends)?;
    let is_in_loss = |at: usize| mask.is_some_and(|mask| mask[at] == Value::Bool(true));
    let turn = |at: usize| turns.and_then(|turns| turns[at].as_u64());
    let (restart_numbers, end_numbers) = (numbers(&restarts), numbers(&step_ends));
    let mut tokens = Vec::with_capacity(ids.len());
    for (at, id) in ids.iter().enumerate() {
        let token = id.as_u64().and_then(|id| u32::try_from(id).ok());
        tokens.push(TokenRow {
            position: at,
            token: token.ok_or_else(|| Error::data(format!("`token_ids` has {id} at {at}, which is no token id")))?,
            text: None,
            turn: turn(at),
            mask: is_in_loss(at),
            value: values[at],
            context_starts: restart_numbers.get(&at).map(|number| number + 1),
            turn_starts: turns.is_some() && (at == 0 || turn(at) != turn(at - 1)),
            step_ends: end_numbers.get(&(at + 1)).copied(),
        });
    }
    Ok(TokenPage { value, range: range(&values), contexts: restarts.len() + 1, tokens })
}

/// Returns the number of each position, from 1; the first of equal positions counts.
fn numbers(positions: &[usize]) -> HashMap<usize, usize> {
    positions.iter().enumerate().rev().map(|(index, position)| (*position, index + 1)).collect()
}

fn range(values: &[Option<f64>]) -> Option<(f64, f64)> {
    let known = values.iter().flatten().copied();
    known.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// Returns the value of each token. Sampled values are unknown outside the loss mask, where rows have 0.
fn values(
    row: &Map<String, Value>,
    value: TokenValue,
    count: usize,
    mask: Option<&[Value]>,
    step_ends: &[usize],
) -> Result<Vec<Option<f64>>> {
    if value == TokenValue::Step {
        let grades = list(row, "step_labels").or_else(|| list(row, "step_scores"));
        let grade = |step: usize| match grades {
            Some(grades) => grades.get(step).and_then(Value::as_f64),
            None => Some((step + 1) as f64),
        };
        let first = row.get("prompt_tokens").and_then(Value::as_u64).unwrap_or(0) as usize;
        // The first step that ends after a token has the first greater end, also if the ends are in disorder.
        let greatest = step_ends.iter().scan(0, |greatest, end| {
            *greatest = usize::max(*greatest, *end);
            Some(*greatest)
        });
        let greatest: Vec<usize> = greatest.collect();
        let step = |at: usize| {
            let step = greatest.partition_point(|end| *end <= at);
            (step < greatest.len() && at >= first).then_some(step)
        };
        return Ok((0..count).map(|at| step(at).and_then(grade)).collect());
    }
    let list = same_length(row, value.column(), count)?.unwrap_or_default();
    let of = |at: usize| match &list[at] {
        Value::Bool(is_in_loss) => Some(f64::from(u8::from(*is_in_loss))),
        number => number.as_f64().filter(|_| mask.is_none_or(|mask| mask[at] == Value::Bool(true))),
    };
    Ok((0..count).map(of).collect())
}

fn list<'a>(row: &'a Map<String, Value>, column: &str) -> Option<&'a [Value]> {
    row.get(column).and_then(Value::as_array).map(Vec::as_slice)
}

fn required<'a>(row: &'a Map<String, Value>, column: &str) -> Result<&'a [Value]> {
    list(row, column).filter(|list| !list.is_empty()).ok_or_else(|| {
        let has = |column: &&&str| list(row, column).is_some_and(|list| !list.is_empty());
        let known: Vec<&str> = COLUMNS.iter().filter(has).copied().collect();
        let help = if known.is_empty() {
            "rows of `rl`, `evaluate` and `sft` have tokens; `--row N` without `--tokens` shows this row".to_string()
        } else {
            format!("of the columns about tokens it has {}", known.join(", "))
        };
        Error::invalid(format!("the row has no `{column}`")).help(help)
    })
}

fn same_length<'a>(row: &'a Map<String, Value>, column: &str, count: usize) -> Result<Option<&'a [Value]>> {
    match list(row, column) {
        Some(list) if list.len() != count => {
            Err(Error::data(format!("`{column}` has {} values for {count} tokens", list.len()))
                .help("the stage that wrote the row is at fault: look at its other rows"))
        }
        found => Ok(found),
    }
}

fn positions(row: &Map<String, Value>, column: &str) -> Vec<usize> {
    let all = list(row, column).unwrap_or_default().iter();
    all.filter_map(Value::as_u64).filter_map(|at| usize::try_from(at).ok()).collect()
}

/// Reads the `tokenizer.json` with this digest from the models among the artifact's siblings, inputs and their inputs.
/// Returns `None` if none of them has it. Errors: those of the store.
pub async fn tokenizer(store: &Store, found: &ResolvedOutput, digest: &str) -> Result<Option<Bytes>> {
    let mut seen = BTreeSet::new();
    let mut queue: VecDeque<Manifest> = VecDeque::from([found.manifest.clone()]);
    while let Some(manifest) = queue.pop_front() {
        if let Some(file) = manifest.outputs.values().find_map(|output| tokenizer_file(output, digest)) {
            return store.read_object(&file).await.map(Some);
        }
        for input in manifest.inputs.values().flatten() {
            if seen.len() == MAX_SEARCHED || !seen.insert((input.stage_digest.clone(), input.generation)) {
                continue;
            }
            // A removed ancestor only hides its tokenizer.
            if let Ok(Some(manifest)) = store.manifest_at(&input.stage_digest, input.generation).await {
                queue.push_back(manifest);
            }
        }
    }
    Ok(None)
}

fn tokenizer_file(output: &Output, digest: &str) -> Option<trainyard_core::Digest> {
    let is_same = output.metadata.get("tokenizer_digest").and_then(Value::as_str) == Some(digest);
    let file = output.files.iter().find(|file| file.path == TOKENIZER).filter(|_| is_same)?;
    Some(file.digest.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row() -> Map<String, Value> {
        let row = json!({
            "token_ids": [5, 6, 7, 8, 9],
            "loss_mask": [false, true, true, false, true],
            "turn": [0, 0, 0, 1, 1],
            "logprobs": [0.0, -0.5, -2.0, 0.0, -1.0],
            "prompt_tokens": 1,
            "restarts": [3],
            "step_ends": [3, 5],
            "step_labels": [1.0, 0.0],
        });
        row.as_object().unwrap().clone()
    }

    fn values_of(row: &Map<String, Value>, value: TokenValue) -> Vec<Option<f64>> {
        page(row, Some(value)).unwrap().tokens.iter().map(|token| token.value).collect()
    }

    #[test]
    fn tokens_have_marks_and_sampled_values() {
        let page = page(&row(), None).unwrap();
        assert_eq!((page.value, page.range, page.contexts), (TokenValue::Logprob, Some((-2.0, -0.5)), 2));
        let values: Vec<Option<f64>> = page.tokens.iter().map(|token| token.value).collect();
        assert_eq!(values, [None, Some(-0.5), Some(-2.0), None, Some(-1.0)]);
        let starts: Vec<bool> = page.tokens.iter().map(|token| token.turn_starts).collect();
        assert_eq!(starts, [true, false, false, true, false]);
        let contexts: Vec<Option<usize>> = page.tokens.iter().map(|token| token.context_starts).collect();
        assert_eq!(contexts, [None, None, None, Some(2), None]);
        let steps: Vec<Option<usize>> = page.tokens.iter().map(|token| token.step_ends).collect();
        assert_eq!(steps, [None, None, Some(1), None, Some(2)]);
    }

    #[test]
    fn steps_have_their_label_or_number() {
        let mut row = row();
        assert_eq!(values_of(&row, TokenValue::Step), [None, Some(1.0), Some(1.0), Some(0.0), Some(0.0)]);
        row.remove("step_labels");
        assert_eq!(values_of(&row, TokenValue::Step), [None, Some(1.0), Some(1.0), Some(2.0), Some(2.0)]);
    }

    #[test]
    fn ends_in_disorder_are_found_in_order() {
        let mut row = row();
        row.insert("step_ends".into(), json!([4, 2, 4, 5]));
        row.insert("step_labels".into(), json!([0.1, 0.2, 0.3, 0.4]));
        assert_eq!(values_of(&row, TokenValue::Step), [None, Some(0.1), Some(0.1), Some(0.1), Some(0.4)]);
        let ends: Vec<Option<usize>> = page(&row, None).unwrap().tokens.iter().map(|token| token.step_ends).collect();
        assert_eq!(ends, [None, Some(2), None, Some(1), Some(4)]);
    }

    #[test]
    fn default_value_is_the_loss_without_log_probabilities() {
        let mut row = row();
        row.insert("logprobs".into(), Value::Null);
        let found = page(&row, None).unwrap();
        assert_eq!((found.value, found.range), (TokenValue::Loss, Some((0.0, 1.0))));
        assert_eq!(values_of(&row, TokenValue::Loss)[..2], [Some(0.0), Some(1.0)]);
    }

    #[test]
    fn missing_and_damaged_columns_are_errors() {
        let mut row = row();
        let error = page(&row, Some(TokenValue::Entropy)).unwrap_err();
        assert_eq!(error.message, "the row has no `entropies`");
        assert!(
            error.help.unwrap().ends_with("token_ids, loss_mask, turn, logprobs, restarts, step_ends, step_labels")
        );
        row.insert("turn".into(), json!([0]));
        assert!(page(&row, None).unwrap_err().message.contains("`turn` has 1 values for 5 tokens"));
        let error = page(json!({"id": "a"}).as_object().unwrap(), None).unwrap_err();
        assert!(error.message.contains("no `token_ids`") && error.help.unwrap().contains("without `--tokens`"));
    }

    #[test]
    fn values_have_names() {
        for name in TokenValue::NAMES {
            assert_eq!(TokenValue::named(name).unwrap().name(), name);
        }
        assert_eq!(TokenValue::named("x"), None);
    }
}
