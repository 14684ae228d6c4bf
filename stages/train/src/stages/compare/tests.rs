use super::*;
use crate::results::ResultRow;

fn row(model: &str, problem: &str, sample: i32, correct: Option<bool>) -> ResultRow {
    ResultRow { model: model.into(), problem_id: problem.into(), level: 1, sample, correct, ..ResultRow::default() }
}

fn refs(rows: &[ResultRow]) -> Vec<&ResultRow> {
    rows.iter().collect()
}

#[test]
fn metric_names() {
    assert_eq!(ProblemMetric::parse("pass_at_8").unwrap(), ProblemMetric::PassAt(8));
    assert_eq!(
        ProblemMetric::parse("best_of_4_product").unwrap(),
        ProblemMetric::BestOf(4, trainyard_learn::statistics::StepReduction::Product)
    );
    for bad in ["pass_at_0", "pass_at_", "best_of_4", "best_of_4_mean", "loss", ""] {
        assert!(ProblemMetric::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn values_of_one_problem_by_hand() {
    let mut rows = vec![row("m", "p", -1, Some(false))];
    for (i, (correct, answer, score)) in
        [(true, "7", 0.2), (false, "5", 0.9), (true, "7.0", 0.3), (false, "5.0", 0.1)].into_iter().enumerate()
    {
        rows.push(ResultRow {
            answer: Some(answer.into()),
            prm_last: Some(score),
            tool_calls: i as u32,
            logprob: Some([-3.0, -2.0, -1.0, -9.0][i]),
            ..row("m", "p", i as i32, Some(correct))
        });
    }
    let value = |name: &str| ProblemMetric::parse(name).unwrap().of(&refs(&rows));
    assert_eq!(value("accuracy"), Some(0.0));
    assert_eq!(value("avg"), Some(0.5));
    assert!((value("pass_at_2").unwrap() - 5.0 / 6.0).abs() < 1e-12);
    assert!((value("pass_hat_2").unwrap() - 1.0 / 6.0).abs() < 1e-12);
    assert_eq!(value("maj_at_4"), Some(0.5), "two right, two of one wrong answer: a tie");
    assert_eq!(value("maj_at_3"), Some(1.0), "the first three: right, wrong, right");
    assert_eq!(value("weighted_maj_at_4_last"), Some(0.0), "1.0 for the wrong answer, 0.5 for the right one");
    assert_eq!(value("weighted_maj_at_4_min"), None, "not scored");
    assert_eq!(value("best_of_4_last"), Some(0.0));
    assert_eq!(value("best_of_4_min"), None, "not scored");
    assert_eq!(value("likeliest_of_4"), Some(1.0), "the third");
    assert_eq!(value("tool_calls"), Some(1.5));
    assert_eq!(value("pass_at_5"), None);
}

#[test]
fn infrastructure_failures_have_no_value() {
    let rows = [row("m", "p", 0, None), row("m", "p", 1, Some(true)), row("m", "q", 0, None)];
    let values = ProblemMetric::Avg.by_problem(&refs(&rows)).unwrap();
    assert_eq!(values.into_iter().collect::<Vec<_>>(), [("p".to_string(), 1.0)]);
}

#[test]
fn the_difference_is_paired_by_problem() {
    let table = vec![
        row("a", "p", -1, Some(true)),
        row("a", "q", -1, Some(true)),
        row("a", "r", -1, None),
        row("b", "q", -1, Some(true)),
        row("b", "p", -1, Some(false)),
        row("b", "r", -1, Some(true)),
    ];
    let tables = [table];
    let pairs = ProblemPairs::new(
        models::rows(&tables, "a").unwrap(),
        models::rows(&tables, "b").unwrap(),
        ProblemMetric::Accuracy,
    )
    .unwrap();
    let d = pairs.difference(None).unwrap();
    assert_eq!((d.a, d.b, d.difference.value, d.difference.n, pairs.unpaired), (1.0, 0.5, 0.5, 2, 1));
    // Differences 1 and 0: SE² = 0.5/2 = 0.25.
    assert!((d.difference.standard_error.unwrap() - 0.5).abs() < 1e-12);
    assert_eq!(pairs.difference(Some(9)), None);
}

#[test]
fn unknown_models_are_reported() {
    let tables = [vec![row("rl", "p", -1, None)], vec![row("rl", "q", -1, None), row("sft", "q", -1, None)]];
    assert_eq!(models::rows(&tables, "2/rl").unwrap()[0].problem_id, "q");
    assert_eq!(models::rows(&tables, "sft").unwrap().len(), 1);
    assert!(models::rows(&tables, "rl").unwrap_err().message.contains("2 tables"));
    assert!(models::rows(&tables, "prm").unwrap_err().help.unwrap().contains("rl, sft"));
    assert!(models::rows(&tables, "3/rl").is_err());
    let twice = [row("a", "p", -1, None), row("a", "p", 0, None), row("a", "p", 0, None)];
    let e = ProblemMetric::Accuracy.by_problem(&refs(&twice)).unwrap_err();
    assert!(e.message.contains("`p` has sample 0 twice"), "{e}");
}
