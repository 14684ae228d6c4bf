//! Reads `matrix` and `for_each`, the axes along which one stage becomes many, and names the instances.
//!
//! An instance's key contains its axes in file order: `rl[seed=1,size=small]`, `eval[item=0]`. `for_each` takes at most
//! 100 rows unless the file raises its cap.

use crate::diagnostic::Diagnostic;
use crate::read::{BoundContent, BoundNode, ValueReader};
use serde_json::Value;
use std::collections::BTreeSet;

/// Maximum number of stage instances of a workflow, and of one matrix.
pub const MAX_INSTANCES: usize = 100_000;
/// Maximum number of items of `for_each` unless the file raises the cap.
pub const DEFAULT_ROW_CAP: u32 = 100;

/// One axis of a fan-out.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name in `matrix`; `item` for `for_each`.
    pub name: String,
    /// In file order.
    pub values: Vec<Value>,
    /// Text of each value in a key; unique.
    pub labels: Vec<String>,
}

/// One position on one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinate {
    pub axis: String,
    /// Index into the axis's values.
    pub position: usize,
    /// Value of `matrix.<axis>` or `item` at this position.
    pub value: Value,
    /// Text of the value in the instance's key.
    pub label: String,
}

/// Fan-out of a stage by `matrix` or `for_each`.
#[derive(Debug, Clone, PartialEq)]
pub enum FanOutSource {
    /// All values are in the file; several axes are multiplied.
    Known(Vec<Axis>),
    /// The list comes from an artifact and has at most this many rows.
    Late {
        /// The reference to the artifact.
        rows: BoundNode,
        /// Maximum number of rows; with more the stage fails.
        cap: u32,
    },
}

/// Reads `matrix: {axis: [values]}`.
pub fn read_matrix(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<Vec<Axis>> {
    let BoundContent::Map(entries) = &bound.content else {
        reader.wrong(bound, "`matrix`", "a map from axes to lists of values");
        return None;
    };
    let mut axes = Vec::new();
    for entry in entries {
        crate::workflow::check_id(&entry.key, entry.key_span, "matrix axis", reader.diagnostics);
        if entry.key == "item" {
            reader.report(
                Diagnostic::error("wrong-name", entry.key_span, "`item` is the axis of `for_each`")
                    .help("give the matrix axis another name"),
            );
            return None;
        }
        let values = known_list(&entry.value, &format!("axis `{}`", entry.key), reader)?;
        axes.push(Axis { name: entry.key.clone(), labels: labels(&values), values });
    }
    if axes.is_empty() {
        reader.report(
            Diagnostic::error("wrong-value", bound.span, "`matrix` has no axis")
                .help("as in `matrix: {seed: [1, 2, 3]}`"),
        );
        return None;
    }
    let product = axes.iter().try_fold(1usize, |p, a| p.checked_mul(a.values.len()));
    if product.is_none_or(|p| p > MAX_INSTANCES) {
        reader.report(Diagnostic::error(
            "too-many",
            bound.span,
            format!("this matrix has more than {MAX_INSTANCES} instances"),
        ));
        return None;
    }
    Some(axes)
}

/// Reads `for_each: [values]`, `for_each: ${{ … }}`, or `for_each: {items: …, cap: n}`.
pub fn read_for_each(bound: &BoundNode, reader: &mut ValueReader<'_>) -> Option<FanOutSource> {
    let (list, cap) = match &bound.content {
        BoundContent::Map(_) => {
            let fields = reader.map(bound, "`for_each`", &["items", "cap"])?;
            let cap = fields.get("cap").map_or(Some(DEFAULT_ROW_CAP), |b| reader.count(b, "`cap`", 1))?;
            let Some(items) = fields.get("items") else {
                reader.report(Diagnostic::error("missing-key", bound.span, "`for_each` has no `items`"));
                return None;
            };
            (items, cap)
        }
        _ => (bound, DEFAULT_ROW_CAP),
    };
    if matches!(list.content, BoundContent::Expression(_)) {
        return Some(FanOutSource::Late { rows: list.clone(), cap });
    }
    let values = known_list(list, "`for_each`", reader)?;
    if values.len() > cap as usize {
        let d = Diagnostic::error(
            "too-many",
            list.span,
            format!("`for_each` has {} items, the cap is {cap}", values.len()),
        );
        reader.report(d.help(format!("raise it: `for_each: {{items: …, cap: {}}}`", values.len())));
        return None;
    }
    let labels = (0..values.len()).map(|i| i.to_string()).collect();
    Some(FanOutSource::Known(vec![Axis { name: "item".into(), values, labels }]))
}

fn known_list(bound: &BoundNode, subject: &str, reader: &mut ValueReader<'_>) -> Option<Vec<Value>> {
    let Some(Value::Array(values)) = bound.value() else {
        reader.wrong(bound, subject, "a list of values that are known before the run");
        return None;
    };
    if values.is_empty() {
        reader.report(Diagnostic::error("wrong-value", bound.span, format!("{subject} has no values")));
        return None;
    }
    let mut seen = BTreeSet::new();
    for value in &values {
        if subject != "`for_each`" && !seen.insert(value.to_string()) {
            reader.report(Diagnostic::error(
                "wrong-value",
                bound.span,
                format!("{subject} has the value {value} twice"),
            ));
            return None;
        }
    }
    Some(values)
}

/// Returns scalars as written, replacing characters that paths and keys cannot hold; positions if the result is not
/// unique.
fn labels(values: &[Value]) -> Vec<String> {
    let plain: Vec<Option<String>> = values.iter().map(label).collect();
    let mut counts = std::collections::BTreeMap::new();
    for text in plain.iter().flatten() {
        *counts.entry(text.clone()).or_insert(0) += 1;
    }
    let unique = |text: &String| counts.get(text) == Some(&1);
    plain.into_iter().enumerate().map(|(i, text)| text.filter(unique).unwrap_or_else(|| format!("#{i}"))).collect()
}

fn label(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return None,
    };
    let safe: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-') { c } else { '-' })
        .collect();
    (!safe.is_empty() && safe.len() <= 40).then_some(safe)
}

/// Returns all instances, the first axis slowest.
pub fn product(axes: &[Axis]) -> Vec<Vec<Coordinate>> {
    let mut instances = vec![Vec::new()];
    for axis in axes {
        let mut longer = Vec::with_capacity(instances.len() * axis.values.len());
        for instance in &instances {
            for (position, (value, label)) in axis.values.iter().zip(&axis.labels).enumerate() {
                let mut next: Vec<Coordinate> = instance.clone();
                next.push(Coordinate { axis: axis.name.clone(), position, value: value.clone(), label: label.clone() });
                longer.push(next);
            }
        }
        instances = longer;
    }
    instances
}

/// Returns the index in [`product`] of the instance at these coordinates, in any order.
pub fn position(axes: &[Axis], coordinates: &[Coordinate]) -> Option<usize> {
    axes.iter().try_fold(0, |at, axis| {
        let own = coordinates.iter().find(|c| c.axis == axis.name)?;
        Some(at * axis.values.len() + own.position)
    })
}

/// Returns a text that is equal for axes with the same names and values, in any order; empty without axes.
pub fn identity(axes: &[Axis]) -> String {
    let mut parts: Vec<String> =
        axes.iter().map(|a| format!("{}={}", a.name, Value::Array(a.values.clone()))).collect();
    parts.sort();
    parts.join(";")
}

/// Formats coordinates: `[seed=1,size=small]`; empty without axes.
pub fn suffix<'a>(coordinates: impl Iterator<Item = &'a Coordinate>) -> String {
    let parts: Vec<String> = coordinates.map(|c| format!("{}={}", c.axis, c.label)).collect();
    if parts.is_empty() { String::new() } else { format!("[{}]", parts.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_are_safe_and_unique() {
        assert_eq!(labels(&[json!(1), json!("Qwen/Qwen3"), json!(0.5)]), ["1", "Qwen-Qwen3", "0.5"]);
        assert_eq!(labels(&[json!("a/b"), json!("a:b"), json!({"k": 1}), json!("c")]), ["#0", "#1", "#2", "c"]);
    }

    #[test]
    fn the_first_axis_is_the_slowest() {
        let axis =
            |name: &str, values: &[Value]| Axis { name: name.into(), values: values.to_vec(), labels: labels(values) };
        let all = product(&[axis("a", &[json!(1), json!(2)]), axis("b", &[json!("x"), json!("y")])]);
        let keys: Vec<String> = all.iter().map(|i| suffix(i.iter())).collect();
        assert_eq!(keys, ["[a=1,b=x]", "[a=1,b=y]", "[a=2,b=x]", "[a=2,b=y]"]);
        assert_eq!(product(&[]).len(), 1);
    }

    #[test]
    fn an_instance_is_found_by_its_coordinates_in_any_order_of_axes() {
        let axis = |name: &str, n: i64| {
            let values: Vec<Value> = (0..n).map(Value::from).collect();
            Axis { name: name.into(), labels: labels(&values), values }
        };
        let (ab, ba) = ([axis("a", 3), axis("b", 4)], [axis("b", 4), axis("a", 3)]);
        assert_eq!(identity(&ab), identity(&ba));
        for instance in product(&ab) {
            let other = &product(&ba)[position(&ba, &instance).unwrap()];
            assert!(instance.iter().all(|c| other.contains(c)));
        }
    }
}
