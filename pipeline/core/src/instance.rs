//! Names the stage instances of a matrix by their values on its axes: `sft[lr=0.003,seed=1]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Axis whose instances are repetitions that differ by chance alone: results are pooled over it.
pub const SEED_AXIS: &str = "seed";

/// Stage instance that an input comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisInstance {
    /// Name of the instance: `sft[lr=0.003,seed=1]`.
    pub name: String,
    /// Values on its axes, in the order of the file; empty for a stage without a matrix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisValue>,
}

/// Value of one axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisValue {
    /// Name of the axis.
    pub axis: String,
    /// Value on the axis; the text of the name if it is a list or a map.
    pub value: Value,
}

impl AxisInstance {
    /// Returns the stage of the instance: `sft`.
    pub fn stage(&self) -> &str {
        self.name.split_once('[').map_or(&self.name, |(stage, _)| stage)
    }
    /// Returns the axes in brackets, `[lr=0.003,seed=1]`; empty for a stage without a matrix.
    pub fn suffix(&self) -> &str {
        self.name.find('[').map_or("", |at| &self.name[at..])
    }
}

/// Splits an instance's name into the name without the axis `seed`, and the text of its seed.
///
/// ```
/// use trainyard_core::instance::without_seed;
///
/// assert_eq!(without_seed("sft[lr=0.003,seed=1]"), ("sft[lr=0.003]".to_string(), Some("1")));
/// assert_eq!(without_seed("sft[seed=1]"), ("sft".to_string(), Some("1")));
/// assert_eq!(without_seed("sft"), ("sft".to_string(), None));
/// ```
pub fn without_seed(name: &str) -> (String, Option<&str>) {
    let Some((stage, axes)) = name.strip_suffix(']').and_then(|rest| rest.split_once('[')) else {
        return (name.to_string(), None);
    };
    let label = |part: &'_ str| part.split_once('=').is_some_and(|(axis, _)| axis == SEED_AXIS);
    let seed = axes.split(',').find(|part| label(part)).and_then(|part| part.split_once('=')).map(|(_, text)| text);
    let kept: Vec<&str> = axes.split(',').filter(|part| !label(part)).collect();
    let name = if kept.is_empty() { stage.to_string() } else { format!("{stage}[{}]", kept.join(",")) };
    (name, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_at_its_axes() {
        let of = |name: &str| AxisInstance { name: name.into(), axes: Vec::new() };
        let swept = of("inner/sft[lr=0.003,seed=1]");
        assert_eq!((swept.stage(), swept.suffix()), ("inner/sft", "[lr=0.003,seed=1]"));
        assert_eq!((of("base").stage(), of("base").suffix()), ("base", ""));
        assert_eq!(without_seed("a[seed=#2,size=small]"), ("a[size=small]".to_string(), Some("#2")));
        assert_eq!(without_seed("a[seeds=2]"), ("a[seeds=2]".to_string(), None), "another axis");
    }
}
