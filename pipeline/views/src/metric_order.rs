//! Default order of metrics: those that say whether a model learns are first.

/// Parts of names of metrics that are shown first, in this order.
const FIRST: [&str; 9] = ["reward", "accuracy", "loss", "pass_rate", "kl", "entropy", "length", "grad_norm", "margin"];

/// Returns the place of a metric among the others: lower ones are shown first, equal ones by name.
pub fn rank(name: &str) -> usize {
    FIRST.iter().position(|part| name.contains(part)).unwrap_or(FIRST.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_before_losses_and_losses_before_others() {
        let mut names = ["advantage_abs", "validation_loss", "tokens", "rewards.answer", "policy_entropy"];
        names.sort_by_key(|name| rank(name));
        assert_eq!(names, ["rewards.answer", "validation_loss", "policy_entropy", "advantage_abs", "tokens"]);
    }
}
