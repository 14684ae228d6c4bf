//! Requests to a program about many items: requests of bounded size, one row or exception for each item.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_process::{Fault, Peer, Raised, Ticket};

/// Effect of an exception of user-defined code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum OnError {
    /// Ends the stage, with the traceback.
    #[default]
    Fail,
    /// The row continues without a result; the first traceback is in the log. An episode is an infrastructure failure:
    /// it gets no reward and enters no update.
    Skip,
}

/// The most items in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Batch(#[schemars(range(min = 1, max = 4096))] pub usize);

impl Default for Batch {
    fn default() -> Self {
        Self(32)
    }
}

impl Batch {
    /// Returns the problem with the option at `/batch`.
    pub fn problem(self) -> Option<OptionProblem> {
        OptionProblem::outside("/batch", self.0, 1..=4096)
    }
}

/// A program's answer for one item.
pub type Row = Result<Value, Raised>;

#[derive(Serialize)]
struct Body<'a, T> {
    items: &'a [T],
}

/// Requests one row per item, in order, with at most `batch` of them in a request. All requests are open at the same
/// time.
///
/// Errors: an outage of the program (retryable), an answer that does not match the list of items (data).
pub fn ask<T: Serialize>(peer: &dyn Peer, batch: Batch, op: &str, items: &[T]) -> Result<Vec<Row>> {
    let chunks = items.chunks(batch.0.max(1));
    let asked: Vec<(Ticket, usize)> =
        chunks.map(|items| Ok((peer.ask(op, &Body { items })?, items.len()))).collect::<Result<_>>()?;
    let mut rows = Vec::with_capacity(items.len());
    for (ticket, count) in asked {
        match ticket.answer() {
            Ok(reply) => rows.extend(read(reply.value, count).map_err(|e| e.at(peer.place()))?),
            Err(Fault::Raised(raised)) => rows.extend((0..count).map(|_| Err(raised.clone()))),
            Err(Fault::Outage(error) | Fault::Lost(error) | Fault::Late(error)) => return Err(error),
        }
    }
    Ok(rows)
}

fn read(answer: Value, count: usize) -> Result<Vec<Row>> {
    let help = "`result` is a list with one map for each item, in order (docs/own-code.md)";
    let Value::Array(rows) = answer else {
        return Err(Error::data("the program's result is no list").help(help));
    };
    if rows.len() != count {
        return Err(
            Error::data(format!("the program was asked about {count} items and answered {}", rows.len())).help(help)
        );
    }
    rows.into_iter().map(|row| one(row).map_err(|e| e.help(help))).collect()
}

fn one(mut row: Value) -> Result<Row> {
    let Some(map) = row.as_object_mut() else {
        return Err(Error::data(format!("the program answered `{row}` about one item")));
    };
    match map.remove("error") {
        None => Ok(Ok(row)),
        Some(error) => {
            serde_json::from_value(error).map(Err).map_err(|e| Error::data(format!("an `error` of an item: {e}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_item_has_its_row() {
        let rows = read(json!([{"value": 1}, {"error": {"type": "E", "message": "m"}}]), 2).unwrap();
        assert_eq!(rows[0], Ok(json!({"value": 1})));
        assert_eq!(rows[1].as_ref().unwrap_err().to_string(), "E: m");
        for (answer, words) in
            [(json!(3), "no list"), (json!([{}]), "about 2 items and answered 1"), (json!([{}, 4]), "answered `4`")]
        {
            let error = read(answer, 2).unwrap_err();
            assert!(error.message.contains(words) && error.help.is_some(), "{error}");
        }
    }
}
