//! Defines the comparisons in manifests, and the numbers of a comparison that checks and expressions address.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A metric of two models or arms, and the difference `a − b`. Any number may be missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Name of the compared metric.
    pub metric: String,
    /// Value of the first model, or of the treatment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<f64>,
    /// Value of the second model, or of the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<f64>,
    /// `a − b`, paired by problem if both sides have values per problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Lower end of the 95% interval of the difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the 95% interval of the difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Number of problems for which both sides have a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Unit of the values and of the difference.
    #[serde(default)]
    pub unit: String,
}

/// One number of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparisonField {
    /// The first side.
    A,
    /// The second side.
    B,
    /// `a − b`.
    Difference,
    /// Lower end of the difference's interval.
    Low,
    /// Upper end of the difference's interval.
    High,
    /// Number of problems that both sides have.
    N,
}

impl ComparisonField {
    /// All numbers, the most used first.
    pub const ALL: [Self; 6] = [Self::Difference, Self::Low, Self::High, Self::A, Self::B, Self::N];
    /// Names, in the order of [`ComparisonField::ALL`].
    pub const NAMES: [&'static str; 6] = ["difference", "low", "high", "a", "b", "n"];

    /// Returns the name in a workflow file.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Difference => "difference",
            Self::Low => "low",
            Self::High => "high",
            Self::N => "n",
        }
    }
    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|of| of.name() == name)
    }
}

impl Comparison {
    /// Returns a row without any number.
    pub fn of(metric: &str) -> Self {
        let (a, b, difference, low, high, n) = (None, None, None, None, None, None);
        Self { metric: metric.to_string(), a, b, difference, low, high, n, unit: String::new() }
    }
    /// Returns one of the row's numbers; `None` if it is missing.
    pub fn get(&self, of: ComparisonField) -> Option<f64> {
        match of {
            ComparisonField::A => self.a,
            ComparisonField::B => self.b,
            ComparisonField::Difference => self.difference,
            ComparisonField::Low => self.low,
            ComparisonField::High => self.high,
            ComparisonField::N => self.n.map(|n| n as f64),
        }
    }
    /// Returns the first number that is not finite, with its name; `None` if all are finite.
    pub fn first_non_finite(&self) -> Option<(ComparisonField, f64)> {
        ComparisonField::ALL
            .into_iter()
            .filter_map(|of| Some((of, self.get(of)?)))
            .find(|(_, value)| !value.is_finite())
    }
}

/// Returns the number that a check or expression names, from a stage's metrics or comparisons; `None` if the stage did
/// not report it.
pub fn look_up(
    metrics: &BTreeMap<String, f64>,
    comparisons: &[Comparison],
    name: &str,
    of: Option<ComparisonField>,
) -> Option<f64> {
    match of {
        None => metrics.get(name).copied(),
        Some(of) => comparisons.iter().find(|c| c.metric == name)?.get(of),
    }
}

/// Returns the name of a number in messages: `kl`, or `tokens.difference`.
pub fn qualified_name(name: &str, of: Option<ComparisonField>) -> String {
    of.map_or_else(|| name.to_string(), |of| format!("{name}.{}", of.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_comparison_are_found_by_name() {
        let row = Comparison {
            metric: "tokens".into(),
            a: Some(1.0),
            b: None,
            difference: None,
            low: None,
            high: None,
            n: Some(3),
            unit: "tokens".into(),
        };
        let metrics = BTreeMap::from([("tokens".to_string(), 9.0)]);
        let get = |of| look_up(&metrics, std::slice::from_ref(&row), "tokens", of);
        assert_eq!(
            (get(None), get(Some(ComparisonField::A)), get(Some(ComparisonField::B)), get(Some(ComparisonField::N))),
            (Some(9.0), Some(1.0), None, Some(3.0))
        );
        assert!(
            ComparisonField::ALL
                .iter()
                .zip(ComparisonField::NAMES)
                .all(|(of, name)| of.name() == name && ComparisonField::parse(name) == Some(*of))
        );
        let nan = Comparison { low: Some(f64::NAN), ..row };
        assert_eq!(nan.first_non_finite().unwrap().0, ComparisonField::Low);
    }
}
