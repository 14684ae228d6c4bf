use super::super::Compare;
use super::*;
use crate::testing::{assert_declared, context_in, input, input_trajectories, outputs, run_stage};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::{ArtifactKind, ErrorKind};

/// Returns a rollout of a problem with this correctness and this number of tool calls.
fn rollout(problem: &str, sample: u32, right: f64, calls: u32) -> Trajectory {
    Trajectory {
        id: format!("{problem}/{sample}"),
        problem_id: problem.into(),
        sample,
        rewards: BTreeMap::from([("answer".to_string(), right)]),
        reward: right,
        tool_calls: calls,
        ..Trajectory::default()
    }
}

fn report(metrics: &[(&str, f64)]) -> StageReport {
    let mut report = StageReport::new("Reinforcement learning");
    for (name, value) in metrics {
        report.metric(*name, *value);
    }
    report
}

fn with_reports(context: &mut StageContext, folder: &Path, arms: &[StageReport]) {
    for arm in arms {
        input(context, folder, "reports", ArtifactKind::Report, |path| arm.write(path).unwrap());
    }
}

fn context(folder: &Path) -> StageContext {
    let mut context = context_in(folder, 1, None);
    outputs(&mut context, folder, &["report", "pairs"]);
    context
}

/// Returns the row of a metric.
fn row<'c>(context: &'c StageContext, name: &str) -> &'c Comparison {
    context.comparisons.iter().find(|row| row.metric == name).unwrap()
}

fn run(options: Value, context: &mut StageContext) -> Result<()> {
    run_stage::<Compare>(options, context)
}

#[test]
fn arms_are_paired_by_the_problems_that_both_practiced_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path());
    let baseline =
        [rollout("p", 0, 0.0, 4), rollout("p", 1, 1.0, 2), rollout("q", 0, 1.0, 3), rollout("only", 0, 1.0, 9)];
    let treatment =
        [rollout("p", 0, 1.0, 1), rollout("p", 1, 1.0, 1), rollout("q", 0, 1.0, 2), rollout("other", 0, 0.0, 9)];
    input_trajectories(&mut context, folder.path(), "trajectories", &baseline);
    input_trajectories(&mut context, folder.path(), "trajectories", &treatment);
    let options = json!({"metrics": ["correct", "tool_calls", "rewards.answer", "tool_calls_per_correct"]});
    run(options.clone(), &mut context).unwrap();
    // Correct: 0.5 and 1 against 1 and 1, so the differences are 0.5 and 0: mean 0.25, SE² = 2·0.25²/(2·1) = 0.0625.
    let correct = row(&context, "correct");
    assert_eq!((correct.b, correct.a, correct.difference, correct.n), (Some(0.75), Some(1.0), Some(0.25), Some(2)));
    assert_eq!(correct.unit, "share");
    assert!((correct.low.unwrap() - (0.25 - 0.25 * trainyard_learn::statistics::Z_95)).abs() < 1e-12);
    assert!((correct.high.unwrap() - (0.25 + 0.25 * trainyard_learn::statistics::Z_95)).abs() < 1e-12);
    // Calls: 3 and 3 against 1 and 2.
    let calls = row(&context, "tool_calls");
    assert_eq!((calls.b, calls.a, calls.difference), (Some(3.0), Some(1.5), Some(-1.5)));
    // Calls per correct answer: 6 and 3 against 1 and 2.
    let per_correct = row(&context, "tool_calls_per_correct");
    assert_eq!((per_correct.b, per_correct.a), (Some(4.5), Some(1.5)));
    assert_eq!(row(&context, "rewards.answer").difference, correct.difference);
    assert_declared::<Compare>(&options, &context);
    let written = StageReport::read(context.output("report").unwrap()).unwrap();
    assert_eq!(written.title, "treatment against baseline");
    assert_eq!(written.comparisons, context.comparisons);
    assert_eq!(
        written.tables[0].rows[1][1..3],
        [ReportCell::Number(3.0), ReportCell::Number(1.5)],
        "the baseline comes first"
    );
}

#[test]
fn one_artifact_differs_from_itself_by_exactly_zero() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path());
    for _ in 0..2 {
        input_trajectories(&mut context, folder.path(), "trajectories", &[rollout("p", 0, 0.1, 3)]);
    }
    with_reports(&mut context, folder.path(), &[report(&[("kl", 0.3)]), report(&[("kl", 0.3)])]);
    run(json!({"metrics": ["reward", "kl", "tool_calls_per_correct", "forks"]}), &mut context).unwrap();
    let reward = row(&context, "reward");
    assert_eq!((reward.difference, reward.low, reward.high), (Some(0.0), Some(0.0), Some(0.0)), "even of one problem");
    assert_eq!((row(&context, "kl").difference, row(&context, "kl").low), (Some(0.0), None));
    let per_correct = row(&context, "tool_calls_per_correct");
    assert_eq!(per_correct.n, Some(0));
    assert!(per_correct.difference.is_none() && row(&context, "forks").difference.is_none(), "nothing to compare");
    let written = StageReport::read(context.output("report").unwrap()).unwrap();
    assert!(written.notes.iter().any(|n| n.contains("the same artifacts")), "{:?}", written.notes);
}

#[test]
fn metric_of_one_report_has_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path());
    let arms = [
        report(&[("grad_norm_max", 8.0), ("tokens", 50.0)]),
        report(&[("grad_norm_max", 2.5), ("tokens", 40.0), ("forks", 7.0)]),
    ];
    with_reports(&mut context, folder.path(), &arms);
    let options = json!({
        "metrics": ["grad_norm_max", "tokens", "report.tokens", "forks"], "names": {"a": "with", "b": "without"},
    });
    run(options, &mut context).unwrap();
    let norm = row(&context, "grad_norm_max");
    assert_eq!((norm.b, norm.a, norm.difference, norm.low), (Some(8.0), Some(2.5), Some(-5.5), None));
    assert_eq!(
        (row(&context, "tokens").difference, row(&context, "report.tokens").difference),
        (Some(-10.0), Some(-10.0)),
        "without trajectories the name is the report's"
    );
    let forks = row(&context, "forks");
    assert_eq!((forks.a, forks.b, forks.difference), (Some(7.0), None, None));
    assert_eq!(StageReport::read(context.output("report").unwrap()).unwrap().title, "with against without");
}

#[test]
fn trajectory_metric_takes_precedence_over_report_metric() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path());
    input_trajectories(
        &mut context,
        folder.path(),
        "trajectories",
        &[rollout("p", 0, 1.0, 4), rollout("q", 0, 1.0, 4)],
    );
    input_trajectories(
        &mut context,
        folder.path(),
        "trajectories",
        &[rollout("p", 0, 1.0, 1), rollout("q", 0, 1.0, 3)],
    );
    with_reports(&mut context, folder.path(), &[report(&[("tool_calls", 1.0)]), report(&[("tool_calls", 9.0)])]);
    run(json!({"metrics": ["tool_calls", "report.tool_calls"]}), &mut context).unwrap();
    assert_eq!(
        (row(&context, "tool_calls").difference, row(&context, "report.tool_calls").difference),
        (Some(-2.0), Some(8.0))
    );
}

#[test]
fn incomparable_arms_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = context(folder.path());
    with_reports(&mut other, folder.path(), &[report(&[("kl", 1.0)]), report(&[("entropy", 2.0)])]);
    let error = run(json!({"metrics": ["grad_norm"]}), &mut other).unwrap_err();
    assert!(error.kind == ErrorKind::Data && error.message.contains("`grad_norm`"), "{error}");
    assert_eq!(error.help.unwrap(), "they report: entropy, kl");

    let folder = tempfile::tempdir().unwrap();
    let mut apart = context(folder.path());
    input_trajectories(&mut apart, folder.path(), "trajectories", &[rollout("p", 0, 1.0, 4)]);
    input_trajectories(&mut apart, folder.path(), "trajectories", &[rollout("q", 0, 1.0, 4)]);
    let error = run(json!({"metrics": ["turns"]}), &mut apart).unwrap_err();
    assert!(error.message.contains("share no problem"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let mut three = context(folder.path());
    with_reports(&mut three, folder.path(), &[report(&[]), report(&[]), report(&[])]);
    assert_eq!(run(json!({"metrics": ["kl"]}), &mut three).unwrap_err().kind, ErrorKind::Invalid);
}
