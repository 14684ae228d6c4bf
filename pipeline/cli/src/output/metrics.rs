//! Which metrics of a stage are worth a place on its line, and how they are written.
//!
//! A stage reports dozens; a line has room for four. First comes what the stage is for, with the value that it started
//! from, then what tells whether the number can be trusted.

use std::collections::BTreeMap;

/// Most metrics on one line.
const MOST: usize = 4;
/// Metrics that come before all others, in this order.
const TELLING: [&str; 14] = [
    "validation_accuracy",
    "accuracy",
    "difference",
    "difference_low",
    "validation_loss",
    "kl",
    "loss",
    "demonstrations",
    "problems",
    "kept",
    "dropped",
    "rows",
    "steps",
    "accuracy_mean",
];

/// Metrics as `  reward_mean 0.749  validation_accuracy 0.770→0.910`, the main one first. `models`: names of an
/// evaluation's models, whose accuracies are then all that is told.
pub fn line(metrics: &BTreeMap<String, f64>, main: Option<&str>, models: &[String]) -> String {
    let accuracies: Vec<(&str, String)> = models
        .iter()
        .filter_map(|name| Some((name.as_str(), number(*metrics.get(&format!("accuracy_{name}"))?))))
        .collect();
    if accuracies.len() > 1 {
        let told: String = accuracies.iter().map(|(name, value)| format!(" {name} {value}")).collect();
        return format!("  accuracy:{told}");
    }
    chosen(metrics, main).into_iter().map(|name| format!("  {name} {}", with_start(metrics, name))).collect()
}

fn chosen<'m>(metrics: &'m BTreeMap<String, f64>, main: Option<&str>) -> Vec<&'m str> {
    let mut names: Vec<&str> = Vec::new();
    let first = main.into_iter().chain(TELLING).filter_map(|name| metrics.get_key_value(name));
    let all = first.chain(metrics.iter()).map(|(name, _)| name.as_str()).filter(|name| !is_start(metrics, name));
    for name in all {
        if !names.contains(&name) && names.len() < MOST {
            names.push(name);
        }
    }
    names
}

/// Whether this is the first value of another metric, which is told with that one.
fn is_start(metrics: &BTreeMap<String, f64>, name: &str) -> bool {
    name.strip_suffix("_initial").is_some_and(|of| metrics.contains_key(of))
}

fn with_start(metrics: &BTreeMap<String, f64>, name: &str) -> String {
    let value = metrics.get(name).copied().unwrap_or(f64::NAN);
    match metrics.get(&format!("{name}_initial")) {
        Some(start) => format!("{}→{}", number(*start), number(value)),
        None => number(value),
    }
}

/// Whole numbers without decimals, others with three, small ones with two digits that say something.
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value}")
    } else if value.abs() < 0.001 {
        format!("{value:.1e}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(list: &[(&str, f64)]) -> BTreeMap<String, f64> {
        list.iter().map(|(name, value)| ((*name).to_string(), *value)).collect()
    }

    #[test]
    fn the_main_metric_comes_first_and_starts_are_told_with_their_ends() {
        let rl = metrics(&[
            ("advantage_mean", 0.1),
            ("kl", 0.004),
            ("reward_mean", 0.749),
            ("reward_mean_initial", 0.5),
            ("turns", 2.0),
            ("validation_accuracy", 0.91),
            ("validation_accuracy_initial", 0.77),
        ]);
        assert_eq!(
            line(&rl, Some("reward_mean"), &[]),
            "  reward_mean 0.500→0.749  validation_accuracy 0.770→0.910  kl 0.004  advantage_mean 0.100"
        );
        assert_eq!(line(&metrics(&[("b", 2.0), ("a", 1e-4)]), Some("absent"), &[]), "  a 1.0e-4  b 2");
    }

    #[test]
    fn an_evaluation_tells_the_accuracy_of_every_model_in_its_order() {
        let all =
            metrics(&[("accuracy", 0.89), ("accuracy_rl", 0.89), ("accuracy_sft", 0.745), ("accuracy_untrained", 0.0)]);
        let names = ["untrained", "sft", "rl"].map(String::from);
        assert_eq!(line(&all, Some("accuracy"), &names), "  accuracy: untrained 0 sft 0.745 rl 0.890");
    }
}
