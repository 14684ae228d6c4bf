//! Tests rejected compositions, and changes that are allowed between attempts.

use super::*;
use crate::testing::without_results;

#[test]
fn compositions_that_contradict_the_stage_are_refused_with_the_reason() {
    let stage = erase(Rl::default());
    let problems = |options: Value| stage.validate(&options);
    let lone = problems(json!({"environment": environment_options(), "rollout": {"group_size": 1}}));
    assert!(lone.iter().any(|p| p.pointer == "/advantage" && p.message.contains("groups")), "{lone:?}");
    assert!(lone.iter().any(|p| p.pointer.starts_with("/filters/")));
    assert!(problems(json!({"algorithm": "gpro"}))[0].help.as_ref().unwrap().contains("grpo"));
    assert_eq!(problems(json!({"filters": [{"kind": "void"}]}))[0].pointer, "/filters/0/kind");
    assert!(problems(json!({"rollout": {"temperature": 0}})).iter().any(|p| p.pointer == "/rollout/temperature"));
    let stale = json!({
        "rollout": {"asynchronous": {}}, "loss": {"correction": "truncated", "horizon": 0},
        "filters": ["reward_spread"],
    });
    assert_eq!(problems(stale).iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/loss/horizon", "/filters/0"]);
    let uncorrected = problems(json!({"rollout": {"asynchronous": {}}}));
    assert_eq!(uncorrected.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/loss/correction"]);
    for strategy in ["demonstration_prefix", "rubric_scaffold"] {
        let unrecorded =
            json!({"rollout": {"asynchronous": {}, "strategy": strategy}, "loss": {"correction": "truncated"}});
        let found = problems(unrecorded);
        assert_eq!(found.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/rollout/strategy"], "{found:?}");
        assert!(found[0].message.contains("altered_start"), "{found:?}");
    }
    assert!(problems(json!({"stepz": 3}))[0].message.contains("stepz"));
    assert_eq!(problems(json!({})), []);
}

#[test]
fn all_problems_of_parts_are_reported_with_pointers() {
    let wrong = json!({
        "curriculum": {"kind": "levels", "promote_at": 7, "window": 0},
        "rollout": {"strategy": {"kind": "resample_on_correct", "oversample": 0}},
        "filters": ["void_turn", {"kind": "accuracy_band", "low": 0.9, "high": 0.1}, "voidturn"],
        "advantage": {"ddof": 2, "modulations": [{"kind": "whiten", "epsilon": -1}]},
        "replay": {"kind": "self_imitation", "per_step": 0},
        "loss": {
            "correction": {"kind": "masked", "low": 2},
            "terms": [{"kind": "clip", "dual_clip": 0.5}, {"kind": "clip", "clip_hgh": 1}],
        },
        "environment": {"kind": "word-problems", "max_turns": 0},
        "rewards": ["answer", {"kind": "tool_turns", "cap": -1}],
    });
    let problems = erase(Rl::default()).validate(&wrong);
    let pointers: Vec<&str> = problems.iter().map(|p| p.pointer.as_str()).collect();
    let expected = [
        "/curriculum/promote_at",
        "/curriculum/window",
        "/rollout/strategy/oversample",
        "/filters/1/low",
        "/filters/2",
        "/advantage/ddof",
        "/advantage/modulations/0/epsilon",
        "/replay/per_step",
        "/loss/correction/low",
        "/loss/terms/0/dual_clip",
        "/loss/terms/1",
        "/environment/max_turns",
        "/rewards/1/cap",
    ];
    assert_eq!(pointers, expected);
    assert!(
        problems[10].message.contains("clip_hgh") && problems[4].help.as_ref().unwrap().contains("void_turn"),
        "{problems:?}"
    );
}

#[test]
fn the_schema_names_parts_and_options() {
    let schema = Rl::default().schema();
    let text = schema.to_string();
    for word in
        ["zero_variance", "clip_high", "promote_at", "leave_one_out", "whiten", "dr_grpo", "word-problems", "truncated"]
    {
        assert!(text.contains(word), "{word}");
    }
    assert!(schema.get("required").is_none());
}

#[test]
fn a_template_without_tool_results_is_rejected_before_the_problems_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context_in(folder.path(), 1, None);
    input_model(&mut context, folder.path(), "model", &without_results());
    input_problems(&mut context, folder.path(), "problems", &[]);
    outputs(&mut context, folder.path(), &["model", "trajectories", "report"]);
    let options = json!({"environment": environment_options(), "steps": 1});
    let error = run_stage::<Rl>(options, &mut context).unwrap_err();
    assert!(error.message.contains("cannot show tool results"), "{error}");
}

#[test]
fn changed_tools_are_rejected_on_resume() {
    let tool = |name: &str| trainyard_envs::ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    let state = run::RlState { tools: Some(vec![tool("echo"), tool("count")]), ..run::RlState::default() };
    let state: run::RlState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert!(state.expect_tools(&[tool("count"), tool("echo")]).is_ok());
    let error = state.expect_tools(&[tool("count"), tool("add")]).unwrap_err();
    assert!(error.message.ends_with("of the previous attempt: `echo` is missing, `add` is new"), "{error}");
    assert!(run::RlState::default().expect_tools(&[tool("echo")]).is_ok(), "older resume points do not say");
}

#[test]
fn curves_are_part_of_the_state() {
    let state = run::RlState {
        step: 3,
        best: Some((2, 0.1 + 0.2)),
        curves: LearningCurves::default(),
        ..run::RlState::default()
    };
    let copy: run::RlState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert_eq!(copy.best, state.best);
}
