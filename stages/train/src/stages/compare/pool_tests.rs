use super::super::Compare;
use super::*;
use crate::results::write_results;
use crate::testing::{assert_declared, context_in, input, outputs, run_stage};
use serde_json::{Value, json};
use trainyard_core::{ArtifactKind, ErrorKind};

/// Returns the greedy rows of a model on the problems `p` and `q`.
fn rows(model: &str, right: [bool; 2]) -> Vec<ResultRow> {
    let row = |(problem, correct): (&str, bool)| ResultRow {
        model: model.into(),
        problem_id: problem.into(),
        sample: -1,
        correct: Some(correct),
        ..ResultRow::default()
    };
    ["p", "q"].into_iter().zip(right).map(row).collect()
}

fn run(options: Value, models: &[(&str, [bool; 2])]) -> Result<(StageContext, StageReport)> {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context_in(folder.path(), 1, None);
    outputs(&mut context, folder.path(), &["report", "pairs"]);
    input(&mut context, folder.path(), "results", ArtifactKind::Table, |path| {
        let all: Vec<ResultRow> = models.iter().flat_map(|(model, right)| rows(model, *right)).collect();
        write_results(&path.join("data.parquet"), &all).unwrap();
    });
    run_stage::<Compare>(options.clone(), &mut context)?;
    assert_declared::<Compare>(&options, &context);
    let report = StageReport::read(context.output("report").unwrap()).unwrap();
    Ok((context, report))
}

const MODELS: [(&str, [bool; 2]); 5] = [
    ("base", [false, false]),
    ("sft[lr=1,seed=1]", [true, false]),
    ("sft[lr=1,seed=2]", [true, true]),
    ("sft[lr=2,seed=1]", [false, false]),
    ("sft[lr=2,seed=2]", [true, false]),
];

#[test]
fn arms_are_compared_seed_by_seed() {
    let (context, report) = run(json!({"a": "sft[lr=1]", "b": "sft[lr=2]"}), &MODELS).unwrap();
    let [row] = context.comparisons.as_slice() else { panic!("{:?}", context.comparisons) };
    // Seed 1: 0.5 against 0; seed 2: 1 against 0.5. Both differences are 0.5, so the interval has no width.
    assert_eq!((row.metric.as_str(), row.a, row.b), ("accuracy", Some(0.75), Some(0.25)));
    assert_eq!((row.difference, row.low, row.high, row.n), (Some(0.5), Some(0.5), Some(0.5), Some(4)));
    let table = &report.tables[0];
    assert_eq!(table.columns[0], "seed");
    assert_eq!(table.rows.iter().map(|cells| cells[0].clone()).collect::<Vec<_>>(), [1.0, 2.0].map(ReportCell::Number));
}

#[test]
fn several_arms_are_compared_with_a_model_without_seeds() {
    let options = json!({"a": ["sft[lr=1]", "sft[lr=2]", "sft[lr=1,seed=2]"], "b": "base"});
    let (context, report) = run(options, &MODELS).unwrap();
    let rows: Vec<(&str, Option<f64>)> =
        context.comparisons.iter().map(|row| (row.metric.as_str(), row.difference)).collect();
    let expected = [
        ("accuracy_sft[lr=1]", Some(0.75)),
        ("accuracy_sft[lr=2]", Some(0.25)),
        ("accuracy_sft[lr=1,seed=2]", Some(1.0)),
    ];
    assert_eq!(rows, expected);
    assert_eq!(report.tables[0].rows.len(), 3, "one row for each");
    assert_eq!(report.tables[1].title, "sft[lr=1]: accuracy by seed");
    assert_eq!(report.title, "sft[lr=1], sft[lr=2], sft[lr=1,seed=2] against base");
}

#[test]
fn arms_with_other_seeds_are_refused() {
    let error = run(json!({"a": "sft[lr=1]", "b": "sft[lr=2]"}), &MODELS[..4]).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("has the seeds 1, 2, `sft[lr=2]` has 1"), "{error}");
}
