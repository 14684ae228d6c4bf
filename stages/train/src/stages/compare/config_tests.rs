use super::*;
use serde_json::{Value, json};

fn config(options: Value) -> CompareConfig {
    serde_json::from_value(options).unwrap()
}
fn wired(counts: &[(&str, usize)]) -> WiredInputs {
    counts.iter().map(|(port, n)| ((*port).to_string(), *n)).collect()
}

#[test]
fn options_of_older_files_keep_their_json() {
    let old = config(json!({"a": "rl", "b": "sft"}));
    assert_eq!(serde_json::to_value(&old).unwrap(), json!({"metric": "accuracy", "a": "rl", "b": "sft"}));
    assert_eq!((old.problems(), old.problems_with(&wired(&[("results", 2)]))), (vec![], vec![]));
}

#[test]
fn contradictory_options_are_refused() {
    let places = |options: Value| config(options).problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>();
    assert_eq!(places(json!({})), [""]);
    assert_eq!(places(json!({"a": "rl"})), ["/a"]);
    assert_eq!(places(json!({"b": "rl"})), ["/b"]);
    assert_eq!(places(json!({"metric": "loss", "a": "x", "b": "y"})), ["/metric"]);
    let names = ["kl", "Kl", "kl", "rewards.answer", "rewards_answer", "report.kl", "report."];
    assert_eq!(places(json!({"metrics": names})), ["/metrics/1", "/metrics/2", "/metrics/6"]);
    assert_eq!(places(json!({"metrics": ["kl"], "names": {"a": "x", "b": "x"}})), ["/names"]);
    assert_eq!(places(json!({"metrics": ["kl"], "a": "rl", "b": "sft"})), [""; 0]);
}

#[test]
fn arms_are_chosen_by_name_among_those_that_are_wired() {
    let places = |options: Value, wired: usize| {
        let config = config(options);
        let pairs: Result<Vec<_>> = config.arm_pairs().into_iter().map(|pair| config.arm_places(wired, pair)).collect();
        pairs.map_err(|e| e.message)
    };
    assert_eq!(places(json!({}), 2), Ok(vec![(1, 0)]));
    assert!(places(json!({}), 3).unwrap_err().contains("3 are wired"));
    assert_eq!(places(json!({"arms": ["placebo", "baseline"]}), 3), Ok(vec![(2, 0)]));
    assert!(places(json!({"arms": ["placebo", "baseline"]}), 2).unwrap_err().contains("not both among"));
    assert_eq!(places(json!({"arms": ["x", "y"], "order": ["y", "z", "x"]}), 3), Ok(vec![(2, 0)]));
    assert_eq!(places(json!({"arms": ["placebo", "treatment", "baseline"]}), 3), Ok(vec![(2, 0), (1, 0)]));
    let pointers = |options: Value| config(options).problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>();
    assert_eq!(pointers(json!({"metrics": ["kl"], "arms": ["treatment"]})), ["/arms"]);
    assert_eq!(pointers(json!({"metrics": ["kl"], "arms": ["treatment", "basline"]})), ["/arms/1"]);
    assert_eq!(pointers(json!({"metrics": ["kl"], "pool": true})), ["/pool"]);
}

#[test]
fn models_and_arms_cannot_share_a_row() {
    let both = |metrics: &[&str]| json!({"metric": "reward", "a": "rl", "b": "sft", "metrics": metrics});
    let problems = config(both(&["kl", "reward"])).problems();
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    assert_eq!(problem.pointer, "/metrics/1");
    assert!(problem.help.as_ref().is_some_and(|h| h.contains("`report.reward`")), "{problem:?}");
    assert!(config(both(&["kl", "report.reward"])).problems().is_empty());
    assert!(config(json!({"metric": "reward", "metrics": ["reward"]})).problems().is_empty(), "no models, no row");
}

#[test]
fn contradictory_wiring_is_refused() {
    let places = |options: Value, counts: &[(&str, usize)]| {
        let problems = config(options).problems_with(&wired(counts));
        problems.into_iter().map(|p| p.pointer).collect::<Vec<_>>()
    };
    assert_eq!(places(json!({"a": "rl", "b": "sft"}), &[]), ["/a"]);
    assert_eq!(places(json!({"metrics": ["kl"]}), &[("results", 1), ("reports", 2)]), ["/results"]);
    assert_eq!(places(json!({"metrics": ["kl"]}), &[]), ["/metrics/0"]);
    assert_eq!(places(json!({"metrics": ["kl"]}), &[("reports", 3)]), ["/reports"]);
    assert_eq!(places(json!({"metrics": ["void", "kl"]}), &[("trajectories", 2)]), ["/metrics/1"]);
    assert_eq!(places(json!({"metrics": ["void", "kl"]}), &[("reports", 2)]), [""; 0], "a report may hold any name");
    assert_eq!(places(json!({"metrics": ["rewards.answer"]}), &[("reports", 2)]), ["/metrics/0"]);
    assert_eq!(places(json!({"a": "rl", "b": "sft"}), &[("results", 1), ("trajectories", 2)]), ["/trajectories"]);
    assert_eq!(places(json!({"metrics": ["void", "kl"]}), &[("reports", 2), ("trajectories", 2)]), [""; 0]);
}

#[test]
fn several_models_are_compared_with_one() {
    let several = config(json!({"a": ["x", "y"], "b": "base"}));
    assert_eq!(several.models(), [("x", "base"), ("y", "base")]);
    assert_eq!(several.problems(), []);
    assert_eq!(CompareConfig::row_name("accuracy", "x", 2), "accuracy_x");
    assert_eq!(CompareConfig::row_name("accuracy", "x", 1), "accuracy");
    for a in [json!([]), json!(["x", "x"]), json!(["x", "base"])] {
        let problems = config(json!({"a": a, "b": "base"})).problems();
        assert!(problems.iter().any(|p| p.pointer == "/a"), "{a}: {problems:?}");
    }
}

#[test]
fn names_that_no_table_has_are_refused_before_the_run() {
    let pointers = |options: Value, tables: &[Value]| {
        let mut inputs = WiredInputs::new();
        let facts = |names: &Value| match names {
            Value::Null => trainyard_core::Facts::new(),
            names => trainyard_core::Facts::from([("models".to_string(), names.clone())]),
        };
        inputs.wire("results", tables.iter().map(facts).collect());
        config(options).problems_with(&inputs).into_iter().map(|p| (p.pointer, p.help)).collect::<Vec<_>>()
    };
    let places = |options: Value, tables: &[Value]| {
        pointers(options, tables).into_iter().map(|(pointer, _)| pointer).collect::<Vec<_>>()
    };
    let swept = json!(["base", "sft[lr=1,seed=1]", "sft[lr=1,seed=2]"]);
    assert_eq!(places(json!({"a": "sft[lr=1]", "b": "base"}), std::slice::from_ref(&swept)), [""; 0]);
    assert_eq!(places(json!({"a": "sft[lr=1,seed=2]", "b": "base"}), std::slice::from_ref(&swept)), [""; 0]);
    let found = pointers(json!({"a": ["sft[lr=1]", "sft[lr=2]"], "b": "bsae"}), std::slice::from_ref(&swept));
    assert_eq!(found.iter().map(|(p, _)| p.as_str()).collect::<Vec<_>>(), ["/a/1", "/b"]);
    assert!(found[0].1.as_ref().unwrap().contains("sft[lr=1,seed=1]"), "{found:?}");
    assert_eq!(places(json!({"a": "rl", "b": "base"}), &[swept.clone(), Value::Null]), [""; 0], "one is not known");
    let seeds = [json!(["sft", "rl"]), json!(["sft"])];
    assert_eq!(places(json!({"a": "rl", "b": "sft", "pool": true}), &seeds), ["/a"]);
}
