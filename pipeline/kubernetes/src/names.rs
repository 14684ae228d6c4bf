//! Names of labels and annotations, and texts made fit for them.

/// Label of a Job and its Pods: the attempt's key, by which they are found.
pub(crate) const KEY: &str = "trainyard.dev/key";
/// Label: the run, for `kubectl get jobs --selector`.
pub(crate) const RUN: &str = "trainyard.dev/run";
/// Label: the stage, shortened to what a label may hold.
pub(crate) const STAGE: &str = "trainyard.dev/stage";
/// Label: the attempt's number.
pub(crate) const ATTEMPT: &str = "trainyard.dev/attempt";
/// Annotation: the attempt's URL.
pub(crate) const URL: &str = "trainyard.dev/url";
/// Annotation: workflow and stage in full.
pub(crate) const TITLE: &str = "trainyard.dev/title";
/// Label of everything that a program manages.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Our value of it.
pub(crate) const MANAGER: &str = "trainyard";
/// Label that puts a Job into one of Kueue's queues.
pub(crate) const QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Name of the container that an attempt runs in; a mesh may add others.
pub(crate) const CONTAINER: &str = "attempt";

/// What a label can show of a text: at most 63 of letters, digits, `-`, `_` and `.`, with a letter or digit at both
/// ends; anything else becomes `-`.
pub(crate) fn label_value(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let end = |c: char| !c.is_ascii_alphanumeric();
    let whole: String = text.chars().map(fit).collect();
    whole.trim_start_matches(end).chars().take(63).collect::<String>().trim_end_matches(end).to_string()
}

/// Whether a label can have this value as it is.
pub(crate) fn is_label_value(text: &str) -> bool {
    !text.is_empty() && label_value(text) == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_values_of_labels() {
        assert_eq!(label_value("rl[seed=1]"), "rl-seed-1");
        assert_eq!(label_value("20261121-041530-2a17f3a"), "20261121-041530-2a17f3a");
        assert_eq!(label_value("[größe]"), "gr--e");
        assert_eq!(label_value("--"), "");
        let long = format!("{}-b", "a".repeat(62));
        assert_eq!(label_value(&long), "a".repeat(62));
    }

    #[test]
    fn values_of_labels_are_known() {
        assert!(is_label_value("team_a.queue-1"));
        assert!(!is_label_value(""));
        assert!(!is_label_value("-a"));
        assert!(!is_label_value(&"a".repeat(64)));
    }
}
