//! Lists the stage kinds of this crate, one line each, sorted.

use crate::{command, trl};
use std::sync::Arc;
use trainyard_api::{DynStage, erase};
use trainyard_data::DataParts;

/// Returns all engines. `parts` has the formats of rows, and the environments and rewards for rollouts.
pub fn stages(parts: &Arc<DataParts>) -> Vec<Box<dyn DynStage>> {
    vec![
        erase(command::CommandTrainer { parts: Arc::clone(parts) }),
        erase(trl::TrlTrainer { parts: Arc::clone(&parts.envs) }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_kind_is_sorted_and_documented_and_its_example_works() {
        let stages = stages(&Arc::new(DataParts::standard(Arc::new(trainyard_envs::EnvironmentParts::standard()))));
        assert!(stages.iter().map(|stage| stage.info().name).is_sorted());
        for stage in &stages {
            let info = stage.info();
            assert!(info.name.starts_with("engine/") && info.doc.len() > 200, "{}", info.name);
            let example: Value = serde_json::from_str(info.example).unwrap();
            assert_eq!(stage.validate(&example), [], "{}", info.name);
            let complete = stage.complete(&example).unwrap();
            assert_eq!(stage.complete(&complete).unwrap(), complete, "{}", info.name);
        }
    }
}
