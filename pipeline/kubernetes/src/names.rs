//! Defines names of labels and annotations, and converts texts to valid label values.

/// Label of a Job and its Pods: key of the attempt, used to select them.
pub(crate) const KEY: &str = "trainyard.dev/key";
/// Label: run id, for `kubectl get jobs --selector`.
pub(crate) const RUN: &str = "trainyard.dev/run";
/// Label: stage key, shortened to a valid label value.
pub(crate) const STAGE: &str = "trainyard.dev/stage";
/// Label: number of the attempt.
pub(crate) const ATTEMPT: &str = "trainyard.dev/attempt";
/// Annotation: URL of the attempt.
pub(crate) const URL: &str = "trainyard.dev/url";
/// Annotation: workflow and stage in full.
pub(crate) const TITLE: &str = "trainyard.dev/title";
/// Label that names the program managing an object.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of the label `MANAGED_BY`.
pub(crate) const MANAGER: &str = "trainyard";
/// Label that assigns a Job to a Kueue queue.
pub(crate) const QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Name of the container that an attempt runs in. A service mesh may add other containers.
pub(crate) const CONTAINER: &str = "attempt";

/// Converts a text to a label value: at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter
/// or digit. Any other character becomes `-`.
pub(crate) fn label_value(text: &str) -> String {
    let replace = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let is_separator = |c: char| !c.is_ascii_alphanumeric();
    let replaced: String = text.chars().map(replace).collect();
    replaced
        .trim_start_matches(is_separator)
        .chars()
        .take(63)
        .collect::<String>()
        .trim_end_matches(is_separator)
        .to_string()
}

/// Returns whether a text is a valid label value.
pub(crate) fn is_label_value(text: &str) -> bool {
    !text.is_empty() && label_value(text) == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_convert_to_label_values() {
        assert_eq!(label_value("rl[seed=1]"), "rl-seed-1");
        assert_eq!(label_value("20261121-041530-2a17f3a"), "20261121-041530-2a17f3a");
        assert_eq!(label_value("[größe]"), "gr--e");
        assert_eq!(label_value("--"), "");
        let long = format!("{}-b", "a".repeat(62));
        assert_eq!(label_value(&long), "a".repeat(62));
    }

    #[test]
    fn label_values_are_validated() {
        assert!(is_label_value("team_a.queue-1"));
        assert!(!is_label_value(""));
        assert!(!is_label_value("-a"));
        assert!(!is_label_value(&"a".repeat(64)));
    }
}
