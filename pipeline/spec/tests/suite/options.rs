//! Tests that the schema pass and serde agree: each accepts the options that the other accepts, and rejects those that
//! the other rejects.

use crate::catalogue::{Kinds, Rl, read};
use crate::compiles::{Memory, compile_text};
use proptest::prelude::*;
use serde_json::{Value, json};
use trainyard_core::StageKinds;
use trainyard_spec::template::Template;

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3i64..400).prop_map(Value::from),
        Just(json!(5_000_000_000u64)),
        Just(json!(2.5)),
        Just(json!(3.0)),
        Just(json!("token_mean")),
        Just(json!("clip")),
        "[a-z0-9]{0,4}".prop_map(Value::from),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("steps"),
        Just("seed"),
        Just("learning_rate"),
        Just("temperature"),
        Just("algorithm"),
        Just("shuffle"),
        Just("levels"),
        Just("loss"),
        Just("replay"),
        Just("label"),
        Just("aggregate"),
        Just("terms"),
        Just("kind"),
        Just("clip_low"),
        Just("clip_high"),
        Just("coefficient"),
        Just("size"),
        Just("other"),
    ]
    .prop_map(str::to_string)
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(key(), inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

/// Generates mostly valid options, with random content under one key.
fn config() -> impl Strategy<Value = Value> {
    let right = json!({
        "steps": 3,
        "loss": {"aggregate": "sequence_mean", "terms": [{"kind": "kl", "coefficient": 1}]},
        "levels": [1, 2],
        "replay": {"size": 3},
    });
    (proptest::collection::btree_map(key(), value(), 0..3)).prop_map(move |extra| {
        let mut config = right.clone();
        for (k, v) in extra {
            config[k] = v;
        }
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn schema_and_serde_accept_the_same_options(config in config()) {
        let text = format!("version: 1\nname: f\nstages:\n  a: {{uses: sft, with: {config}}}\n");
        let compiled = compile_text(&Memory::of(&[("/w/f.yaml", &text)]), &[]);
        // Integral floats are whole numbers in YAML; serde alone would refuse them.
        let direct = read::<Rl>(&config);
        match compiled.plan {
            Some(plan) => {
                let Template::Literal(complete) = &plan.nodes[0].config else { panic!("a literal config") };
                prop_assert!(read::<Rl>(complete).is_ok(), "{}", complete);
                let kinds = Kinds::new();
                let again = kinds.validate_options("sft", complete).unwrap();
                prop_assert_eq!(again.config(), complete);
            }
            None => {
                let by_serde_alone = compiled.diagnostics.iter().filter(|d| d.code == "wrong-option").count();
                let contradiction = compiled.diagnostics.iter().all(|d| d.message.contains("lower clip"));
                prop_assert!(
                    by_serde_alone == 0 || contradiction,
                    "serde found what the schema pass did not: {:?}",
                    compiled.diagnostics
                );
                // Serde reads a list as a struct, field by field; the schema rightly does not.
                let list_as_map =
                    compiled.diagnostics.iter().any(|d| d.message.ends_with("must be a map, found a list"));
                prop_assert!(direct.is_err() || contradiction || list_as_map, "{:?}\n{}", compiled.diagnostics, config);
            }
        }
    }
}
