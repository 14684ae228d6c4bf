//! Describes the adapter of a model, from the files of PEFT.

use super::parameters::ParameterCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Adapter of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelAdapter {
    /// Kind, as `lora`.
    pub kind: Option<String>,
    /// Rows of A, columns of B.
    pub rank: Option<u64>,
    /// Number that is divided by the rank to give the scale.
    pub alpha: Option<f64>,
    /// Share of the inputs that is set to 0 during training.
    pub dropout: Option<f64>,
    /// Whether `alpha` is divided by the square root of the rank instead.
    pub rslora: bool,
    /// Layers with a pair of matrices, by the last parts of their names.
    pub targets: Vec<String>,
    /// Base model, as `adapter_config.json` names it: a folder of the artifact, or a name on the hub.
    pub base: Option<String>,
    /// Artifact whose weights are those of the base, as `RUN/STAGE/OUTPUT`, if the model was made from it.
    pub base_artifact: Option<String>,
    /// Parameters of the adapter; null without readable tensors.
    pub parameters: Option<ParameterCounts>,
}

impl ModelAdapter {
    /// Reads the content of an `adapter_config.json`.
    pub fn of_config(config: &Value) -> Self {
        let text = |key: &str| config[key].as_str().map(ToString::to_string);
        let targets = match &config["target_modules"] {
            Value::Array(names) => names.iter().filter_map(Value::as_str).map(ToString::to_string).collect(),
            Value::String(pattern) => vec![pattern.clone()],
            _ => Vec::new(),
        };
        Self {
            kind: text("peft_type").map(|kind| kind.to_lowercase()),
            rank: config["r"].as_u64(),
            alpha: config["lora_alpha"].as_f64(),
            dropout: config["lora_dropout"].as_f64(),
            rslora: config["use_rslora"] == true,
            targets,
            base: text("base_model_name_or_path"),
            base_artifact: None,
            parameters: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_of_peft_are_read() {
        let found = ModelAdapter::of_config(&json!({
            "peft_type": "LORA", "r": 4, "lora_alpha": 8, "lora_dropout": 0.05, "use_rslora": true,
            "target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": "base",
        }));
        let expected = ModelAdapter {
            kind: Some("lora".into()),
            rank: Some(4),
            alpha: Some(8.0),
            dropout: Some(0.05),
            rslora: true,
            targets: vec!["q_proj".into(), "v_proj".into()],
            base: Some("base".into()),
            ..ModelAdapter::default()
        };
        assert_eq!(found, expected);
        assert_eq!(ModelAdapter::of_config(&json!({"target_modules": "all-linear"})).targets, ["all-linear"]);
        assert_eq!(ModelAdapter::of_config(&json!({})), ModelAdapter::default());
    }
}
