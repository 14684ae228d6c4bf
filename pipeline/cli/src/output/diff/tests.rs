use super::*;
use serde_json::json;
use trainyard_core::{ArtifactKind, Comparison, RunId, StageKey};
use trainyard_views::artifacts::FileRow;
use trainyard_views::diff::{
    ChangedCell, ChangedColumn, ChangedFile, ChangedRow, ChangedStage, ChangedTensor, ColumnsDiff, ConfigChange,
    FilesDiff, InputArtifact, InputChange, MetricChange, Reason, ReshapedTensor, RetypedColumn, RowName, RowsDiff,
    RunSide, RunsDiff, StageResult, TensorsDiff,
};

fn artifact(name: &str, kind: ArtifactKind, rows: Option<u64>) -> ArtifactSide {
    ArtifactSide {
        artifact: name.into(),
        kind,
        stage_kind: "sft".into(),
        kind_version: 1,
        stage_digest: "d".into(),
        generation: 0,
        digest: "e".into(),
        bytes: 2048,
        rows,
    }
}

fn empty(kind_a: ArtifactKind, kind_b: ArtifactKind) -> ArtifactDiff {
    ArtifactDiff {
        a: artifact("r/sft/o", kind_a, Some(3)),
        b: ArtifactSide { generation: 2, ..artifact("q/sft/o", kind_b, None) },
        is_same: false,
        is_equal: false,
        config: Vec::new(),
        inputs: Vec::new(),
        metrics: Vec::new(),
        comparisons: Vec::new(),
        metadata: Vec::new(),
        columns: None,
        rows: None,
        tensors: None,
        files: None,
    }
}

fn change(path: &str, a: Option<serde_json::Value>, b: Option<serde_json::Value>) -> ConfigChange {
    ConfigChange { path: path.into(), a, b }
}

fn metric(name: &str, a: Option<f64>, b: Option<f64>) -> MetricChange {
    let difference = a.zip(b).map(|(a, b)| b - a);
    MetricChange { name: name.into(), a, b, difference, interval_a: None, interval_b: None }
}

#[test]
fn manifests_are_compared_in_sections() {
    let input = |artifact: &str| InputArtifact { artifact: artifact.into(), digest: "d".into() };
    let diff = ArtifactDiff {
        config: vec![change("lr", Some(json!(0.1)), Some(json!("x"))), change("new", None, Some(json!([1])))],
        inputs: vec![InputChange { input: "model".into(), a: vec![input("r/base/model")], b: Vec::new() }],
        metrics: vec![
            MetricChange { interval_a: Some((0.25, 0.75)), ..metric("accuracy", Some(0.5), Some(0.75)) },
            metric("kl", None, Some(1.0)),
            metric("same", Some(1.0), Some(1.0)),
        ],
        comparisons: vec![trainyard_views::diff::ComparisonChange {
            metric: "tokens".into(),
            a: Some(Comparison { a: Some(3.0), b: Some(2.0), ..Comparison::of("tokens") }),
            b: None,
        }],
        ..empty(ArtifactKind::Table, ArtifactKind::Model)
    };
    let expected = "A  r/sft/o: table of sft version 1, 2.0 KiB, 3 rows\n\
                    B  q/sft/o: model of sft version 1 generation 2, 2.0 KiB\n\
                    the kinds differ, table and model: only the stages are compared\n\n\
                    config    A  B\n\
                    lr      0.1  x\n\
                    new       -  [1]\n\n\
                    inputs  A             B\n\
                    model   r/base/model  -\n\n\
                    metrics   A                         B   B - A\n\
                    accuracy  0.500 [0.250, 0.750]  0.750  +0.250\n\
                    kl        -                         1       -\n\
                    (1 equal; `--format json` lists all)\n\n\
                    comparisons of the stages that differ:\n  A  tokens 2 → 3\n  B  -";
    assert_eq!(artifacts(&diff), expected);
}

#[test]
fn rows_show_counts_columns_and_cells() {
    let diff = RowsDiff {
        key: Some("id".into()),
        only_a: 7,
        only_b: 0,
        equal: 4,
        changed: 3,
        repeated_a: 1,
        repeated_b: 0,
        columns: vec![ChangedColumn { column: "answer".into(), rows: 3 }],
        first_changed: vec![ChangedRow {
            key: Some("p1".into()),
            row_a: 0,
            row_b: 9,
            cells: vec![ChangedCell { column: "answer".into(), a: "x\ny".into(), b: "z".into() }],
        }],
        first_only_a: vec![RowName { row: 5, key: Some("p6".into()) }],
        first_only_b: Vec::new(),
    };
    let expected = "rows by `id`: 7 only in A, 0 only in B, 4 equal, 3 changed\n\
                    keys are repeated in 1 row of A; they are matched in their order\n\
                    changed columns, with the number of rows: answer (3)\n\n\
                    p1 (row 0 of A, row 9 of B)\n  answer\n    A  x⏎y\n    B  z\n\
                    … 2 more changed rows; `--rows N` shows more\n\
                    only in A: p6 (row 5), …";
    assert_eq!(rows(&diff), expected);
    let by_position = RowsDiff { only_b: 1, first_only_b: vec![RowName { row: 2, key: None }], ..RowsDiff::default() };
    let expected = "rows by position: 0 only in A, 1 only in B, 0 equal, 0 changed\nonly in B: row 2";
    assert_eq!(rows(&by_position), expected);
}

#[test]
fn columns_tensors_and_files_are_listed() {
    let retyped = vec![RetypedColumn { column: "x".into(), a: "Int64".into(), b: "Utf8".into() }];
    let found = columns(&ColumnsDiff { only_a: vec!["p".into(), "q".into()], only_b: Vec::new(), retyped });
    assert_eq!(found.as_deref(), Some("columns only in A: p, q\ncolumn x has another type: Int64 → Utf8"));
    assert_eq!(columns(&ColumnsDiff::default()), None);

    let tensor = |name: &str, dtype_b: &str, relative: Option<f64>| ChangedTensor {
        name: name.into(),
        shape: vec![2, 3],
        dtype_a: "F32".into(),
        dtype_b: dtype_b.into(),
        relative,
        norm: relative.map(|relative| 2.0 * relative),
    };
    let diff = TensorsDiff {
        equal: 9,
        relative: Some(0.25),
        changed: vec![tensor("i", "F32", None), tensor("w", "BF16", Some(0.5))],
        reshaped: vec![ReshapedTensor { name: "head".into(), a: vec![2], b: vec![3] }],
        only_a: vec!["old".into()],
        only_b: Vec::new(),
    };
    let expected = "tensors: 9 equal, 2 changed, 1 other shape, 1 only in A; ‖a−b‖/‖a‖ of all 0.250\n\
                    tensor  shape   type        ‖a−b‖/‖a‖  ‖a−b‖\n\
                    i       [2, 3]  F32                 -      -\n\
                    w       [2, 3]  F32 → BF16      0.500      1\n\
                    head has another shape: [2] → [3]\nonly in A: old";
    assert_eq!(tensors(&diff), expected);
    let many = TensorsDiff { only_b: (0..22).map(|i| format!("t{i:02}")).collect(), ..TensorsDiff::default() };
    assert!(tensors(&many).ends_with("t19\n… 2 more only in B; `--format json` lists them"), "{}", tensors(&many));

    let file = |path: &str, bytes: u64| FileRow { path: path.into(), bytes, digest: "d".into() };
    let diff = FilesDiff {
        equal: 1,
        only_b: 1,
        changed: 1,
        first_only_b: vec![file("new", 5)],
        first_changed: vec![ChangedFile { a: file("x", 1), b: file("x", 2) }],
        ..FilesDiff::default()
    };
    let expected =
        "files: 0 only in A, 1 only in B, 1 equal, 1 changed\n  changed    x, 1 B → 2 B\n  only in B  new, 5 B";
    assert_eq!(files(&diff).as_deref(), Some(expected));
    assert_eq!(files(&FilesDiff { equal: 3, ..FilesDiff::default() }), None);
}

fn run(name: &str, status: &str) -> RunSide {
    RunSide { run: RunId(name.into()), workflow: "w".into(), status: status.into(), seconds: 12.34 }
}

#[test]
fn runs_show_parameters_reasons_and_results() {
    let key = |name: &str| StageKey(name.into());
    let result = |stage: &str, metrics: Vec<MetricChange>| StageResult {
        stage: key(stage),
        status_a: "done".into(),
        status_b: "hit".into(),
        seconds_a: Some(1.5),
        seconds_b: None,
        metrics,
    };
    let reasons = vec![
        Reason::Config { changes: vec![change("lr", Some(json!(1)), Some(json!(2)))] },
        Reason::Input { input: "model".into(), stages: vec![key("base"), key("sft")] },
        Reason::Input { input: "data".into(), stages: Vec::new() },
        Reason::KindVersion { a: 1, b: 2 },
    ];
    let rl = ChangedStage { stage: key("rl"), reasons };
    let again = ChangedStage { stage: key("sft"), reasons: vec![Reason::Generation { a: 0, b: 1 }] };
    let diff = RunsDiff {
        a: run("r1", "succeeded"),
        b: run("r2", "failed"),
        is_same: false,
        params: vec![change("lr", Some(json!(1)), Some(json!(2)))],
        only_a: vec![key("old")],
        only_b: Vec::new(),
        equal: vec![key("data")],
        changed: vec![again, rl],
        results: vec![
            result("data", vec![metric("rows", Some(1.0), Some(1.0))]),
            result("sft", Vec::new()),
            result("rl", vec![metric("reward", Some(0.5), Some(0.5)), metric("kl", Some(1.0), Some(0.5))]),
        ],
    };
    let expected = "A  r1 of w: succeeded after 12.3 s\nB  r2 of w: failed after 12.3 s\n\n\
                    parameter  A  B\n\
                    lr         1  2\n\n\
                    stages only in A: old\n\
                    sft differs\n  computed again: generation 0 → 1\n\
                    rl differs\n  config lr: 1 → 2\n  input `model`, because `base` and `sft` differ\n  \
                    input `data` has other content\n  version of the kind: 1 → 2\n\
                    equal stages: data\n\n\
                    stage  A     B    seconds A  seconds B\n\
                    data   done  hit        1.5          -\n\
                    sft    done  hit        1.5          -\n\
                    rl     done  hit        1.5          -\n\n\
                    metrics of rl      A      B   B - A\n\
                    reward         0.500  0.500       0\n\
                    kl                 1  0.500  -0.500";
    assert_eq!(runs(&diff), expected);
    assert_eq!(runs(&RunsDiff { is_same: true, ..diff }), "both names are the same run, r1");
}
