//! Requests results for many items from a program, in requests of bounded size. Each item gets a row or an exception.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_process::{PendingProgramResponse, ProgramException, ProgramFault, ProgramService};

/// Effect of an exception of user-defined code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ExceptionPolicy {
    /// Ends the stage, with the traceback.
    #[default]
    Fail,
    /// The row continues without a result; the first traceback is in the log. An episode is an infrastructure failure:
    /// it gets no reward and enters no update.
    Skip,
}

/// Maximum number of items in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct BatchSize(#[schemars(range(min = 1, max = 4096))] pub usize);

impl Default for BatchSize {
    fn default() -> Self {
        Self(32)
    }
}

impl BatchSize {
    /// Returns the problem with the option at `/batch`, if the size is out of range.
    pub fn problem(self) -> Option<OptionProblem> {
        OptionProblem::out_of_range("/batch", self.0, 1..=4096)
    }
}

/// A program's result for one item.
pub type ItemResult = Result<Value, ProgramException>;

#[derive(Serialize)]
struct BatchBody<'a, T> {
    items: &'a [T],
}

/// Requests one row per item with the operation `op`, in order, with at most `batch` items in a request. All requests
/// are open at the same time. Blocks until all responses have arrived.
///
/// Errors: an outage of the program (retryable), a response that does not match the list of items (data).
pub fn request_items<T: Serialize>(
    peer: &dyn ProgramService,
    batch: BatchSize,
    op: &str,
    items: &[T],
) -> Result<Vec<ItemResult>> {
    let chunks = items.chunks(batch.0.max(1));
    let pending: Vec<(PendingProgramResponse, usize)> =
        chunks.map(|items| Ok((peer.call(op, &BatchBody { items })?, items.len()))).collect::<Result<_>>()?;
    let mut rows = Vec::with_capacity(items.len());
    for (response, count) in pending {
        match response.answer() {
            Ok(reply) => rows.extend(read(reply.value, count).map_err(|e| e.at(peer.place()))?),
            Err(ProgramFault::Exception(exception)) => rows.extend((0..count).map(|_| Err(exception.clone()))),
            Err(ProgramFault::Outage(error) | ProgramFault::Lost(error) | ProgramFault::TimedOut(error)) => {
                return Err(error);
            }
        }
    }
    Ok(rows)
}

fn read(answer: Value, count: usize) -> Result<Vec<ItemResult>> {
    let help = "`result` is a list with one map for each item, in order (docs/custom-code.md)";
    let Value::Array(rows) = answer else {
        return Err(Error::data("the program's result is not a list").help(help));
    };
    if rows.len() != count {
        return Err(Error::data(format!("the program returned {} results for {count} items", rows.len())).help(help));
    }
    rows.into_iter().map(|row| item_result(row).map_err(|e| e.help(help))).collect()
}

fn item_result(mut row: Value) -> Result<ItemResult> {
    let Some(map) = row.as_object_mut() else {
        return Err(Error::data(format!("the program returned `{row}` for one item")));
    };
    match map.remove("error") {
        None => Ok(Ok(row)),
        Some(error) => {
            serde_json::from_value(error).map(Err).map_err(|e| Error::data(format!("invalid `error` of an item: {e}")))
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
        for (answer, words) in [
            (json!(3), "not a list"),
            (json!([{}]), "returned 1 results for 2 items"),
            (json!([{}, 4]), "returned `4`"),
        ] {
            let error = read(answer, 2).unwrap_err();
            assert!(error.message.contains(words) && error.help.is_some(), "{error}");
        }
    }
}
