//! Converts the values of tokens to the metrics of the agent's turns.

use crate::export::facts::{floats, short};
use crate::export::omissions::ExportOmissions;
use crate::export::tokens::check_lengths;
use trainyard_core::Result;
use trainyard_tables::{OrderedValue, Trajectory};

/// Tokens of a turn of the agent, in ATIF's form.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnMetrics {
    prompt: usize,
    completion: usize,
    pub row: OrderedValue,
}

/// Returns the metrics of each turn; `None` for a turn without sampled tokens. Counts turns with log-probabilities that
/// are not finite. Errors: data, if the per-token columns differ in length.
pub fn of_turns(row: &Trajectory, omissions: &mut ExportOmissions) -> Result<Vec<Option<TurnMetrics>>> {
    check_lengths(row)?;
    let mut turns: Vec<Vec<usize>> = Vec::new();
    for (place, turn) in row.turn.iter().enumerate().filter(|(place, _)| row.loss_mask[*place]) {
        let turn = usize::from(*turn);
        turns.resize_with(turns.len().max(turn + 1), Vec::new);
        turns[turn].push(place);
    }
    Ok(turns.iter().map(|places| of_turn(row, places, omissions)).collect())
}

/// Returns the metrics of the turn whose sampled tokens are at `places`.
fn of_turn(row: &Trajectory, places: &[usize], omissions: &mut ExportOmissions) -> Option<TurnMetrics> {
    let prompt = row.context_before(*places.first()?);
    let at = |values: &[f32]| -> Vec<f64> {
        places.iter().filter_map(|place| values.get(*place).copied()).map(short).collect()
    };
    let logprobs = row.logprobs.as_deref().map(at);
    let finite = logprobs.filter(|values| {
        let all = values.iter().all(|value| value.is_finite());
        omissions.add("turns whose log-probabilities are not finite (those)", usize::from(!all));
        all
    });
    let extra = |values: &Option<Vec<f32>>| values.as_deref().map(|values| floats(at(values)));
    let versions = row.weights_version.as_deref().map(|values| numbers(places.iter().filter_map(|at| values.get(*at))));
    let extra = OrderedValue::Object(Vec::new())
        .with("entropies", extra(&row.entropies))
        .with("advantages", extra(&row.advantages))
        .with("weights_version", versions);
    let count = |count: usize| OrderedValue::Int(i64::try_from(count).unwrap_or(i64::MAX));
    let written = OrderedValue::object([
        ("prompt_tokens", count(prompt.len())),
        ("completion_tokens", count(places.len())),
        ("prompt_token_ids", numbers(prompt)),
        ("completion_token_ids", numbers(places.iter().map(|place| &row.token_ids[*place]))),
    ])
    .with("logprobs", finite.map(floats))
    .with("extra", (!extra.keys().is_empty()).then_some(extra));
    Some(TurnMetrics { prompt: prompt.len(), completion: places.len(), row: written })
}

fn numbers<'n>(values: impl IntoIterator<Item = &'n u32>) -> OrderedValue {
    OrderedValue::numbers(values.into_iter().copied())
}

/// Returns the sums of the numbers of tokens; an empty object for rows without tokens.
pub fn totals(turns: &[Option<TurnMetrics>]) -> OrderedValue {
    let sum = |of: fn(&TurnMetrics) -> usize| {
        let sum: usize = turns.iter().flatten().map(of).sum();
        (!turns.is_empty()).then(|| OrderedValue::Int(i64::try_from(sum).unwrap_or(i64::MAX)))
    };
    OrderedValue::Object(Vec::new())
        .with("total_prompt_tokens", sum(|turn| turn.prompt))
        .with("total_completion_tokens", sum(|turn| turn.completion))
}
