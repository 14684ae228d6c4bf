//! Lists the stage kinds of this crate, one line each, sorted.

use crate::parts::DataParts;
use std::sync::Arc;
use trainyard_api::{DynStage, erase};

/// Returns all stages of the crate, with the parts that they compose.
pub fn stages(parts: &Arc<DataParts>) -> Vec<Box<dyn DynStage>> {
    vec![
        erase(crate::filter::FilterStage {
            rules: parts.rules.clone(),
            envs: parts.envs.clone(),
            open_tokens: parts.open_tokens,
        }),
        erase(crate::frame::FrameStage),
        erase(crate::import::ImportStage { formats: parts.import.clone() }),
        erase(crate::pairs::PairsStage),
        erase(crate::select::SelectStage),
        erase(crate::step_labels::StepLabelsStage { scorers: parts.step_scorers.clone(), envs: parts.envs.clone() }),
        erase(crate::synthesize::SynthesizeStage { methods: parts.synthesize.clone(), envs: parts.envs.clone() }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn kinds_are_sorted_and_documented_with_valid_examples() {
        let stages = stages(&crate::testing::parts());
        let names: Vec<&str> = stages.iter().map(|s| s.info().name).collect();
        assert_eq!(
            names,
            [
                "data/filter",
                "data/frame",
                "data/import",
                "data/pairs",
                "data/select",
                "data/step_labels",
                "data/synthesize"
            ]
        );
        for stage in &stages {
            let info = stage.info();
            assert!(!info.doc.is_empty() && !info.summary.is_empty() && !info.outputs.is_empty(), "{}", info.name);
            let mut example: serde_json::Map<String, Value> = serde_json::from_str(info.example).unwrap();
            example.retain(|key, _| info.input(key).is_none() && info.input_families(key).is_empty());
            let example = Value::Object(example);
            assert_eq!(stage.validate(&example), [], "{}", info.name);
            let complete = stage.complete(&example).unwrap();
            assert_eq!(stage.complete(&complete).unwrap(), complete, "completing twice changes nothing: {}", info.name);
        }
    }
}
