use super::*;
use arrow_array::types::Int64Type;
use arrow_array::{ListArray, RecordBatch};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::ErrorKind;

mod exports;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Writes a table that lacks its last bytes.
pub(crate) fn truncated_table(folder: &Path) -> PathBuf {
    let path = folder.join("data.parquet");
    TableBuilder::new().i64("n", 0..250).write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    path
}

fn message() -> impl Strategy<Value = Message> {
    let text = || any::<Option<bool>>().prop_map(|some| some.map(|s| s.to_string()));
    ("[a-z]{0,5}", ".{0,12}", text(), text(), text(), text()).prop_map(
        |(role, content, tool_calls, name, reasoning_content, tool_call_id)| Message {
            role,
            content,
            tool_calls,
            name,
            reasoning_content,
            tool_call_id,
        },
    )
}

prop_compose! {
    fn problem()(
        id in ".{0,8}", messages in vec(message(), 0..3), answer in ".{0,8}", level in any::<u32>(),
        reference in any::<Option<u16>>(), parents in vec(".{0,6}", 0..3),
    ) -> Problem {
        Problem {
            id, messages, answer, level, parents, verifier: "{}".into(), environment: "word-problems".into(),
            source: "s".into(), split: "rl".into(), canonical: "c".into(),
            reference: reference.map(|r| r.to_string()),
            meta: reference.map(|r| format!("{{\"n\":{r}}}")),
        }
    }
}

prop_compose! {
    fn tokens()(rows in vec(any::<(u32, bool, u16, i16, u32)>(), 0..6), parts in any::<[bool; 6]>()) -> Trajectory {
        let floats = |on: bool, scale: f32| on.then(|| rows.iter().map(|r| f32::from(r.3) * scale).collect::<Vec<_>>());
        Trajectory {
            token_ids: rows.iter().map(|r| r.0).collect(),
            loss_mask: rows.iter().map(|r| r.1).collect(),
            turn: rows.iter().map(|r| r.2).collect(),
            logprobs: floats(parts[0], 0.1),
            entropies: floats(parts[1], 0.3),
            weights_version: parts[2].then(|| rows.iter().map(|r| r.4).collect()),
            advantages: floats(parts[3], 7.0),
            step_ends: rows.iter().map(|r| r.4).collect(),
            step_labels: floats(parts[4], 1.0),
            step_scores: floats(parts[5], 1.0),
            prompt_tokens: rows.len() as u32,
            ..Trajectory::default()
        }
    }
}

prop_compose! {
    fn trajectory()(
        tokens in tokens(), id in ".{0,8}", messages in vec(message(), 0..3),
        rewards in btree_map("[a-z_]{1,6}", -1e6f64..1e6, 0..4),
        turn_rewards in vec(any::<f64>().prop_filter("equal to itself", |x| !x.is_nan()), 0..3),
        numbers in any::<[u32; 6]>(), seed in any::<u64>(), stop in 0usize..7,
        infrastructure in any::<bool>(), verdicts in vec((".{0,5}", any::<bool>(), ".{0,9}"), 0..3),
        parents in vec(".{0,6}", 0..3), some in any::<Option<u32>>(), temperature in 0.0f64..2.0,
    ) -> Trajectory {
        use StopReason::{Answer, Cancelled, End, Error, Length, ToolLimit, Turns};
        Trajectory {
            id, messages, rewards, turn_rewards, seed, parents,
            problem_id: "p".into(), group: numbers[0], sample: numbers[1], reward: -0.0, turns: numbers[2],
            tool_calls: numbers[3], tool_errors: numbers[4], level: numbers[5],
            stop_reason: [Answer, End, Length, Turns, ToolLimit, Error, Cancelled][stop],
            status: if infrastructure { EpisodeStatus::Infrastructure } else { EpisodeStatus::Ok },
            answer: some.map(|s| s.to_string()), fork_of: some.map(|s| s.to_string()), fork_at: some,
            model_digest: some.map(|s| s.to_string()), environment: "e".into(),
            sampling: SamplingParams { temperature, top_p: 1.0, top_k: 3 }, tokenizer_digest: "t".into(),
            template_digest: "m".into(), tools: some.map(|s| s.to_string()),
            verdicts: verdicts.into_iter().map(|(rule, keep, reason)| Verdict { rule, keep, reason }).collect(),
            ..tokens
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn problems_come_back_as_they_were(rows in vec(problem(), 0..20)) {
        let folder = folder();
        let path = folder.path().join("data.parquet");
        prop_assert_eq!(write_problems(&path, &rows).unwrap(), rows.len() as u64);
        prop_assert_eq!(read_problems(&path).unwrap(), rows);
    }

    #[test]
    fn trajectories_come_back_as_they_were(rows in vec(trajectory(), 0..20)) {
        let folder = folder();
        let path = folder.path().join("data.parquet");
        write_trajectories(&path, &rows).unwrap();
        prop_assert_eq!(read_trajectories(&path).unwrap(), rows);
    }

    #[test]
    fn bytes_do_not_depend_on_how_rows_arrive(cuts in vec(1usize..900, 1..8)) {
        let folder = folder();
        let rows = many(2500);
        let (whole, pieces) = (folder.path().join("whole"), folder.path().join("pieces"));
        write_problems(&whole, &rows).unwrap();
        let mut writer = TableRowWriter::create(&pieces).unwrap();
        let mut at = 0;
        for cut in cuts {
            writer.write(&rows[at..(at + cut).min(rows.len())]).unwrap();
            at = (at + cut).min(rows.len());
        }
        writer.write(&rows[at..]).unwrap();
        writer.finish().unwrap();
        prop_assert!(std::fs::read(whole).unwrap() == std::fs::read(pieces).unwrap());
    }
}

fn many(n: usize) -> Vec<Problem> {
    let row = |i: usize| Problem {
        id: format!("p{i}"),
        messages: vec![Message::new("user", format!("What is {i} + {}?", i * 7))],
        answer: (i * 8).to_string(),
        level: (i % 5 + 1) as u32,
        ..Problem::default()
    };
    (0..n).map(row).collect()
}

#[test]
fn nan_labels_and_scores_survive() {
    let folder = folder();
    let path = folder.path().join("t");
    let row = Trajectory { step_labels: Some(vec![f32::NAN, 1.0]), reward: f64::INFINITY, ..Trajectory::default() };
    write_trajectories(&path, &[row]).unwrap();
    let back = &read_trajectories(&path).unwrap()[0];
    assert!(back.step_labels.as_ref().unwrap()[0].is_nan() && back.reward.is_infinite());
}

#[test]
fn every_cut_and_every_flip_is_an_error_or_data_never_a_panic() {
    let folder = folder();
    let (path, bad) = (folder.path().join("data.parquet"), folder.path().join("bad.parquet"));
    let rows: Vec<_> = (0..40)
        .map(|i| Trajectory {
            token_ids: vec![i; 9],
            loss_mask: vec![true; 9],
            turn: vec![0; 9],
            ..Trajectory::default()
        })
        .collect();
    write_trajectories(&path, &rows).unwrap();
    let sound = std::fs::read(&path).unwrap();
    for length in (0..sound.len()).step_by(97).chain(sound.len() - 12..sound.len()) {
        std::fs::write(&bad, &sound[..length]).unwrap();
        let error = read_trajectories(&bad).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(error.message.contains("bad.parquet") && error.help.is_some(), "{error}");
        assert!(summarize(&bad).is_err() && row_count(&bad).is_err());
    }
    for at in (0..sound.len()).step_by(41) {
        let mut flipped = sound.clone();
        flipped[at] ^= 0x55;
        std::fs::write(&bad, &flipped).unwrap();
        if let Err(error) = read_trajectories(&bad) {
            assert!(error.message.contains("bad.parquet"), "{error}");
        }
    }
}

#[test]
fn missing_file_is_invalid() {
    let error = read_problems(&PathBuf::from("/none/of/this.parquet")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert_eq!(read_problems(folder().path()).unwrap_err().kind, ErrorKind::Data);
    assert_eq!(write_problems(&PathBuf::from("/none/of/this.parquet"), &[]).unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn schema_mismatch_names_the_column_and_both_types() {
    let folder = folder();
    let path = folder.path().join("data.parquet");
    TableBuilder::new().string("id", ["a"]).write(&path).unwrap();
    let error = read_problems(&path).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data);
    assert!(error.message.contains("column `messages`") && error.message.contains("missing"), "{error}");
    write_problems(&path, &many(3)).unwrap();
    let (_, batches) = read_batches(&path).unwrap();
    let mut columns = batches[0].columns().to_vec();
    let level = batches[0].schema().index_of("level").unwrap();
    columns[level] = Arc::new([1i64, 2, 3].into_iter().collect::<arrow_array::PrimitiveArray<Int64Type>>());
    let mut table = TableBuilder::new();
    for (field, column) in batches[0].schema().fields().iter().zip(columns) {
        table = table.column(field.name(), column);
    }
    table.write(&path).unwrap();
    let error = read_problems(&path).unwrap_err();
    assert!(error.message.contains("column `level` has type Int64, expected UInt32"), "{error}");
}

#[test]
fn columns_may_be_added_and_nullable_ones_be_missing() {
    let folder = folder();
    let path = folder.path().join("data.parquet");
    let rows = many(3);
    write_problems(&path, &rows).unwrap();
    let (_, batches) = read_batches(&path).unwrap();
    let mut table = TableBuilder::new().i64("new_column", [1, 2, 3]);
    for (field, column) in batches[0].schema().fields().iter().zip(batches[0].columns()) {
        if field.name() != "reference" {
            table = table.column(field.name(), column.clone());
        }
    }
    table.write(&path).unwrap();
    assert_eq!(read_problems(&path).unwrap(), rows);
}

#[test]
fn unexpected_nulls_name_the_column() {
    let folder = folder();
    let path = folder.path().join("data.parquet");
    write_problems(&path, &many(2)).unwrap();
    let (_, batches) = read_batches(&path).unwrap();
    let mut table = TableBuilder::new();
    for (field, column) in batches[0].schema().fields().iter().zip(batches[0].columns()) {
        table = if field.name() == "answer" {
            table.optional_string("answer", [Some("x"), None])
        } else {
            table.column(field.name(), column.clone())
        };
    }
    table.write(&path).unwrap();
    let error = read_problems(&path).unwrap_err();
    assert!(error.message.contains("column `answer` has 1 nulls"), "{error}");
}

#[test]
fn tables_are_built_by_name_and_refuse_ragged_columns() {
    assert!(
        TableBuilder::new()
            .f64("a", [1.0])
            .f64("b", [1.0, 2.0])
            .build()
            .unwrap_err()
            .message
            .contains("`b` has 2 rows")
    );
    assert!(TableBuilder::new().f64("a", [1.0]).i64("a", [1]).build().unwrap_err().message.contains("`a`"));
    let batch: RecordBatch = TableBuilder::new().bool("b", [Some(true), None]).f64("x", [1.5, 2.5]).build().unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (2, 2));
}

#[test]
fn summaries_hold_statistics_and_a_bounded_preview() {
    let folder = folder();
    let path = folder.path().join("data.parquet");
    let ids: Vec<i64> = (0..5000).collect();
    let long = "x".repeat(5000);
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..5000).map(|_| Some((0..100).map(Some).collect::<Vec<_>>())),
    );
    TableBuilder::new()
        .i64("id", ids.clone())
        .f64("half", ids.iter().map(|i| if *i == 7 { None } else { Some(*i as f64 / 2.0) }))
        .bool("even", ids.iter().map(|i| i % 2 == 0))
        .string("long", ids.iter().map(|_| &long))
        .column("list", Arc::new(list))
        .write(&path)
        .unwrap();
    let summary = summarize(&path).unwrap();
    assert_eq!((summary.rows, row_count(&path).unwrap()), (5000, 5000));
    assert_eq!(
        (summary.columns[0].min.clone(), summary.columns[0].max.clone(), summary.columns[0].mean),
        (Some(json!(0)), Some(json!(4999)), Some(2499.5))
    );
    assert_eq!((summary.columns[1].nulls, summary.columns[1].max.clone()), (1, Some(json!(2499.5))));
    assert_eq!((summary.columns[2].min.clone(), summary.columns[2].mean), (Some(json!(false)), Some(0.5)));
    assert_eq!(summary.columns[3].max.as_ref().and_then(|m| m.as_str()).map(|m| m.chars().count()), Some(64));
    assert_eq!((&summary.columns[4].min, summary.columns[4].mean), (&None, None));
    assert_eq!(summary.preview.len(), 100);
    let first = &summary.preview[0];
    assert_eq!(first["long"].as_str().map(|t| (t.chars().count(), t.ends_with('…'))), Some((240, true)));
    assert_eq!((first["list"].as_array().map(Vec::len), &first["list"][24]), (Some(25), &json!("…")));
    assert!(serde_json::to_string(&summary.preview).unwrap().len() <= 256 << 10);
}

#[test]
fn an_empty_table_has_an_empty_summary() {
    let folder = folder();
    let path = folder.path().join("data.parquet");
    write_trajectories(&path, &[]).unwrap();
    let summary = summarize(&path).unwrap();
    assert_eq!((summary.rows, summary.preview.len()), (0, 0));
    assert_eq!(summary.columns[0].min, None);
    assert_eq!(read_trajectories(&path).unwrap(), []);
}

#[test]
fn rows_are_selected_and_shown() {
    let folder = folder();
    let (path, out) = (folder.path().join("data.parquet"), folder.path().join("out.parquet"));
    let rows = many(3000);
    write_problems(&path, &rows).unwrap();
    let keep: Vec<_> = (0..3000).map(|i| i % 3 == 0).collect();
    assert_eq!(select_rows(&path, &out, &keep).unwrap(), 1000);
    assert_eq!(read_problems(&out).unwrap()[999], rows[2997]);
    assert!(select_rows(&path, &out, &keep[1..]).is_err());
    let shown = rows_as_json(&path, 2998, 10).unwrap();
    assert_eq!(shown.len(), 2);
    assert_eq!(
        (&shown[1]["id"], &shown[1]["messages"][0]["role"], &shown[1]["reference"]),
        (&json!("p2999"), &json!("user"), &json!(null))
    );
}

#[test]
fn a_copy_of_all_rows_has_the_same_bytes() {
    let folder = folder();
    let (path, out) = (folder.path().join("data.parquet"), folder.path().join("out.parquet"));
    write_problems(&path, &many(3000)).unwrap();
    select_rows(&path, &out, &vec![true; 3000]).unwrap();
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&out).unwrap());
    assert!(
        !String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains("parquet-rs"),
        "no writer's version in the file"
    );
}

#[test]
fn only_requested_columns_are_read() {
    let folder = folder();
    let path = folder.path().join("data.parquet");
    write_problems(&path, &many(5)).unwrap();
    let columns = ["level".to_string(), "none".to_string(), "id".to_string()];
    let part = ReadSlice { offset: 3, limit: Some(9), columns: Some(&columns) };
    let reader = BatchReader::open_part(&path, &part).unwrap();
    let names: Vec<_> = reader.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!((names.as_slice(), reader.rows()), (["id".to_string(), "level".to_string()].as_slice(), 5));
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
}
