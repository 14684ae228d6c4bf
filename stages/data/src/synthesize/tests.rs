use super::*;
use crate::testing::{echo_environment, environment, parts, real, skipped, synthesize};
use std::collections::BTreeSet;
use trainyard_chat::Models;
use trainyard_core::ErrorKind;
use trainyard_process::null_log;
use trainyard_tables::{Message, Problem, StopReason, Trajectory};

fn config(method: &str) -> SynthesisConfig {
    let text = json!({
        "method": method,
        "seed": 3,
        "mistakes": 0.3,
        "environment": {"kind": if method == "annotated" { "math-problems" } else { "word-problems" },
            "tools": ["calculator"], "max_turns": 32},
        "splits": {"demonstrations": {"levels": {"1": 30, "2": 20, "5": 5}}, "rl": {"total": 25},
            "test": {"total": 20}},
    });
    synthesize().prepare(text).unwrap().config
}

fn check(config: &SynthesisConfig) -> Vec<OptionProblem> {
    synthesize().prepare(serde_json::to_value(config).unwrap()).unwrap().problems()
}

fn complete(options: &Value) -> Value {
    parts().envs.environments.complete(options).unwrap()
}

fn make(config: &SynthesisConfig, given: Vec<Problem>) -> Result<SynthesisOutput> {
    let environment = environment(&config.environment, 2).unwrap();
    let (models, progress) = (Models::in_memory(), |_, _| Ok(()));
    let prompt_environment = prompt_environment(&parts().envs.environments, config, &ToolHost::new(1)).unwrap();
    let (environment, prompt_environment) = (environment.as_ref(), prompt_environment.as_deref());
    let log = null_log();
    let world = SynthesisContext { environment, prompt_environment, models: &models, log: &log, progress: &progress };
    registry::method(&config.method).unwrap().make(config, given, &world)
}

fn tools(t: &Trajectory) -> Vec<&str> {
    t.messages.iter().filter(|m| m.role == "tool").map(|m| m.content.as_str()).collect()
}

#[test]
fn tools_are_left_to_templates_where_no_message_describes_them() {
    let config = config("procedural");
    let of = |options: &Value| left_to_templates(options, &*environment(options, 2).unwrap());
    assert!(of(&config.environment).unwrap().contains("\"name\": \"calculator\""));
    let mut described = config.environment;
    described["describe_tools"] = json!(true);
    assert_eq!(of(&described), None);
    assert_eq!(of(&complete(&json!({"kind": "customer-service"}))), None);
}

#[test]
fn splits_have_their_numbers_and_share_no_problem() {
    let made = make(&config("procedural"), Vec::new()).unwrap();
    let count = |split: &str, level: u32| made.problems.iter().filter(|p| p.split == split && p.level == level).count();
    assert_eq!(
        (count("demonstrations", 1), count("demonstrations", 5), count("rl", 3), count("test", 4)),
        (30, 5, 5, 4)
    );
    let forms: BTreeSet<&str> = made.problems.iter().map(|p| p.canonical.as_str()).collect();
    let ids: BTreeSet<&str> = made.problems.iter().map(|p| p.id.as_str()).collect();
    assert_eq!((forms.len(), ids.len(), made.problems.len()), (100, 100, 100));
    let coverage = made.report.metrics["ngram_coverage"].value;
    assert!((0.0..=1.0).contains(&coverage));
}

/// Level 1 has 170 programs that divide. The training splits request more than 170 problems, but the test split still
/// gets its share.
#[test]
fn test_split_keeps_its_distribution_with_large_training_splits() {
    let mut config = config("procedural");
    config.splits = BTreeMap::from([
        ("demonstrations".to_string(), splits::Split::by_level([(1, 800)])),
        ("rl".to_string(), splits::Split::by_level([(1, 400)])),
        ("test".to_string(), splits::Split::by_level([(1, 100)])),
    ]);
    let made = make(&config, Vec::new()).unwrap();
    let divisions = made.problems.iter().filter(|p| p.split == "test" && p.canonical.contains("//")).count();
    assert!(divisions > 12, "{divisions} of 100 test problems divide");
    let splits: Vec<&str> = made.problems.iter().map(|p| p.split.as_str()).collect();
    assert!(splits.is_sorted(), "splits follow each other by name");
}

/// The model also learns from the questions of the split `rl`, so coverage includes them.
#[test]
fn coverage_counts_demonstrations_and_rl_questions() {
    let coverage = |practiced: u64| {
        let mut config = config("procedural");
        config.splits.insert("rl".into(), splits::Split::by_level([(1, practiced)]));
        config.splits.insert("test".into(), splits::Split::by_level([(1, 40)]));
        make(&config, Vec::new()).unwrap().report.metrics["ngram_coverage"].value
    };
    let (few, many) = (coverage(1), coverage(1_000));
    assert!(many > few, "{few} with one question, {many} with a thousand");
}

#[test]
fn demonstrations_are_executed_right_and_some_recover_from_a_mistake() {
    let made = make(&config("procedural"), Vec::new()).unwrap();
    assert_eq!(made.demonstrations.len(), 55);
    for t in &made.demonstrations {
        assert_eq!((t.reward, t.stop_reason), (1.0, StopReason::Answer));
        assert_eq!(
            tools(t).last().copied(),
            t.messages.last().map(|m| m.content.as_str()),
            "the answer is the tool's result"
        );
        assert_eq!(t.tool_errors, t.tool_calls - 1, "all calls but the last are mistakes");
        assert!(t.token_ids.is_empty() && t.step_ends.is_empty() && t.parents == [t.problem_id.clone()]);
    }
    let recovered = made.demonstrations.iter().filter(|t| t.tool_errors > 0).count();
    assert_eq!(recovered as f64, made.report.metrics["demonstrations_with_mistake"].value);
    assert!((5..30).contains(&recovered), "{recovered}");
}

/// Every environment with a generator is supported; these two have demonstrations that do not end with a tool's result.
#[test]
fn other_environments_with_a_generator_are_demonstrated() {
    for kind in ["countdown", "grid-world"] {
        let mut config = config("procedural");
        config.environment = complete(&json!({"kind": kind}));
        assert!(check(&config).is_empty(), "{kind}");
        let made = make(&config, Vec::new()).unwrap();
        assert_eq!((made.problems.len(), made.demonstrations.len()), (100, 55), "{kind}");
        assert!(made.problems.iter().all(|p| p.environment == kind), "{kind}");
        assert!(made.demonstrations.iter().all(|t| (t.reward, t.stop_reason) == (1.0, StopReason::Answer)), "{kind}");
        let mistaken = made.report.metrics["demonstrations_with_mistake"].value;
        assert!((5.0..30.0).contains(&mistaken), "{kind}: {mistaken}");
    }
}

/// The turn limit leaves no room for a mistake.
#[test]
fn mistakes_that_do_not_fit_are_left_out() {
    let mut config = config("procedural");
    config.mistakes = 1.0;
    config.environment = complete(&json!({"kind": "word-problems", "tools": ["calculator"], "max_turns": 2}));
    let made = make(&config, Vec::new()).unwrap();
    assert!(made.demonstrations.iter().all(|t| (t.reward, t.turns, t.tool_errors) == (1.0, 2, 0)));
    assert_eq!(made.report.metrics["demonstrations_with_mistake"].value, 0.0);
}

#[test]
fn environment_without_a_generator_is_named_in_the_error() {
    let mut config = config("procedural");
    config.environment = complete(&json!({"kind": "math-problems"}));
    let problems = check(&config);
    assert_eq!(problems.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/environment/kind"]);
    let help = problems[0].help.as_deref().unwrap();
    assert!(help.contains("word-problems") && !help.contains("math-problems"), "{help}");
    assert!(make(&config, Vec::new()).unwrap_err().message.contains("`math-problems` generates no problems"));
}

#[test]
fn equal_seeds_give_equal_rows() {
    let (a, b) = (make(&config("procedural"), Vec::new()).unwrap(), make(&config("procedural"), Vec::new()).unwrap());
    assert_eq!((&a.problems, &a.demonstrations), (&b.problems, &b.demonstrations));
    let other = make(&SynthesisConfig { seed: 4, ..config("procedural") }, Vec::new()).unwrap();
    assert_ne!(a.problems, other.problems);
}

#[test]
fn contradictory_options_are_reported_at_check() {
    let mut bad = config("procedural");
    bad.splits.insert("rl".into(), splits::Split::default());
    bad.splits.remove("demonstrations");
    bad.mistakes = 1.5;
    let pointers: Vec<String> = check(&bad).into_iter().map(|p| p.pointer).collect();
    assert_eq!(pointers, ["/splits/rl", "/splits", "/mistakes"]);
    assert!(!check(&SynthesisConfig { method: "magic".into(), ..config("procedural") }).is_empty());
    assert!(make(&config("annotated"), Vec::new()).unwrap_err().message.contains("needs problems"));
}

fn annotated_problem(id: &str, reference: &str, answer: &str) -> Problem {
    Problem {
        id: id.into(),
        messages: vec![Message::new("user", "How many?")],
        answer: answer.into(),
        verifier: "{}".into(),
        environment: "math-problems".into(),
        reference: Some(reference.into()),
        ..Problem::default()
    }
}

#[test]
fn annotations_become_executed_calls() {
    let given = vec![
        annotated_problem("right", "Half is 48/2 = <<48/2=24>>24.\nIn all <<48+24=72>>72.\n#### 72", "72"),
        annotated_problem("disagrees", "It is <<2+2=5>>5.\n#### 5", "5"),
        annotated_problem("wrong answer", "It is <<2+2=4>>4.\n#### 4", "7"),
    ];
    let made = make(&config("annotated"), given).unwrap();
    assert_eq!(made.demonstrations.len(), 1);
    let t = &made.demonstrations[0];
    assert_eq!(tools(t), ["24", "72"]);
    let agent_turns: Vec<&str> =
        t.messages.iter().filter(|m| m.role == "assistant").map(|m| m.content.as_str()).collect();
    assert_eq!((agent_turns.len(), agent_turns[2], t.answer.as_deref()), (3, "72.\n#### 72", Some("72")));
    let metric = |name: &str| made.report.metrics[name].value;
    assert_eq!((metric("annotations_executed"), metric("annotations_agreeing")), (4.0, 3.0));
    assert_eq!((metric("dropped"), metric("dropped_disagreement"), metric("dropped_wrong_answer")), (2.0, 1.0, 1.0));
}

/// A row whose call does not terminate is dropped and named. A lost call fails the stage with a retryable error.
#[test]
fn endless_calls_drop_only_their_row() {
    let environment = echo_environment();
    let row = |i: usize, call: &str| {
        annotated_problem(&format!("p{i}"), &format!("First <<5=5>>5, then <<{call}=5>>5.\n#### 5"), "5")
    };
    let made = |calls: &[&str]| {
        let given: Vec<Problem> = calls.iter().enumerate().map(|(i, call)| row(i, call)).collect();
        annotated::annotated(&given, environment.as_ref(), 0, |_| Ok(()))
    };
    let some = made(&["5", "forever", "5"]).unwrap();
    let ids: Vec<&str> = some.trajectories.iter().map(|t| t.problem_id.as_str()).collect();
    assert_eq!((ids, some.executed, some.agreeing), (vec!["p0", "p2"], 5, 5));
    assert_eq!(some.dropped, BTreeMap::from([("time_limit", 1)]));
    assert_eq!(some.disagreements, [("p1".to_string(), "forever".to_string(), "5".to_string())]);
    let e = made(&["5", "gone"]).unwrap_err();
    assert!(e.kind == ErrorKind::Retryable && e.message.contains("`p1-annotated`"), "{e}");
}

#[test]
fn annotations_of_the_real_train_split_agree() {
    let Some(file) = real("gsm8k/train.jsonl") else { return };
    let reading = crate::import::ImportContext { name: "gsm8k".into(), split: "train".into(), ..Default::default() };
    let problems = crate::import::tests::read_file("gsm8k", &file, &reading).unwrap().problems;
    let made = make(&config("annotated"), problems).unwrap();
    let metric = |name: &str| made.report.metrics.get(name).map_or(0.0, |m| m.value);
    println!("{:?}", made.report.metrics);
    assert_eq!((metric("annotations_executed"), metric("annotations_agreeing")), (23_716.0, 23_716.0));
    assert!(made.demonstrations.len() > 7_400, "{}", made.demonstrations.len());
}

#[test]
fn python_demonstrations_are_executed_in_workers() {
    if std::env::var_os("TRAINYARD_TOOL_WORKER").is_none() {
        skipped("TRAINYARD_TOOL_WORKER names no worker program");
        return;
    }
    let mut config = config("procedural");
    config.environment = complete(&json!({"kind": "word-problems", "tools": ["python"]}));
    let made = make(&config, Vec::new()).unwrap();
    assert_eq!(made.demonstrations.len(), 55);
    assert!(made.demonstrations.iter().all(|t| t.reward == 1.0 && tools(t).last().copied() == t.answer.as_deref()));
    assert!(made.demonstrations.iter().all(|t| t.tool_errors + 1 == t.tool_calls), "the tool reports every mistake");
    assert!(made.demonstrations.iter().any(|t| t.tool_errors > 0));
}
