//! Compares translated expressions with SQLite's answers, over random expressions and rows.

use crate::mask::{Batches, mask};
use arrow_array::builder::{ListBuilder, UInt16Builder};
use arrow_array::types::{Float32Type, Int64Type, UInt32Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trainyard_query::FilterExpression;
use trainyard_tables::{BatchBounds, GroupReader, TableBuilder, read_schema};

/// One row of the table: every type of column, each with nulls.
#[derive(Debug, Clone)]
struct Cells {
    big: Option<i64>,
    small: Option<u32>,
    float: Option<f64>,
    single: Option<f32>,
    flag: Option<bool>,
    text: Option<String>,
    other: Option<String>,
    list: Option<usize>,
}

const TEXTS: [&str; 12] = ["", "a", "A", "ab", "a\0b", "é", "É", "a%b", "a_b", "5", "it's", "a\nb"];
const INTEGERS: [i64; 10] = [0, 1, -1, 2, 7, -8, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN];
const FLOATS: [f64; 11] =
    [0.0, -0.0, 0.5, -1.5, 0.1, 9_007_199_254_740_993.0, 1e308, -1e308, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

fn cells(wide: bool) -> impl Strategy<Value = Cells> {
    let integers = if wide { INTEGERS.to_vec() } else { INTEGERS[..6].to_vec() };
    let text = || proptest::option::of(select(TEXTS.to_vec()).prop_map(String::from));
    (
        proptest::option::of(select(integers)),
        proptest::option::of(select(vec![0, 1, 2, 3, u32::MAX])),
        proptest::option::of(select(FLOATS.to_vec())),
        proptest::option::of(select(vec![0.0_f32, 0.1, -2.5, f32::NAN, f32::MAX])),
        proptest::option::of(any::<bool>()),
        text(),
        text(),
        proptest::option::of(0_usize..3),
    )
        .prop_map(|(big, small, float, single, flag, text, other, list)| Cells {
            big,
            small,
            float,
            single,
            flag,
            text,
            other,
            list,
        })
}

fn write(path: &Path, rows: &[Cells]) {
    let mut lists = ListBuilder::new(UInt16Builder::new());
    for row in rows {
        lists.append_option(row.list.map(|n| (0..n).map(|i| Some(i as u16))));
    }
    let small: ArrayRef = Arc::new(rows.iter().map(|row| row.small).collect::<PrimitiveArray<UInt32Type>>());
    let single: ArrayRef = Arc::new(rows.iter().map(|row| row.single).collect::<PrimitiveArray<Float32Type>>());
    let big: ArrayRef = Arc::new(rows.iter().map(|row| row.big).collect::<PrimitiveArray<Int64Type>>());
    TableBuilder::new()
        .column("big", big)
        .column("small", small)
        .f64("float", rows.iter().map(|row| row.float))
        .column("single", single)
        .bool("flag", rows.iter().map(|row| row.flag))
        .optional_string("text", rows.iter().map(|row| row.text.clone()))
        .optional_string("other", rows.iter().map(|row| row.other.clone()))
        .column("list", Arc::new(lists.finish()))
        .write(path)
        .unwrap();
}

fn number() -> BoxedStrategy<String> {
    let leaf = select(vec![
        "big",
        "small",
        "float",
        "single",
        "flag",
        "SMALL",
        "0",
        "1",
        "2",
        "3",
        "-7",
        "0.5",
        "1e3",
        "0.1",
        "NULL",
        "9007199254740993",
        "9223372036854775807",
        "length(text)",
        "array_length(list)",
        "true",
    ])
    .prop_map(String::from);
    leaf.prop_recursive(3, 8, 2, |inner| {
        let operator = select(vec!["+", "-", "*", "/", "%"]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), select(vec!["+", "-", "*", "/"]), inner.clone())
                .prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            inner.clone().prop_map(|a| format!("abs({a})")),
            inner.clone().prop_map(|a| format!("(- {a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("coalesce({a}, {b})")),
            inner.prop_map(|a| format!("CAST({a} AS REAL)")),
        ]
    })
    .boxed()
}

fn text() -> BoxedStrategy<String> {
    let leaf =
        select(vec!["text", "other", "'a'", "''", "'é'", "'a%b'", "'it''s'", "NULL", "'5'"]).prop_map(String::from);
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("lower({a})")),
            inner.clone().prop_map(|a| format!("upper({a})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("ifnull({a}, {b})")),
        ]
    })
    .boxed()
}

fn comparison() -> impl Strategy<Value = String> {
    let operator = || select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let not = || select(vec!["", "NOT "]);
    let pattern = select(vec!["a%", "%b", "%_%", "", "%", "_", "a_b", "%a%b%", "É", "5", "it''s"]);
    let word = select(vec!["starts_with", "ends_with", "contains", "regexp_like"]);
    let truth = select(vec!["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS NULL", "IS NOT NULL"]);
    prop_oneof![
        6 => (number(), operator(), number()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        3 => (text(), operator(), text()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        1 => (text(), operator(), number()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        2 => (number(), not(), number(), number()).prop_map(|(a, not, b, c)| format!("{a} {not}BETWEEN {b} AND {c}")),
        1 => (number(), not(), number(), number()).prop_map(|(a, not, b, c)| format!("{a} {not}IN ({b}, {c})")),
        1 => not().prop_map(|not| format!("small {not}IN (0, 1, 2, 5, 6, 7)")),
        1 => not().prop_map(|not| format!("text {not}IN ('', 'a', 'é', 'x', 'y', 'z')")),
        1 => (text(), not(), text()).prop_map(|(a, not, b)| format!("{a} {not}IN ({b}, 'ab')")),
        3 => (text(), not(), select(vec!["LIKE", "ILIKE"]), pattern)
            .prop_map(|(a, not, like, pattern)| format!("{a} {not}{like} '{pattern}'")),
        2 => (word, text(), select(vec!["a", "", "b", "é", "^a", "[ab]$"]))
            .prop_map(|(word, a, part)| format!("{word}({a}, '{part}')")),
        1 => (number(), number()).prop_map(|(a, b)| format!("{a} IS NOT DISTINCT FROM {b}")),
        1 => (text(), text()).prop_map(|(a, b)| format!("{a} IS DISTINCT FROM {b}")),
        2 => truth.prop_map(|truth| format!("flag {truth}")),
        1 => Just("flag".to_string()),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    comparison().prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} AND {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} OR {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) = ({b})")),
            inner.clone().prop_map(|a| format!("NOT ({a})")),
            inner.clone().prop_map(|a| format!("NOT {a}")),
            inner.clone().prop_map(|a| format!("({a}) IS NULL")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("CASE WHEN {a} THEN ({b}) ELSE ({c}) END")),
        ]
    })
}

/// Returns the translated mask of a file, if the expression has one.
fn translated(expression: &FilterExpression, path: &Path) -> Option<Vec<bool>> {
    let bounds = BatchBounds { rows: 7, ..BatchBounds::default() };
    let read = |columns: &[String]| -> trainyard_core::Result<Batches<'static>> {
        Ok(Box::new(GroupReader::open(path, Some(columns), bounds)?))
    };
    mask(expression, &read_schema(path).unwrap(), &read).unwrap()
}

/// Compares random expressions over random rows. Returns the number of expressions, and of those with a translation.
fn compare(cases: u32, wide: bool) -> (u32, u32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let (mut all, mut by_frames) = (0, 0);
    for _ in 0..cases {
        let rows = proptest::collection::vec(cells(wide), 1..25).new_tree(&mut runner).unwrap().current();
        write(&path, &rows);
        for _ in 0..8 {
            let text = condition().new_tree(&mut runner).unwrap().current();
            let Ok(expression) = FilterExpression::parse(&text) else { continue };
            all += 1;
            let Some(mask) = translated(&expression, &path) else { continue };
            by_frames += 1;
            let expected = expression.mask(&path).unwrap_or_else(|e| panic!("{text}: {e}"));
            let wrong: Vec<_> = (0..rows.len()).filter(|row| mask[*row] != expected[*row]).collect();
            assert!(wrong.is_empty(), "{text}: row {:?} is not {}", rows[wrong[0]], mask[wrong[0]]);
        }
    }
    (all, by_frames)
}

#[test]
fn translated_expressions_equal_sqlite() {
    let (all, by_frames) = compare(250, false);
    assert!(all > 1_500 && by_frames * 3 > all, "{by_frames} of {all}");
}

#[test]
fn integers_near_overflow_equal_sqlite() {
    let (all, by_frames) = compare(250, true);
    assert!(all > 1_500 && by_frames * 4 > all, "{by_frames} of {all}");
}

/// Returns the truth of an expression over one row.
fn truth(row: &Cells, text: &str) -> (Option<bool>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write(&path, std::slice::from_ref(row));
    let expression = FilterExpression::parse(text).unwrap();
    let by_frames = translated(&expression, &path).map(|mask| mask[0]);
    (by_frames, expression.mask(&path).unwrap()[0])
}

#[test]
fn edge_cases_are_those_of_sqlite() {
    let row = Cells {
        big: Some(i64::MAX),
        small: Some(3),
        float: Some(1e308),
        single: Some(0.1),
        flag: Some(true),
        text: Some("a\0b".into()),
        other: None,
        list: Some(2),
    };
    // Beyond 64 bits SQLite computes with floats.
    assert_eq!(truth(&row, "big + 1 > 9223372036854775807"), (None, true));
    assert_eq!(truth(&row, "small / 0 IS NULL"), (Some(true), true));
    assert_eq!(truth(&row, "small % 0 IS NULL"), (Some(true), true));
    assert_eq!(truth(&row, "-7 % small = -1"), (Some(true), true));
    assert_eq!(truth(&row, "small / 2 = 1.5"), (Some(true), true));
    assert_eq!(truth(&row, "float * 10 > float"), (Some(true), true));
    assert_eq!(truth(&row, "float * 10 - float * 10 IS NULL"), (Some(true), true));
    assert_eq!(truth(&row, "single = 0.1"), (Some(true), true));
    assert_eq!(truth(&row, "length(text) = 1 AND text LIKE 'a' AND text <> 'a'"), (Some(true), true));
    assert_eq!(truth(&row, "other = '' OR other <> ''"), (Some(false), false));
    assert_eq!(truth(&row, "other IN ('a', NULL) IS NULL"), (None, true));
    assert_eq!(truth(&row, "NOT (small IN (1, NULL))"), (Some(false), false));
    assert_eq!(truth(&row, "small NOT IN (0, 1, 2, 4, 5, 6)"), (Some(true), true));
    assert_eq!(truth(&row, "flag = 1 AND flag + 1 = 2"), (Some(true), true));
    assert_eq!(truth(&row, "array_length(list) = 2"), (Some(true), true));
    // Text and numbers compare by the affinity of columns.
    assert_eq!(truth(&row, "text > small"), (None, true));
}

#[test]
fn keys_of_maps_and_fields_of_structs_are_columns() {
    use trainyard_tables::{SamplingParams, Trajectory, write_trajectories};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let rewards = |i: u32| -> BTreeMap<String, f64> {
        if i < 20_000 { BTreeMap::new() } else { [("late".to_string(), f64::from(i))].into() }
    };
    let row = |i: u32| Trajectory {
        rewards: rewards(i),
        sampling: SamplingParams { top_k: i % 3, ..SamplingParams::default() },
        ..Trajectory::default()
    };
    write_trajectories(&path, &(0..20_500).map(row).collect::<Vec<_>>()).unwrap();
    // The key is in the last row group only.
    let expression = FilterExpression::parse("rewards_late >= 20100 AND sampling_top_k = 1").unwrap();
    let mask = translated(&expression, &path).unwrap();
    assert_eq!(mask, expression.mask(&path).unwrap());
    assert_eq!(mask.iter().filter(|keep| **keep).count(), 133);
}
