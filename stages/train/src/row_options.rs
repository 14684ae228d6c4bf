//! Checks the options of stages that train on rows: the end of training, and metrics that need held-out rows.

use trainyard_core::{OptionProblem, WiredInputs};

/// Reports limits that are set but leave nothing to do.
pub fn empty(limits: &[(&str, Option<u64>)]) -> Vec<OptionProblem> {
    let empty = limits.iter().filter(|(_, limit)| *limit == Some(0));
    empty.map(|(at, _)| OptionProblem::new(*at, "must be at least 1, or null")).collect()
}

/// Reports options that are set and measure on held-out rows if there are no such rows, because nothing is wired to
/// `validation` and `share` of the rows is 0.
pub fn unmeasured(measured: &[(&str, bool)], share: f64, inputs: &WiredInputs) -> Vec<OptionProblem> {
    if share > 0.0 || inputs.get("validation").is_some_and(|count| *count > 0) {
        return Vec::new();
    }
    let problem = |at: &str| {
        let message = "no validation data: `validation` is not wired, and `validation_share` is 0";
        OptionProblem::new(at, message).help("wire `validation`, set `validation_share` above 0, or leave this out")
    };
    measured.iter().filter(|(_, set)| *set).map(|(at, _)| problem(at)).collect()
}
