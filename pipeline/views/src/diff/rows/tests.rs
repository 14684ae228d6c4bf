use super::*;
use std::path::Path;
use trainyard_core::ErrorKind;
use trainyard_tables::TableBuilder;

fn table(folder: &Path, name: &str, rows: TableBuilder) -> NamedTable {
    let path = folder.join(name);
    rows.write(&path).unwrap();
    NamedTable { name: format!("r/{name}/rows"), source: (&path).into() }
}

/// Compares two tables, of which five rows are shown.
fn compared(a: TableBuilder, b: TableBuilder) -> RowsDiff {
    let folder = tempfile::tempdir().unwrap();
    compare_rows(&table(folder.path(), "a", a), &table(folder.path(), "b", b), 5).unwrap()
}

fn rows(ids: &[&str], answers: &[&str], rewards: &[f64]) -> TableBuilder {
    TableBuilder::new().string("id", ids).string("answer", answers).f64("reward", rewards.iter().copied())
}

fn column(name: &str, rows: usize) -> ChangedColumn {
    ChangedColumn { column: name.into(), rows }
}

fn cell(column: &str, a: &str, b: &str) -> ChangedCell {
    ChangedCell { column: column.into(), a: a.into(), b: b.into() }
}

#[test]
fn rows_are_matched_by_id_and_changed_columns_are_counted() {
    let a = rows(&["p1", "p2", "p3", "p4"], &["1", "2", "3", "4"], &[0.0, 0.5, 1.0, 1.0]);
    let b = rows(&["p4", "p5", "p2", "p1"], &["4", "5", "2", "one"], &[0.0, 1.0, 0.5, 1.0]);
    let found = compared(a, b);
    let expected = RowsDiff {
        key: Some("id".into()),
        only_a: 1,
        only_b: 1,
        equal: 1,
        changed: 2,
        columns: vec![column("reward", 2), column("answer", 1)],
        first_changed: vec![
            ChangedRow {
                key: Some("p1".into()),
                row_a: 0,
                row_b: 3,
                cells: vec![cell("answer", "1", "one"), cell("reward", "0.0", "1.0")],
            },
            ChangedRow { key: Some("p4".into()), row_a: 3, row_b: 0, cells: vec![cell("reward", "1.0", "0.0")] },
        ],
        first_only_a: vec![RowName { row: 2, key: Some("p3".into()) }],
        first_only_b: vec![RowName { row: 1, key: Some("p5".into()) }],
        ..RowsDiff::default()
    };
    assert_eq!(found, expected);
}

#[test]
fn rows_with_one_id_are_matched_by_occurrence() {
    let a = rows(&["x", "y", "x", "x"], &["1", "2", "3", "4"], &[0.0; 4]);
    let b = rows(&["y", "x", "x"], &["2", "1", "9"], &[0.0; 3]);
    let found = compared(a, b);
    assert_eq!((found.equal, found.changed, found.only_a, found.only_b), (2, 1, 1, 0));
    assert_eq!((found.repeated_a, found.repeated_b), (2, 1));
    assert_eq!((found.first_changed[0].row_a, found.first_changed[0].row_b), (2, 2));
    assert_eq!(found.first_changed[0].cells, [cell("answer", "3", "9")]);
    assert_eq!(found.first_only_a, [RowName { row: 3, key: Some("x".into()) }]);
}

#[test]
fn results_are_matched_by_rollout_and_others_by_position() {
    let results = |rollouts: &[&str], correct: &[bool]| {
        TableBuilder::new().string("rollout", rollouts).bool("correct", correct.iter().copied())
    };
    let found = compared(results(&["a", "b"], &[true, true]), results(&["b", "a"], &[true, false]));
    assert_eq!((found.key.as_deref(), found.equal, found.changed), (Some("rollout"), 1, 1));
    assert_eq!(found.first_changed[0].cells, [cell("correct", "true", "false")]);

    let found = compared(TableBuilder::new().i64("n", [1, 2, 3]), TableBuilder::new().i64("n", [1, 5]));
    assert_eq!((found.key.as_deref(), found.equal, found.changed, found.only_a), (None, 1, 1, 1));
    assert_eq!((found.first_changed[0].key.as_deref(), found.first_changed[0].row_b), (None, 1));
    assert_eq!(found.first_only_a, [RowName { row: 2, key: None }]);
    // An id of one table alone is no key.
    let found = compared(rows(&["p"], &["1"], &[0.0]), TableBuilder::new().string("answer", ["1"]));
    assert_eq!((found.key.as_deref(), found.equal), (None, 1), "only columns of both are compared");
}

#[test]
fn shown_rows_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = |from: i64| TableBuilder::new().i64("id", 0..100).i64("n", (0..100).map(move |n| n * n + from));
    let (a, b) = (table(folder.path(), "a", numbers(0)), table(folder.path(), "b", numbers(1)));
    let found = compare_rows(&a, &b, 3).unwrap();
    assert_eq!((found.changed, found.first_changed.len()), (100, 3));
    assert_eq!(found.columns, [column("n", 100)]);
    assert_eq!(found.first_changed[2].cells, [cell("n", "4", "5")]);
    let found = compare_rows(&a, &b, 0).unwrap();
    assert_eq!((found.columns.as_slice(), found.first_changed.len()), (&[column("n", 100)][..], 0));
}

#[test]
fn tables_without_rows_are_compared() {
    let none = || rows(&[], &[], &[]);
    assert_eq!(compared(none(), none()), RowsDiff { key: Some("id".into()), ..RowsDiff::default() });
    let found = compared(none(), rows(&["p"], &["1"], &[0.0]));
    assert_eq!((found.only_b, found.first_only_b[0].key.as_deref()), (1, Some("p")));
}

#[test]
fn a_damaged_table_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let a = table(folder.path(), "a", rows(&["p"], &["1"], &[0.0]));
    let b = table(folder.path(), "b", rows(&["p"], &["1"], &[0.0]));
    std::fs::write(folder.path().join("b"), "PAR1 damaged").unwrap();
    let error = compare_rows(&a, &b, 5).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data, "{error}");
    assert!(error.message.starts_with("r/b/rows: "), "{error}");
}
