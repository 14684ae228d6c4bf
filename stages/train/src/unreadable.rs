//! Names the share of episodes without a readable answer, and warns where it is large.

use trainyard_api::StageContext;

/// Metric of that share.
pub const UNREADABLE: &str = "unreadable_answers";

/// Largest share without a warning.
const WARN_ABOVE: f64 = 0.1;

/// Writes a warning to the log of the stage if the share of `episodes` without a readable answer is above a tenth.
pub fn warn_if_many(episodes: &str, share: f64, context: &StageContext) {
    if let Some(text) = warning(episodes, share) {
        context.warn(text);
    }
}

fn warning(episodes: &str, share: f64) -> Option<String> {
    let percent = share * 100.0;
    (share > WARN_ABOVE).then(|| {
        format!(
            "{percent:.0}% of the {episodes} have no readable answer and count as wrong; the column `unreadable` of \
             the output `trajectories` says why, and the option `extract` of the environment which answers are read"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::warning;

    #[test]
    fn a_tenth_is_no_reason_to_warn() {
        assert_eq!(warning("episodes", 0.1), None);
        assert!(warning("episodes", 0.25).unwrap().starts_with("25% of the episodes have no readable answer"));
    }
}
