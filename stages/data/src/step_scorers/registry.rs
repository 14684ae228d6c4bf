//! Lists the step scorers, one line each, sorted.

use super::process::CustomStepScorer;
use super::scorer::StepScorer;
use trainyard_api::{Family, PartKind, PartOptions};
use trainyard_envs::programs::ServiceOptions;
use trainyard_process::ProgramOptions;

/// Returns the scorers of this crate.
pub fn family() -> Family<dyn StepScorer> {
    let members = vec![scorer::<CustomStepScorer<ServiceOptions>>(), scorer::<CustomStepScorer<ProgramOptions>>()];
    Family::new("step_scorers", "step scorer", members)
}

/// Returns the registry entry of a scorer whose options type is the scorer itself.
pub fn scorer<S: StepScorer + PartOptions>() -> PartKind<dyn StepScorer> {
    PartKind::new::<S>(|options, ()| Ok(Box::new(options)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scorers_are_sorted_and_complete() {
        let scorers = family();
        assert!(scorers.names().is_sorted());
        for least in [json!({"kind": "process", "command": ["sh"]}), json!({"kind": "http", "url": "http://h:1/"})] {
            let full = scorers.complete(&least).unwrap();
            assert_eq!(scorers.complete(&full).unwrap(), full);
            assert_eq!(scorers.build(&full, &()).unwrap().kind(), least["kind"]);
        }
        assert_eq!(scorers.check(&json!("process"))[0].pointer, "/command");
    }
}
