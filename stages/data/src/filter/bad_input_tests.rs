//! Tests rows, expressions and disks that make a filter fail: the error names the place, and other rows are not lost.

use super::edit_tests::{Done, filter_files, filtered, rules};
use super::tests::verdicts;
use super::*;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray, UInt32Array};
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::take::take;
use std::path::Path;
use trainyard_core::ErrorKind;
use trainyard_tables::{
    ExtraColumns, Message, TableRow as _, Trajectory, Verdict, encode_rows, read_trajectories, write_batches,
    write_trajectories,
};

/// Returns three rows, the lists of which have two items.
fn three_rows() -> Vec<Trajectory> {
    let row = |i: u32| Trajectory {
        id: format!("r{i}"),
        token_ids: vec![i, 7],
        loss_mask: vec![false, true],
        turn: vec![0, 0],
        logprobs: Some(vec![0.0, -1.0]),
        entropies: Some(vec![0.0, 0.5]),
        weights_version: Some(vec![0, 0]),
        advantages: Some(vec![0.0, 1.0]),
        restarts: vec![1, 1],
        step_labels: Some(vec![0.0, 1.0]),
        step_scores: Some(vec![0.5, 0.5]),
        step_ends: vec![1, 2],
        turn_rewards: vec![0.5, 1.0],
        rewards: [("answer".to_string(), 1.0), ("length".to_string(), 0.0)].into(),
        messages: vec![Message::new("user", format!("question {i}")), Message::new("assistant", "answer")],
        verdicts: vec![Verdict { rule: "earlier".into(), keep: true, reason: "why".into() }; 2],
        parents: vec!["p".into(), "q".into()],
        ..Trajectory::default()
    };
    (0..3).map(row).collect()
}

/// Returns the values with null at one position, in the part that `path` names: fields of structs, `item` of lists.
fn with_null(values: &ArrayRef, path: &[&str], position: usize) -> ArrayRef {
    let Some((name, rest)) = path.split_first() else {
        let rows = (0..values.len()).map(|row| (row != position).then_some(row as u32));
        return take(values, &rows.collect::<UInt32Array>(), None).unwrap();
    };
    if let Some(lists) = values.as_list_opt::<i32>() {
        let items = with_null(lists.values(), rest, lists.value_offsets()[position] as usize);
        let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        return Arc::new(ListArray::new(field, lists.offsets().clone(), items, None));
    }
    let parts = values.as_struct();
    let part = |(field, part): (&Arc<Field>, &ArrayRef)| {
        let changed = if field.name() == name { with_null(part, rest, position) } else { part.clone() };
        (Arc::new(Field::new(field.name(), changed.data_type().clone(), true)), changed)
    };
    let (fields, columns): (Vec<_>, Vec<_>) = parts.fields().iter().zip(parts.columns()).map(part).unzip();
    Arc::new(StructArray::new(Fields::from(fields), columns, None))
}

/// Writes three rows with a null in the second one.
fn write_with_null(file: &Path, column: &str, path: &[&str]) {
    let (rows, extra) = (three_rows(), ExtraColumns::ALL);
    let batch = encode_rows(&rows.iter().collect::<Vec<_>>(), &Trajectory::schema(extra), extra).unwrap();
    let changed = |field: &Arc<Field>| {
        let values = batch.column_by_name(field.name()).unwrap();
        if field.name() == column { with_null(values, path, 1) } else { values.clone() }
    };
    let columns: Vec<ArrayRef> = batch.schema_ref().fields().iter().map(changed).collect();
    let names = batch.schema_ref().fields().iter().map(|field| field.name());
    let fields = names.zip(&columns).map(|(name, values)| Field::new(name, values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    write_batches(file, schema.clone(), &[RecordBatch::try_new(schema, columns).unwrap()]).unwrap();
}

/// Returns every required column and part of a column, by its path.
fn required_parts(kind: &DataType, path: &[String], found: &mut Vec<Vec<String>>) {
    let mut visit = |name: &str, field: &Field| {
        let path = [path, &[name.to_string()]].concat();
        if !field.is_nullable() {
            found.push(path.clone());
        }
        required_parts(field.data_type(), &path, found);
    };
    match kind {
        DataType::List(item) => visit("item", item),
        DataType::Struct(fields) => fields.iter().for_each(|field| visit(field.name(), field)),
        _ => {}
    }
}

#[test]
fn a_null_in_any_required_part_ends_the_stage_or_leaves_out_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (files, outputs) = ([path("good"), path("bad")], [path("kept"), path("rejected")]);
    write_trajectories(&files[0], &three_rows()[..1]).unwrap();
    let schema = Trajectory::schema(ExtraColumns::default());
    let mut parts = Vec::new();
    required_parts(&DataType::Struct(schema.fields().clone()), &[], &mut parts);
    assert!(parts.len() > 40 && parts.iter().any(|part| part.len() == 3), "{parts:?}");
    for part in parts {
        let names: Vec<&str> = part.iter().map(String::as_str).collect();
        write_with_null(&files[1], names[0], &names[1..]);
        let run =
            |policy| filter_files(&rules([json!("exact_duplicates")]), &files, policy, [&outputs[0], &outputs[1]]);
        let error = run(RowErrorPolicy::Fail).expect_err(&part.join("."));
        let text = error.to_string();
        let place = format!("row 2: {}: column `{}`", files[1].display(), names[0]);
        assert!(
            error.kind == ErrorKind::Data && text.contains(&place) && text.contains("on_error"),
            "{part:?}: {text}"
        );
        run(RowErrorPolicy::Skip).unwrap();
        let ids = |path: &Path| read_trajectories(path).unwrap().into_iter().map(|row| row.id).collect::<Vec<_>>();
        assert_eq!(
            (ids(&outputs[0]), ids(&outputs[1])),
            (vec!["r0".into(), "r2".into()], vec!["r0".into()]),
            "{part:?}"
        );
    }
}

#[test]
fn an_unknown_word_and_rows_without_a_readable_one_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (files, outputs) = ([path("words")], [path("kept"), path("rejected")]);
    let run = |policy| filter_files(&rules([json!("format")]), &files, policy, [&outputs[0], &outputs[1]]);
    let (rows, extra) = (three_rows(), ExtraColumns::default());
    let batch = encode_rows(&rows.iter().collect::<Vec<_>>(), &Trajectory::schema(extra), extra).unwrap();
    let write = |words: [&str; 3]| {
        let mut columns = batch.columns().to_vec();
        columns[batch.schema_ref().index_of("status").unwrap()] =
            Arc::new(arrow_array::StringArray::from(words.to_vec()));
        let batch = RecordBatch::try_new(batch.schema(), columns).unwrap();
        write_batches(&files[0], batch.schema(), &[batch]).unwrap();
    };
    write(["ok", "ok", "lost?"]);
    let error = run(RowErrorPolicy::Fail).unwrap_err().to_string();
    assert!(error.contains("row 3: ") && error.contains("column `status`: unknown variant `lost?`"), "{error}");
    let counts = run(RowErrorPolicy::Skip).unwrap();
    assert_eq!(counts[0].judged, 2);
    write(["?"; 3]);
    let error = run(RowErrorPolicy::Skip).unwrap_err();
    assert!(error.kind == ErrorKind::Data && error.message.contains("none of 3 rows can be read: row 1: "), "{error}");
}

/// A long list or text takes a few bytes in its file: equal values are stored once.
#[test]
fn rows_of_very_different_sizes_pass_the_rules() {
    const LENGTH: usize = 10_000_000;
    let listed = Trajectory {
        id: "list".into(),
        token_ids: vec![7; LENGTH],
        loss_mask: vec![true; LENGTH],
        turn: vec![0; LENGTH],
        ..three_rows().swap_remove(1)
    };
    let long = "All human beings are born free and equal in dignity and rights. ".repeat(100_000_000 / 64);
    let worded = Trajectory {
        id: "text".into(),
        messages: vec![Message::new("user", "Which rights?"), Message::new("assistant", long)],
        ..Trajectory::default()
    };
    let many = Trajectory {
        id: "messages".into(),
        messages: vec![Message::new("user", "one"); 100_000],
        ..Trajectory::default()
    };
    let small = three_rows();
    let rules = rules([
        json!({"kind": "language", "languages": ["en"], "of": "answer"}),
        json!({"kind": "expression", "keep": "array_length(token_ids) < 1000"}),
        json!("exact_duplicates"),
    ]);
    let Done { kept, rejected, .. } = filtered(&rules, &[&small[..1], &[worded, listed, many], &small[1..]]).unwrap();
    assert_eq!(kept.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["r0", "text", "messages", "r1", "r2"]);
    assert_eq!(kept[1].messages[1].content.len(), 100_000_000);
    assert_eq!(kept[2].messages.len(), 100_000);
    assert!(rejected.len() == 1 && rejected[0].token_ids.len() == LENGTH);
}

#[test]
fn expressions_without_a_value_name_the_row() {
    let rows: Vec<Trajectory> = (0..5)
        .map(|i| Trajectory { id: format!("r{i}"), level: (i != 3).into(), seed: u64::MAX, ..Trajectory::default() })
        .collect();
    let judged = |keep: &str| verdicts(&json!({"kind": "expression", "keep": keep}), &rows, &[], &[]);
    let error = judged("abs(level - 9223372036854775807 - 1) > 0").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    for word in ["rows in memory: row `r3`: ", "integer overflow", "CASE WHEN"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    // An aggregate has no row to name.
    let error = judged("sum(abs(level - 9223372036854775807 - 1)) > 0").unwrap_err().to_string();
    assert!(error.contains("integer overflow") && !error.contains("row `"), "{error}");
    // A quotient by zero is null, and larger integers continue as floats.
    let kept = |keep: &str| judged(keep).unwrap().iter().map(|it| *it == RuleVerdict::Keep).collect::<Vec<_>>();
    assert_eq!(kept("1 / level = 1"), [true, true, true, false, true]);
    assert_eq!(kept("5 % level = 0"), [true, true, true, false, true]);
    assert_eq!(kept("level * 9223372036854775807 * 4 > 9223372036854775807"), [true, true, true, false, true]);
}

#[test]
fn a_full_disk_is_retryable_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows");
    // Rows with additional columns would be copied into another file.
    let plain = three_rows().into_iter().map(|row| Trajectory { restarts: Vec::new(), ..row });
    write_trajectories(&file, &plain.collect::<Vec<_>>()).unwrap();
    let (files, other) = ([file], folder.path().join("other"));
    // A link: whatever happens to the name, the device stays.
    let full = folder.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let (full, other) = (full.as_path(), other.as_path());
    for outputs in [[full, other], [other, full]] {
        let error = filter_files(&rules([json!("format")]), &files, RowErrorPolicy::Fail, outputs).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
        assert!(error.to_string().contains("/full: No space left") && error.help.is_some(), "{error}");
    }
}
