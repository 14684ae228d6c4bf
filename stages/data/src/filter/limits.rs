//! Compares measures of a text with limits, and checks the limits of rules.

use super::rule::RuleVerdict;
use trainyard_core::OptionProblem;

/// Rejects a measure above its limit; `None` if it is not, or if there is no limit.
pub fn above(code: &'static str, value: f64, limit: Option<f64>) -> Option<RuleVerdict> {
    let limit = limit.filter(|limit| value > *limit)?;
    Some(RuleVerdict::reject(code, format!("{}, at most {limit}", shown(value))))
}

/// Rejects a measure below its limit; `None` if it is not, or if there is no limit.
pub fn below(code: &'static str, value: f64, limit: Option<f64>) -> Option<RuleVerdict> {
    let limit = limit.filter(|limit| value < *limit)?;
    Some(RuleVerdict::reject(code, format!("{}, at least {limit}", shown(value))))
}

fn shown(value: f64) -> String {
    if value.fract() == 0.0 { value.to_string() } else { format!("{value:.4}") }
}

/// Reports limits that are not shares, each given with its option.
pub fn not_shares(limits: &[(&str, Option<f64>)]) -> Vec<OptionProblem> {
    let problem = |(name, limit): &(&str, Option<f64>)| {
        limit.and_then(|limit| OptionProblem::out_of_range(format!("/{name}"), limit, 0.0..=1.0))
    };
    limits.iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_themselves_are_allowed() {
        assert_eq!(above("much", 0.3, Some(0.3)), None);
        assert_eq!(above("much", 0.31, None), None);
        assert_eq!(above("much", 0.31, Some(0.3)), Some(RuleVerdict::reject("much", "0.3100, at most 0.3")));
        assert_eq!(below("few", 50.0, Some(50.0)), None);
        assert_eq!(below("few", 49.0, Some(50.0)), Some(RuleVerdict::reject("few", "49, at least 50")));
    }

    #[test]
    fn limits_beyond_shares_are_named() {
        let problems = not_shares(&[("a", Some(1.5)), ("b", Some(1.0)), ("c", None), ("d", Some(f64::NAN))]);
        assert_eq!(problems.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/a", "/d"]);
    }
}
