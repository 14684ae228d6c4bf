//! Finds the arms of a recipe, and the parts that its mechanism switches between them.

use serde_json::Value;
use trainyard_spec::Plan;

/// Pointers to parts in a config, and the folders of these parts.
const PARTS: [(&str, &str); 10] = [
    ("/rollout/strategy", "strategies"),
    ("/filters", "filters"),
    ("/advantage", "advantages"),
    ("/advantage/modulations", "modulations"),
    ("/loss/correction", "corrections"),
    ("/loss/terms", "losses"),
    ("/rewards", "rewards"),
    ("/environment", "environments"),
    ("/curriculum", "curricula"),
    ("/replay", "replay"),
];

/// Configs of the arms of a stage: the first stage with an axis `arm` of `baseline` and `treatment`.
pub struct Arms {
    pub kind: String,
    /// Complete config of the baseline.
    pub baseline: Value,
    pub treatment: Value,
    /// `None` if the axis has no `placebo`.
    pub placebo: Option<Value>,
}

impl Arms {
    /// Finds the arms of a plan. Returns `None` if no stage has both arms.
    pub fn of(plan: &Plan) -> Option<Self> {
        plan.nodes.iter().find_map(|baseline| {
            let key = baseline
                .key
                .0
                .contains("arm=baseline")
                .then(|| baseline.key.0.replace("arm=baseline", "arm=treatment"))?;
            let treatment = plan.nodes.iter().find(|n| n.key.0 == key)?;
            let (a, b) = (baseline.config.as_literal()?, treatment.config.as_literal()?);
            let key = key.replace("arm=treatment", "arm=placebo");
            let placebo = plan.nodes.iter().find(|n| n.key.0 == key).and_then(|n| n.config.as_literal());
            Some(Self { kind: baseline.kind.clone(), baseline: a, treatment: b, placebo })
        })
    }

    /// Returns the parts that the treatment adds or configures differently, by folder and kind, or the stage itself if
    /// the treatment changes no part. A part with weight 0 in the treatment has no effect and is omitted.
    pub fn switched(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (pointer, folder) in PARTS {
            let old = parts(&self.baseline, pointer);
            for part in parts(&self.treatment, pointer) {
                let is_disabled = part.get("weight").and_then(Value::as_f64) == Some(0.0);
                let kind = part.get("kind").and_then(Value::as_str).or(part.as_str());
                if let Some(kind) = kind.filter(|_| !is_disabled && !old.contains(&part)) {
                    names.push(format!("{folder}/{kind}"));
                }
            }
        }
        if names.is_empty() && self.baseline != self.treatment && self.kind != "run" {
            names.push(format!("stages/{}", self.kind));
        }
        names
    }
}

/// Returns [`Arms::switched`] of a plan, or an empty list for a plan without arms.
pub fn switched(plan: &Plan) -> Vec<String> {
    Arms::of(plan).map(|arms| arms.switched()).unwrap_or_default()
}

/// Returns the parts at a pointer of a config, which holds one part or a list. An advantage is compared without its
/// modulations, which are parts themselves.
fn parts(config: &Value, pointer: &str) -> Vec<Value> {
    match config.pointer(pointer) {
        Some(Value::Array(items)) => items.clone(),
        Some(Value::Object(map)) => {
            let mut part = map.clone();
            part.remove("modulations");
            vec![Value::Object(part)]
        }
        Some(name @ Value::String(_)) => vec![name.clone()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn switched(baseline: Value, treatment: Value) -> Vec<String> {
        Arms { kind: "rl".into(), baseline, treatment, placebo: None }.switched()
    }

    #[test]
    fn added_and_changed_parts_are_switched() {
        let filters = |list: Value| json!({"filters": list});
        let (void, zero) = (json!({"kind": "void_turn"}), json!({"kind": "zero_variance"}));
        assert_eq!(switched(filters(json!([zero])), filters(json!([void, zero]))), ["filters/void_turn"]);
        let advantage = |alpha: f64, k: f64| {
            let modulations = json!([{"kind": "tilt", "k": k}]);
            json!({"advantage": {"kind": "group", "alpha": alpha, "modulations": modulations}})
        };
        assert_eq!(switched(advantage(0.0, 1.0), advantage(0.5, 1.0)), ["advantages/group"]);
        assert_eq!(switched(advantage(0.0, 1.0), advantage(0.0, 2.0)), ["modulations/tilt"]);
    }

    #[test]
    fn zero_weight_parts_are_not_switched() {
        let rewards = |answer: f64, calls: f64| {
            let (answer, calls) =
                (json!({"kind": "answer", "weight": answer}), json!({"kind": "calls", "weight": calls}));
            json!({"rewards": [answer, calls]})
        };
        assert_eq!(switched(rewards(1.0, 0.0), rewards(0.0, 1.0)), ["rewards/calls"]);
    }

    #[test]
    fn stage_is_switched_if_no_part_changes() {
        assert_eq!(switched(json!({"epochs": 1}), json!({"epochs": 2})), ["stages/rl"]);
        assert!(switched(json!({"epochs": 1}), json!({"epochs": 1})).is_empty(), "switched off");
    }
}
