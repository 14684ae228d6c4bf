use super::*;
use trainyard_tables::Message;

fn row(problem: &str) -> Trajectory {
    Trajectory { problem_id: problem.into(), ..Trajectory::default() }
}

fn judged(problem: &str, right: f64, calls: u32) -> Trajectory {
    Trajectory { rewards: BTreeMap::from([("answer".to_string(), right)]), tool_calls: calls, ..row(problem) }
}

fn value(name: &str, rows: &[Trajectory]) -> Vec<(String, f64)> {
    TrajectoryMetric::parse(name).unwrap().by_problem(rows, "answer").unwrap().into_iter().collect()
}

fn of(name: &str, rows: &[Trajectory]) -> f64 {
    value(name, rows)[0].1
}

#[test]
fn names_are_sorted_and_unknown_names_are_rejected() {
    assert!(FIXED.is_sorted_by_key(|(name, _)| *name));
    assert_eq!(TrajectoryMetric::parse("rewards.format"), Some(TrajectoryMetric::Component("format".into())));
    for other in ["rewards.", "grad_norm", "", "report.tokens"] {
        assert_eq!(TrajectoryMetric::parse(other), None, "{other}");
    }
}

#[test]
fn means_are_taken_within_each_problem() {
    let rows = [
        Trajectory { reward: 1.0, turns: 2, tool_errors: 1, ..row("p") },
        Trajectory { reward: 0.5, turns: 4, ..row("p") },
        Trajectory { reward: -1.0, turns: 1, ..row("q") },
        Trajectory { reward: 9.0, status: EpisodeStatus::Infrastructure, ..row("q") },
        Trajectory { reward: 9.0, status: EpisodeStatus::Infrastructure, ..row("r") },
    ];
    assert_eq!(value("reward", &rows), [("p".to_string(), 0.75), ("q".to_string(), -1.0)]);
    assert_eq!(value("turns", &rows), [("p".to_string(), 3.0), ("q".to_string(), 1.0)]);
    assert_eq!(of("tool_errors", &rows), 0.5);
}

#[test]
fn right_is_a_component_of_at_least_one() {
    let rows = [judged("p", 1.0, 0), judged("p", 0.99, 0), judged("p", 1.5, 0), row("p"), row("q")];
    assert_eq!(
        value("correct", &rows),
        [("p".to_string(), 2.0 / 3.0)],
        "a rollout without the component is not judged"
    );
    assert_eq!(of("rewards.answer", &rows), (1.0 + 0.99 + 1.5) / 3.0);
    let error = TrajectoryMetric::Correct.by_problem(&rows, "outcome").unwrap_err();
    assert!(error.message.contains("`outcome`") && error.help.unwrap().contains("answer"));
    assert!(TrajectoryMetric::Correct.by_problem(&[], "outcome").unwrap().is_empty());
}

#[test]
fn ratios_are_sums_over_sums_and_absent_without_denominator() {
    let rows = [judged("p", 1.0, 3), judged("p", 0.0, 4), judged("p", 1.0, 0), judged("q", 0.0, 5)];
    assert_eq!(value("tool_calls_per_correct", &rows), [("p".to_string(), 3.5)]);
    let answered = |answer: Option<&str>, tokens: usize| Trajectory {
        answer: answer.map(str::to_string),
        loss_mask: vec![true; tokens],
        ..row("p")
    };
    let rows = [answered(Some("7"), 4), answered(Some(" 7 "), 6), answered(Some("8"), 2), answered(None, 8)];
    assert_eq!(of("tokens_per_distinct_answer", &rows), 10.0);
    assert!(value("tokens_per_distinct_answer", &rows[3..]).is_empty());
}

#[test]
fn a_fork_counts_what_it_sampled_itself() {
    let mask = vec![false, true, true, false, true, true];
    let root = Trajectory { loss_mask: mask.clone(), ..row("p") };
    let fork = Trajectory { fork_of: Some("x".into()), fork_at: Some(2), ..root.clone() };
    assert_eq!((of("tokens", std::slice::from_ref(&root)), of("tokens", std::slice::from_ref(&fork))), (4.0, 3.0));
    assert_eq!(of("tokens", &[root, fork]), 3.5);
}

#[test]
fn a_turn_is_void_without_call_or_answer() {
    let call = || Message { tool_calls: Some("[]".into()), ..Message::new("assistant", "<tool_call>1</tool_call>") };
    let says = || Message::new("assistant", "7");
    let tool = || Message::new("tool", "1");
    let episode = |messages: Vec<Message>, turns: u32, stop_reason: StopReason, answer: Option<&str>| Trajectory {
        messages,
        turns,
        stop_reason,
        answer: answer.map(str::to_string),
        ..row("p")
    };
    let cases = [
        (episode(vec![call(), tool(), says()], 2, StopReason::Answer, Some("7")), 0.0, "a call, then an answer"),
        (
            episode(vec![says(), tool(), says()], 2, StopReason::Answer, Some("7")),
            1.0,
            "a broken call that was answered with an error",
        ),
        (episode(vec![call(), tool(), says()], 2, StopReason::End, None), 1.0, "an empty end"),
        (episode(vec![call(), tool(), says()], 2, StopReason::Length, None), 1.0, "cut off"),
        (episode(vec![call(), tool(), call()], 2, StopReason::Turns, None), 0.0, "a last call that was not run"),
        (episode(vec![says(), says()], 1, StopReason::Answer, Some("7")), 0.0, "the first one is of the prompt"),
        (episode(vec![], 0, StopReason::Length, None), 0.0, "no turn at all"),
    ];
    for (row, expected, what) in cases {
        assert_eq!(of("void", &[row]), expected, "{what}");
    }
}
