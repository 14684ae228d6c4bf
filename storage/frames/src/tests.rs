//! Tests that conversions keep every cell, and that groups are those of SQLite.

use super::*;
use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, RecordBatch};
use std::path::{Path, PathBuf};
use trainyard_query::{GroupedStatement, QueryLimits};
use trainyard_tables::{BatchReader, BatchWriter, Message, TableBuilder, Trajectory, write_trajectories};

fn row(i: u32) -> Trajectory {
    Trajectory {
        id: format!("t{i:05}"),
        level: i % 4,
        reward: f64::from(i) / 8.0,
        answer: i.is_multiple_of(3).then(|| "é".repeat(i as usize % 5)),
        token_ids: (0..i % 7).collect(),
        loss_mask: (0..i % 7).map(|t| t.is_multiple_of(2)).collect(),
        turn: vec![0; i as usize % 7],
        logprobs: i.is_multiple_of(2).then(|| vec![-0.5; i as usize % 7]),
        rewards: [("answer".to_string(), 1.0)].into(),
        messages: vec![Message::new("user", format!("question {i}"))],
        ..Trajectory::default()
    }
}

fn table(rows: u32) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write_trajectories(&path, &(0..rows).map(row).collect::<Vec<_>>()).unwrap();
    (folder, path)
}

/// Returns all cells as JSON text, which does not depend on the width of offsets.
fn cells(batch: &RecordBatch) -> Vec<String> {
    let limits = trainyard_tables::json::CellLimits::NONE;
    (0..batch.num_rows()).map(|row| trainyard_tables::json::row_as_json(batch, row, limits).to_string()).collect()
}

#[test]
fn every_column_of_trajectories_comes_back() {
    let (_folder, path) = table(500);
    for batch in BatchReader::open(&path).unwrap() {
        let batch = batch.unwrap();
        // A slice has offsets that are not zero, also in its bitmaps.
        for part in [batch.clone(), batch.slice(3, 250)] {
            let back = batch_of(&frame_of(&part).unwrap()).unwrap();
            assert_eq!(cells(&back), cells(&part));
        }
    }
}

#[test]
fn a_frame_shares_the_buffers_of_its_batch() {
    let batch = TableBuilder::new().f64("x", [1.5, 2.5]).build().unwrap();
    let before = batch.column(0).to_data().buffers()[0].as_ptr();
    let back = batch_of(&frame_of(&batch).unwrap()).unwrap();
    drop(batch);
    assert_eq!(back.column(0).to_data().buffers()[0].as_ptr(), before);
    assert_eq!(back.column(0).as_primitive::<arrow_array::types::Float64Type>().values(), &[1.5, 2.5]);
}

#[test]
fn empty_batches_and_batches_without_columns_keep_their_height() {
    let (_folder, path) = table(10);
    let batch = BatchReader::open(&path).unwrap().next().unwrap().unwrap();
    for part in [batch.slice(4, 0), batch.project(&[]).unwrap()] {
        let back = batch_of(&frame_of(&part).unwrap()).unwrap();
        assert_eq!((back.num_rows(), back.num_columns()), (part.num_rows(), part.num_columns()));
    }
}

/// Writes 5,000 rows with nulls, booleans and texts in batches of 100.
fn levels(folder: &Path) -> PathBuf {
    let path = folder.join("levels.parquet");
    let rows = || 0..5_000i64;
    let batch = TableBuilder::new()
        .i64("level", rows().map(|i| (i % 11 > 0).then_some(i % 7)))
        .f64("reward", rows().map(|i| (i % 5 > 0).then_some((i % 4) as f64 / 4.0)))
        .bool("right", rows().map(|i| i % 3 == 0))
        .string("status", rows().map(|i| ["ok", "failed", ""][i as usize % 3]))
        .build()
        .unwrap();
    let mut writer = BatchWriter::create_grouped(&path, batch.schema(), 100).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn groups_are_those_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = levels(folder.path());
    let tables = [("self", path.as_path())];
    for sql in [
        "select level, count(*), avg(reward), sum(level) from self group by level",
        "select status, right, min(reward), max(status), total(level) from self where reward > 0 group by 1, 2",
        "select level % 2 as odd, sum(right) / count(*) as share from self group by odd having count(*) > 2200",
        "select count(*) from self",
        "select count(reward), sum(reward), min(level), max(right), avg(right) from self",
        "select sum(level), count(*), max(status), total(reward) from self where level > 100",
        "select level, count(*) n from self where level > 100 group by level",
        "select status from self group by status order by count(*) desc, status limit 2",
        "select level is null as missing, sum(reward) from self group by level is null order by 2",
        "select round(avg(reward), 2), upper(status) from self group by status",
    ] {
        let by_sqlite = trainyard_query::query(&tables, sql, QueryLimits::default()).unwrap();
        let statement = GroupedStatement::parse(sql).unwrap().expect(sql);
        let here = query::query_from(1, &tables, sql, QueryLimits { bytes: 0, ..QueryLimits::default() });
        assert_eq!(here.unwrap(), by_sqlite, "{sql}: {statement:?}");
    }
}

#[test]
fn statements_that_sqlite_must_run_are_left_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = levels(folder.path());
    let tables = [("self", path.as_path())];
    for sql in [
        "select level, median(reward) from self group by level",
        "select sum(status) from self",
        "select level, count(distinct status) from self group by level",
        "select level from self order by level desc limit 3",
    ] {
        let by_sqlite = trainyard_query::query(&tables, sql, QueryLimits::default()).unwrap();
        assert_eq!(query::query_from(1, &tables, sql, QueryLimits::default()).unwrap(), by_sqlite, "{sql}");
    }
    let error = query::query_from(1, &tables, "select levle, count(*) from self group by 1", QueryLimits::default());
    assert!(error.unwrap_err().message.contains("levle"));
}
