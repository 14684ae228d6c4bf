//! Lists the stage kinds of this crate, one line each, sorted.

use crate::parts::TrainParts;
use crate::stages::{compare, evaluate, forgetting, noop, preference, prm, report, rl, sft};
use trainyard_api::{DynStage, erase};

/// Returns all stages of this crate, with the parts that they compose.
pub fn stages(parts: &TrainParts) -> Vec<Box<dyn DynStage>> {
    vec![
        erase(compare::Compare),
        erase(evaluate::Evaluate { parts: parts.clone() }),
        erase(forgetting::Forgetting),
        erase(noop::Noop),
        erase(preference::Preference { parts: parts.clone() }),
        erase(prm::Prm { parts: parts.clone() }),
        erase(report::JoinReports),
        erase(rl::Rl { parts: parts.clone() }),
        erase(sft::Sft { parts: parts.clone() }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_kind_is_listed_sorted_and_documented() {
        let stages = stages(&TrainParts::default());
        let names: Vec<&str> = stages.iter().map(|s| s.info().name).collect();
        assert!(names.is_sorted());
        let folder = std::path::Path::new("src/stages");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap().replace(".rs", ""))
            .filter(|n| n != "mod")
            .collect();
        files.sort();
        files.dedup();
        assert_eq!(names, files, "every file of `stages` is listed");
        for stage in &stages {
            let info = stage.info();
            assert!(!info.summary.is_empty() && !info.doc.is_empty(), "{}", info.name);
            let mut example: serde_json::Map<String, Value> = serde_json::from_str(info.example).unwrap();
            example.retain(|key, _| info.input(key).is_none());
            let example = Value::Object(example);
            assert_eq!(stage.validate(&example), [], "{}", info.name);
            let complete = stage.complete(&example).unwrap();
            assert_eq!(stage.complete(&complete).unwrap(), complete, "completing twice changes nothing: {}", info.name);
            let properties = info.options["properties"].as_object().cloned().unwrap_or_default();
            for key in complete.as_object().unwrap().keys() {
                assert!(properties.contains_key(key), "option `{key}` of `{}` is not in its schema", info.name);
            }
        }
    }
}
