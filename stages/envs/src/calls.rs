//! Reads tool calls from recorded data, compares them, and grades how far they agree.
//!
//! The verifier `calls` and the rewards use these functions. [`score`] computes the grade of ToolRL (arXiv 2504.13958,
//! section 3.3), with G gold and P predicted calls:
//!
//! ```text
//! S     = |names(P) ∩ names(G)| / |names(P) ∪ names(G)|  +  max over pairings Σ pair(g, p)    names as multisets
//! pair  = |keys(g) ∩ keys(p)| / |keys(g) ∪ keys(p)|  +  |{k : g[k] = p[k]}|               0 if the tools differ
//! S_max = 1 + Σ_g (1 + |keys(g)|)
//! ```
//!
//! We search for the best pairing; the released code pairs greedily in gold order, which can only score lower. Two
//! empty lists agree fully: if no call is expected and none is made, S = S_max = 1.

use crate::tools::{ToolCall, ToolResult};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use trainyard_tables::Message;

/// Reads calls from JSON text, `[{"name": …, "arguments": {…}}]`. Returns `None` if the text is not a list of calls
/// whose arguments are objects.
pub fn read(json: &str) -> Option<Vec<ToolCall>> {
    with_object_arguments(serde_json::from_str(json).ok()?)
}

/// Returns the gold calls in a problem's verifier data, `{"kind": "calls", "gold": [{"name": …, "arguments": {…}}]}`;
/// `None` if the data name another verifier or contain no readable calls.
pub fn gold_calls(verifier_json: &str) -> Option<Vec<ToolCall>> {
    let data: Value = serde_json::from_str(verifier_json).ok()?;
    if data.get("kind").and_then(Value::as_str) != Some("calls") {
        return None;
    }
    with_object_arguments(serde_json::from_value(data.get("gold")?.clone()).ok()?)
}

fn with_object_arguments(calls: Vec<ToolCall>) -> Option<Vec<ToolCall>> {
    calls.iter().all(|c| c.arguments.is_object()).then_some(calls)
}

/// Returns the calls of the assistant message at `index` that reached a tool. Omits calls to unknown tools, and calls
/// beyond a limit, which get no result.
pub fn executed(messages: &[Message], index: usize) -> Vec<ToolCall> {
    let Some((message, rest)) = messages.get(index..).and_then(<[Message]>::split_first) else { return Vec::new() };
    let results: Vec<&Message> = rest.iter().take_while(|m| m.role == "tool").collect();
    let calls = message.tool_calls.as_deref().and_then(read).unwrap_or_default();
    if calls.len() != results.len() {
        // Unreadable calls got results too, and the record does not assign results to calls.
        return if results.is_empty() { Vec::new() } else { calls };
    }
    calls
        .into_iter()
        .zip(results)
        .filter(|(_, result)| !ToolResult::names_unknown_tool(&result.content))
        .map(|(call, _)| call)
        .collect()
}

/// Returns whether both lists contain the same calls, in any order, with repetitions. Numbers are equal by value (`5`
/// and `5.0`).
pub fn equal(predicted: &[ToolCall], gold: &[ToolCall]) -> bool {
    let mut remaining: Vec<&ToolCall> = gold.iter().collect();
    let mut take = |call: &ToolCall| {
        let found = remaining.iter().position(|g| g.name == call.name && same(&g.arguments, &call.arguments));
        found.map(|at| remaining.swap_remove(at)).is_some()
    };
    predicted.len() == gold.len() && predicted.iter().all(&mut take)
}

/// Compares JSON values, numbers by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || ((x.is_f64() || y.is_f64()) && x.as_f64() == y.as_f64()),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(v, w)| same(v, w)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, v)| y.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}

/// Returns the agreement S of predicted and gold calls and its maximum S_max, with 0 ≤ S ≤ S_max. The module documents
/// the formula.
pub fn score(predicted: &[ToolCall], gold: &[ToolCall]) -> (f64, f64) {
    let maximum = 1.0 + gold.iter().map(|g| 1.0 + parameters(g).map_or(0, Map::len) as f64).sum::<f64>();
    let gains: Vec<Vec<f64>> = gold.iter().map(|g| predicted.iter().map(|p| pair(g, p)).collect()).collect();
    (names(predicted, gold) + best_pairing(&gains, predicted.len()), maximum)
}

fn parameters(call: &ToolCall) -> Option<&Map<String, Value>> {
    call.arguments.as_object()
}

/// Returns the Jaccard index of the tool names, as multisets.
fn names(predicted: &[ToolCall], gold: &[ToolCall]) -> f64 {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    predicted.iter().for_each(|p| counts.entry(&p.name).or_default().0 += 1);
    gold.iter().for_each(|g| counts.entry(&g.name).or_default().1 += 1);
    let (shared, all) = counts.values().fold((0, 0), |(s, a), (p, g)| (s + (*p).min(*g), a + (*p).max(*g)));
    jaccard(shared, all)
}

fn jaccard(shared: usize, all: usize) -> f64 {
    if all == 0 { 1.0 } else { shared as f64 / all as f64 }
}

/// Returns the gain of pairing a predicted call with a gold call.
fn pair(gold: &ToolCall, predicted: &ToolCall) -> f64 {
    let (Some(g), Some(p)) = (parameters(gold), parameters(predicted)) else { return 0.0 };
    if gold.name != predicted.name {
        return 0.0;
    }
    let shared = g.keys().filter(|k| p.contains_key(*k)).count();
    let exact = g.iter().filter(|(k, v)| p.get(*k).is_some_and(|w| same(v, w))).count();
    jaccard(shared, g.len() + p.len() - shared) + exact as f64
}

/// Returns the largest sum of `gains[row][column]` over pairings that use no row and no column twice. Uses the
/// Hungarian algorithm with potentials, O(r²c) for r ≤ c; index 0 is a virtual column where each augmenting path
/// starts.
fn best_pairing(gains: &[Vec<f64>], columns: usize) -> f64 {
    let flip = gains.len() > columns;
    let (rows, columns) = if flip { (columns, gains.len()) } else { (gains.len(), columns) };
    let gain = |row: usize, column: usize| if flip { gains[column - 1][row - 1] } else { gains[row - 1][column - 1] };
    let (mut row_price, mut column_price) = (vec![0.0; rows + 1], vec![0.0; columns + 1]);
    // The row paired with each column; 0 = unpaired.
    let mut owner = vec![0_usize; columns + 1];
    for row in 1..=rows {
        owner[0] = row;
        let mut at = 0;
        let (mut slack, mut came_from, mut reached) =
            (vec![f64::INFINITY; columns + 1], vec![0_usize; columns + 1], vec![false; columns + 1]);
        loop {
            reached[at] = true;
            let from = owner[at];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for column in (1..=columns).filter(|c| !reached[*c]) {
                let cost = -gain(from, column) - row_price[from] - column_price[column];
                if cost < slack[column] {
                    (slack[column], came_from[column]) = (cost, at);
                }
                if slack[column] < step {
                    (step, next) = (slack[column], column);
                }
            }
            for (column, seen) in reached.iter().enumerate() {
                if *seen {
                    row_price[owner[column]] += step;
                    column_price[column] -= step;
                } else {
                    slack[column] -= step;
                }
            }
            at = next;
            if owner[at] == 0 {
                break;
            }
        }
        while at != 0 {
            owner[at] = owner[came_from[at]];
            at = came_from[at];
        }
    }
    owner.iter().enumerate().skip(1).filter(|(_, row)| **row != 0).map(|(column, row)| gain(*row, column)).sum()
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
