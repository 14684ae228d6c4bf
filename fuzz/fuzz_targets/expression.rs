//! Any text as an expression: no panic; a printed expression parses back to the same; a known expression folds to its
//! value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use trainyard_core::Of;
use trainyard_spec::{Expression, Scope};

struct Known;

impl Scope for Known {
    fn param(&self, name: &str) -> Option<Value> {
        match name {
            "steps" => Some(json!(200)),
            "lr" => Some(json!(0.5)),
            "name" => Some(json!("qwen")),
            "list" => Some(json!([3, 1, 2])),
            "map" => Some(json!({"k": {"v": 7}})),
            "none" => Some(json!(null)),
            _ => None,
        }
    }
    fn matrix(&self, axis: &str) -> Option<Value> {
        (axis == "seed").then(|| json!(-1))
    }
    fn item(&self) -> Option<Value> {
        Some(json!({"id": "x", "n": 1.5}))
    }
    fn metric(&self, stage: &str, _: &str, _: Option<Of>) -> Option<Value> {
        (stage == "gate").then(|| json!(0.25))
    }
    fn status(&self, stage: &str) -> Option<Value> {
        (stage == "gate").then(|| json!("succeeded"))
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
