//! Tests that additional columns appear exactly where rows use them.

use super::*;
use arrow_schema::DataType;
use std::path::Path;
use std::sync::Arc;

fn user_message(content: &str) -> Message {
    Message::new("user", content)
}

fn conversation(id: &str, message: Message) -> Trajectory {
    Trajectory { id: id.into(), messages: vec![user_message("q"), message], ..Trajectory::default() }
}

/// Returns the names of the columns after those that every table has, and those of the fields of messages.
fn columns(path: &Path) -> (Vec<String>, Vec<String>) {
    let schema = read_schema(path).unwrap();
    let DataType::List(item) = schema.field_with_name("messages").unwrap().data_type() else { panic!("{schema:?}") };
    let DataType::Struct(fields) = item.data_type() else { panic!("{schema:?}") };
    let after = schema.fields().iter().skip_while(|f| f.name() != "update").skip(1);
    (after.map(|f| f.name().clone()).collect(), fields.iter().map(|f| f.name().clone()).collect())
}

const BASE: [&str; 3] = ["role", "content", "tool_calls"];

#[test]
fn a_table_has_the_columns_that_its_rows_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let plain = conversation("a", user_message("x"));
    write_trajectories(&path, std::slice::from_ref(&plain)).unwrap();
    assert_eq!(columns(&path), (vec![], BASE.map(String::from).to_vec()));
    let result = Message { tool_call_id: Some("c1".into()), ..Message::new("tool", "4") };
    let rows = [
        plain,
        Trajectory {
            tools: Some("[]".into()),
            environment_tools: Some("[1]".into()),
            restarts: vec![3, 7],
            meta: Some(r#"{"quality":0.5}"#.into()),
            ..conversation("b", result)
        },
    ];
    write_trajectories(&path, &rows).unwrap();
    assert_eq!(columns(&path).0, ["tools", "environment_tools", "restarts", "meta"]);
    assert_eq!(columns(&path).1, [&BASE[..], &["tool_call_id"]].concat());
    assert_eq!(read_trajectories(&path).unwrap(), rows);
}

#[test]
fn checks_of_answers_survive_their_file_and_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let right = AnswerCheck {
        expected: "0".into(),
        extracted: Some("0".into()),
        verifier: "numeric".into(),
        correct: true,
        unreadable: None,
    };
    let unreadable = AnswerCheck {
        extracted: None,
        correct: false,
        unreadable: Some("different numbers: 3, 5".into()),
        ..right.clone()
    };
    let row = |id: &str, answer_check| Trajectory { answer_check, ..conversation(id, user_message("x")) };
    let rows = [row("a", Some(right)), row("b", None), row("c", Some(unreadable))];
    write_trajectories(&path, &rows).unwrap();
    assert_eq!(columns(&path).0, ["expected", "extracted", "verifier", "correct", "unreadable"]);
    assert_eq!(read_trajectories(&path).unwrap(), rows);
    write_trajectories(&path, &rows[1..2]).unwrap();
    assert!(columns(&path).0.is_empty(), "as in versions before these columns");
    assert_eq!(read_trajectories(&path).unwrap(), rows[1..2]);
}

#[test]
fn problems_keep_further_columns_and_files_without_them_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let plain = Problem { id: "a".into(), messages: vec![user_message("q")], ..Problem::default() };
    write_problems(&path, std::slice::from_ref(&plain)).unwrap();
    assert!(read_schema(&path).unwrap().field_with_name("meta").is_err());
    assert_eq!(read_problems(&path).unwrap(), std::slice::from_ref(&plain));
    let rows = [Problem { meta: Some(r#"{"lang":"de"}"#.into()), ..plain.clone() }, plain];
    write_problems(&path, &rows).unwrap();
    assert_eq!(read_problems(&path).unwrap(), rows);
}

#[test]
fn problems_keep_parents_and_have_no_column_of_them_without_any() {
    let folder = tempfile::tempdir().unwrap();
    let (path, streamed) = (folder.path().join("data.parquet"), folder.path().join("streamed.parquet"));
    let plain = Problem { id: "a".into(), messages: vec![user_message("q")], ..Problem::default() };
    write_problems(&path, std::slice::from_ref(&plain)).unwrap();
    assert!(read_schema(&path).unwrap().field_with_name("parents").is_err());
    assert_eq!(read_problems(&path).unwrap(), std::slice::from_ref(&plain));
    let two = ["train.jsonl:3", "seed-1"].map(String::from).to_vec();
    let rows = [plain.clone(), Problem { parents: two, ..plain.clone() }, plain];
    write_problems(&path, &rows).unwrap();
    assert_eq!(read_problems(&path).unwrap(), rows);
    // Batches in the widest form give the same bytes, since rows without parents have no value there.
    let mut writer = TableRowWriter::<Problem>::create(&streamed).unwrap();
    for row in &rows {
        let batch = encode_rows(&[row], &Problem::schema(ExtraColumns::ALL), ExtraColumns::ALL).unwrap();
        writer.write_batch(&batch).unwrap();
    }
    writer.finish().unwrap();
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&streamed).unwrap());
}

#[test]
fn a_late_column_widens_the_file_and_its_bytes_depend_on_the_rows_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, pieces) = (folder.path().join("whole.parquet"), folder.path().join("pieces.parquet"));
    let mut rows: Vec<Trajectory> = (0..2500).map(|i| conversation(&i.to_string(), user_message("x"))).collect();
    rows[1700].messages[1].reasoning_content = Some("because".into());
    rows[2100].messages[0].name = Some("ada".into());
    write_trajectories(&whole, &rows).unwrap();
    let mut writer = TableRowWriter::create(&pieces).unwrap();
    for piece in rows.chunks(130) {
        writer.write(piece).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), 2500);
    assert!(std::fs::read(&whole).unwrap() == std::fs::read(&pieces).unwrap());
    assert_eq!(read_trajectories(&pieces).unwrap(), rows);
    assert_eq!(
        columns(&pieces),
        (vec![], [&BASE[..], &["name", "reasoning_content"]].concat().into_iter().map(String::from).collect())
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside the files");
}

#[test]
fn fields_of_other_writers_are_found_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let message = Message { name: Some("n".into()), tool_call_id: Some("i".into()), ..user_message("x") };
    let row = Problem { messages: vec![message], ..Problem::default() };
    // The widest possible file, reduced to some fields in another order, plus an unknown one.
    let batch = encode_rows(&[&row], &Problem::schema(ExtraColumns::ALL), ExtraColumns::ALL).unwrap();
    let messages = batch.column_by_name("messages").unwrap();
    let list = arrow_array::cast::AsArray::as_list::<i32>(messages);
    let parts = arrow_array::cast::AsArray::as_struct(list.values());
    let pick = |name: &str, field: &str| {
        let column = parts.column_by_name(name).unwrap().clone();
        (Arc::new(arrow_schema::Field::new(field, column.data_type().clone(), true)), column)
    };
    let fields = [
        pick("tool_call_id", "tool_call_id"),
        pick("content", "weight"),
        pick("content", "content"),
        pick("role", "role"),
    ];
    let parts = arrow_array::StructArray::from(fields.to_vec());
    let item = Arc::new(arrow_schema::Field::new("element", arrow_array::Array::data_type(&parts).clone(), true));
    let list = arrow_array::ListArray::new(item, list.offsets().clone(), Arc::new(parts), None);
    let mut table = TableBuilder::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let column = if field.name() == "messages" { Arc::new(list.clone()) } else { column.clone() };
        table = table.column(field.name(), column);
    }
    table.write(&path).unwrap();
    let read = read_problems(&path).unwrap();
    assert_eq!(read[0].messages, [Message { tool_call_id: Some("i".into()), ..user_message("x") }]);
}

#[test]
fn parents_of_trajectories_are_no_additional_column() {
    let row = Trajectory { id: "a".into(), parents: vec!["p".into()], ..Trajectory::default() };
    let extra = ExtraColumns::default();
    let batch = encode_rows(&[&row], &Trajectory::schema(extra), extra).unwrap();
    assert_eq!(ExtraColumns::of_batch(&batch), extra);
}
