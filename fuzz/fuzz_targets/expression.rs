//! Any text as an expression: no panic; a printed expression parses back to the same; a known expression folds to its
//! value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use trainyard_spec::expression::ExprReference;
use trainyard_spec::{Expression, Scope};

struct Known;

impl Scope<ExprReference> for Known {
    fn value(&self, reference: &ExprReference) -> Option<Value> {
        match reference {
            ExprReference::Param(name) => match name.as_str() {
                "steps" => Some(json!(200)),
                "lr" => Some(json!(0.5)),
                "name" => Some(json!("qwen")),
                "list" => Some(json!([3, 1, 2])),
                "map" => Some(json!({"k": {"v": 7}})),
                "none" => Some(json!(null)),
                _ => None,
            },
            ExprReference::Matrix(axis) => (axis == "seed").then(|| json!(-1)),
            ExprReference::Item => Some(json!({"id": "x", "n": 1.5})),
            ExprReference::Metric { stage, .. } => (stage == "gate").then(|| json!(0.25)),
            ExprReference::Status { stage } => (stage == "gate").then(|| json!("succeeded")),
            _ => None,
        }
    }
}

fuzz_target!(|text: &str| {
    let Ok(read) = Expression::parse(text) else { return };
    let printed = read.to_string();
    let again = Expression::parse(&printed).unwrap_or_else(|fault| panic!("{printed:?}: {}", fault.message));
    assert_eq!(again.to_string(), printed, "what is printed reads back as the same");
    let _ = read.check_types();
    let value = read.evaluate(&Known);
    if let (Ok(before), Ok(after)) = (&value, again.evaluate(&Known)) {
        assert_eq!(*before, after, "{printed:?}");
    }
    if let Ok(folded) = read.rewrite(&mut |_, _| Ok(None))
        && let (Ok(before), Ok(after)) = (&value, folded.evaluate(&Known))
    {
        assert_eq!(*before, after, "{printed:?} folds to {folded}");
    }
});
