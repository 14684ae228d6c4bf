use super::*;
use crate::part::{Draw, PoolDemonstration, PoolProblem, ProblemPool, Progress};
use serde_json::json;
use std::path::Path;
use trainyard_core::Chance;

fn files(folder: &str) -> Vec<String> {
    let path = Path::new("src").join(folder);
    let mut names: Vec<String> = std::fs::read_dir(path)
        .unwrap()
        .filter_map(|e| e.unwrap().file_name().to_str().and_then(|n| n.strip_suffix(".rs")).map(str::to_string))
        .filter(|n| {
            !["mod", "epoch_sampler", "differences", "forking", "tests"].contains(&n.as_str()) && !n.ends_with("_tests")
        })
        .collect();
    names.sort();
    names
}

fn check<T: ?Sized + 'static>(kinds: &Family<T>) {
    let folder = kinds.folder;
    assert_eq!(kinds.names(), files(folder), "every file of `{folder}` is listed, sorted");
    for kind in kinds.members() {
        assert!(!kind.summary.is_empty() && !kind.doc.is_empty());
        let full = kinds.complete(&json!({ "kind": kind.kind })).unwrap();
        assert_eq!(kinds.complete(&full).unwrap(), full, "completing twice changes nothing");
        assert_eq!(kinds.complete(&json!(kind.kind)).unwrap(), full, "a bare name is the default");
        assert_eq!(kinds.check(&full), []);
        kinds.build(&full, &()).unwrap();
        let branch = kind.branch();
        // A placebo's option is in the config only where it is set, so that it changes no digest.
        let options = branch["properties"].as_object().unwrap().keys();
        let named: Vec<&String> = options.filter(|option| *option != "by_chance").collect();
        let given: Vec<&String> = full.as_object().unwrap().keys().collect();
        assert_eq!(named.len(), given.len(), "schema {named:?} and defaults {given:?} name the same options");
    }
}

#[test]
fn every_part_is_listed_documented_and_has_working_defaults() {
    check(&advantages());
    check(&modulations());
    check(&losses());
    check(&preference_losses());
    check(&filters());
    check(&curricula());
    check(&strategies());
    check(&replay());
    check(&corrections());
}

#[test]
fn unknown_kinds_and_options_are_rejected_with_the_valid_names() {
    let e = filters().build(&json!({"kind": "overlng"}), &()).err().unwrap();
    assert!(e.message.contains("overlng") && e.help.unwrap().contains("overlong, prefix_entropy, "));
    let e = losses().build(&json!({"kind": "clip", "clip_lw": 0.1}), &()).err().unwrap();
    assert!(e.message.contains("clip_lw"), "{e}");
    assert!(
        curricula()
            .build(&json!({"kind": "levels", "promote_at": 7}), &())
            .err()
            .unwrap()
            .message
            .contains("promote_at")
    );
    assert!(advantages().build(&json!(3), &()).is_err());
    assert!(advantages().build(&json!({"center": "group"}), &()).err().unwrap().message.contains("kind"));
}

#[test]
fn strategies_that_alter_the_start_declare_it() {
    let hints = vec!["a".to_string(), "b".to_string()];
    let demonstrations = vec![PoolDemonstration { id: "a".into(), turns: vec![vec![1; 10]] }];
    let pool = ProblemPool { problems: vec![PoolProblem { hints, demonstrations, ..PoolProblem::default() }] };
    let draw = Draw { problems: vec![0], ..Draw::default() };
    for kind in strategies().names() {
        let mut strategy = strategies().build(&json!(kind), &()).unwrap();
        let spawns = strategy.start(&draw, &pool, 4, Progress { step: 0, steps: 10 }, &Chance::new(1));
        let altered = spawns.iter().any(|s| s.prefix.is_some() || !s.scaffold.is_empty());
        assert_eq!(strategy.needs().altered_start, altered, "{kind}");
    }
}

#[test]
fn stateless_parts_reject_state() {
    let mut part = replay().build(&json!("none"), &()).unwrap();
    part.load(part.save()).unwrap();
    assert!(part.load(json!({"x": 1})).is_err());
}
